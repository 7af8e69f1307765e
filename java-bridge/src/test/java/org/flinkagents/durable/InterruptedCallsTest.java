package org.flinkagents.durable;

import static org.flinkagents.durable.Harness.bytes;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNotNull;

import java.io.File;
import java.nio.file.Path;
import java.util.List;
import java.util.stream.Stream;
import org.apache.flink.configuration.Configuration;
import org.apache.flink.python.PythonOptions;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.Arguments;
import org.junit.jupiter.params.provider.MethodSource;

/**
 * Durable functions that call Java meet what Java throws: an interruption ends the attempt and is
 * never recorded, all else is the failure of its call. The Python side is interruptions.py.
 */
@Timeout(120)
class InterruptedCallsTest {
    private static final String[] MODES = {
        "synchronous",
        "synchronous in place",
        "synchronous on the loop",
        "worker",
        "loop",
        "gather",
        "reconciler"
    };

    @TempDir private Path folder;

    /** What every mode meets; and the rest of the kinds, which differ in Java alone. */
    static Stream<Arguments> interruptions() {
        return Stream.concat(
                in(
                        MODES,
                        "interrupted",
                        "closed-by-interrupt:5",
                        "cancelled:1",
                        "sleep",
                        "from/interrupted",
                        "from from/cancelled:2"),
                in(
                        new String[] {"worker"},
                        "closed-by-interrupt",
                        "cancelled",
                        "subclass",
                        "future",
                        "interrupted:1",
                        "interrupted:2",
                        "interrupted:3",
                        "cancelled:4",
                        "interrupted:5"));
    }

    static Stream<Arguments> failures() {
        return Stream.concat(
                in(MODES, "interrupted-io", "suppressed", "hostile", "context/interrupted"),
                in(
                        new String[] {"worker"},
                        "interrupted-io:2",
                        "cycle",
                        "error",
                        "from/interrupted-io"));
    }

    private static Stream<Arguments> in(String[] modes, String... kinds) {
        return Stream.of(modes)
                .flatMap(mode -> Stream.of(kinds).map(kind -> Arguments.of(mode, kind)));
    }

    @ParameterizedTest
    @MethodSource("interruptions")
    void i1AndI2AnInterruptionIsNotRecordedAndTheCallRunsAgain(String mode, String kind)
            throws Exception {
        String input = mode + "|call|" + kind;
        if (mode.equals("reconciler")) {
            leaveInDoubt(input);
        }
        try (Harness harness = open()) {
            answer(harness, "?failing");
            Throwable end = endOf(harness, input);
            assertNotNull(end, "the attempt goes on: " + harness.emitted());
            // A batch ends with the interruption of any of its calls, maybe before it has all
            // outcomes.
            if (!mode.equals("gather")) {
                assertEquals("True", answer(harness, "?original"), answer(harness, "?caught"));
            }
            assertEquals(List.of(), harness.emitted());
            assertEquals(0, countOf(made(harness), "call after"));
        }
        try (Harness harness = open()) {
            answer(harness, "?healthy");
            assertEquals(null, endOf(harness, input));
            assertEquals(List.of("answer"), harness.emitted());
            harness.getOutput().clear();
            String again = mode.equals("reconciler") ? "call reconciled" : "call";
            List<String> made = made(harness);
            assertEquals(0, countOf(made, "call before"), "what was finished is kept");
            assertEquals(mode.equals("gather") ? 2 : 1, countOf(made, again));
            assertEquals(0, countOf(made, "call doubtful"));
        }
    }

    @ParameterizedTest
    @MethodSource("failures")
    void i1AndX9AnyOtherErrorOfJavaIsTheRecordedFailureOfItsCall(String mode, String kind)
            throws Exception {
        String input = mode + "|call|" + kind;
        if (mode.equals("reconciler")) {
            leaveInDoubt(input);
        }
        List<String> first;
        try (Harness harness = open()) {
            answer(harness, "?failing");
            assertEquals(null, endOf(harness, input));
            first = harness.emitted();
            harness.getOutput().clear();
            // Of an implicit context no cause is made, and pemja cannot hand over what has no
            // message.
            boolean handedOver = !kind.startsWith("context/") && !kind.equals("hostile");
            assertEquals(
                    handedOver ? "True" : "False",
                    answer(harness, "?original"),
                    answer(harness, "?caught"));
        }
        try (Harness harness = open()) {
            answer(harness, "?healthy");
            assertEquals(null, endOf(harness, input));
            assertEquals(2, first.size());
            assertEquals(first, harness.emitted());
            harness.getOutput().clear();
            assertEquals(List.of(""), made(harness), "the failure replays, nothing is called");
        }
    }

    /** The call itself is interrupted once, so that its reconciler is asked the next time. */
    private void leaveInDoubt(String input) throws Exception {
        try (Harness harness = open()) {
            answer(harness, "?failing");
            assertNotNull(endOf(harness, input));
        }
    }

    /** Until the input has its last output (null), or what ended the attempt. */
    private static Throwable endOf(Harness harness, String input) {
        try {
            harness.input("k", input);
            while (!harness.emitted().contains("answer") && !harness.emitted().contains("done")) {
                harness.getTaskMailbox().take(-1).run();
            }
            return null;
        } catch (Throwable end) {
            return end;
        }
    }

    private static String answer(Harness harness, String question) throws Exception {
        int before = harness.getOutput().size();
        harness.input("k", question);
        String answer = harness.emitted().get(before);
        harness.getOutput().remove(harness.getOutput().toArray()[before]);
        return answer;
    }

    private static List<String> made(Harness harness) throws Exception {
        return List.of(answer(harness, "?made").split(","));
    }

    private static long countOf(List<String> made, String label) {
        return made.stream().filter(label::equals).count();
    }

    private Harness open() throws Exception {
        AgentSpec spec = new AgentSpec("uid", bytes(folder.toString()), 1_000, 1_000, 1, false);
        Harness harness = new Harness(spec, PemjaRuntime.factory("interruptions"), 1, 0);
        Configuration job = harness.getEnvironment().getJobConfiguration();
        job.set(PythonOptions.PYTHON_EXECUTABLE, PemjaRuntimeTest.PYTHON);
        job.set(
                PythonOptions.PYTHON_PATH,
                new File("src/test/resources/python").getAbsolutePath()
                        + File.pathSeparator
                        + new File("..").getAbsolutePath());
        harness.open();
        return harness;
    }
}
