package org.flinkagents.durable;

import static org.flinkagents.durable.JavaAgents.input;
import static org.flinkagents.durable.JavaAgents.made;
import static org.flinkagents.durable.JavaAgents.onInput;
import static org.flinkagents.durable.JavaAgents.open;
import static org.flinkagents.durable.JavaAgents.outputs;
import static org.flinkagents.durable.JavaAgents.plan;
import static org.flinkagents.durable.JavaAgents.storedIn;
import static org.flinkagents.durable.JavaAgents.until;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import java.util.Map;
import java.util.stream.Stream;
import org.apache.flink.runtime.checkpoint.CheckpointType;
import org.apache.flink.util.InstantiationUtil;
import org.flinkagents.durable.api.DurableCallable;
import org.flinkagents.durable.api.Event;
import org.flinkagents.durable.api.Outcome;
import org.flinkagents.durable.api.OutputEvent;
import org.flinkagents.durable.api.RunnerContext;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

/** Durable calls of Java actions that fail, are interrupted, or are in doubt. */
@Timeout(180)
public class JavaFailuresTest {
    @TempDir private Path folder;

    @BeforeEach
    @AfterEach
    void reset() {
        JavaTestActions.reset();
    }

    @ParameterizedTest
    @ValueSource(strings = {"pickle", "json"})
    void f7F10AndX2ToX4FailuresReplayAsTheirClassOrAsWhatStandsForThem(String payload)
            throws Exception {
        Map<String, Object> options = Map.of("options", Map.of("agents.payload", payload));
        String busy =
                "\"Busy(busy)7 < RecordedCallException(" + odd(500, "why") + "){status=500}\"";
        String odd = "\"RecordedCallException(" + odd(429, "slow") + "){status=429}\"";
        String none = "\"IllegalStateException(null)\"";
        String expected =
                String.format(
                        "[%s, %s, %s, %s, %s, %s, \"fine!\", \"DurableSerializationException\","
                                + " \"neighbour!\", \"IOException(in place)\"]",
                        busy, busy, odd, odd, none, none);
        JavaTestActions.hold("held");
        try (Harness harness = open(plan("failures", folder, options))) {
            input(harness, "k");
            assertEquals(List.of(expected), outputs(harness, 1));
            until(harness, () -> made().contains("held"));
        }
        JavaTestActions.reset();
        try (Harness harness = open(plan("failures", folder, options))) {
            input(harness, "k");
            assertEquals(List.of(expected, "\"end\""), outputs(harness, 2));
            assertEquals(List.of("held"), made());
        }
    }

    /** As HTTP clients make it of a request that was refused. */
    public static final class Refused extends RuntimeException {
        private static final long serialVersionUID = 1L;

        public final String apiKey = "key-of-the-field";
        public final int status = 401;

        Refused() {
            super(
                    "refused: Authorization: Bearer token-of-the-message",
                    new IOException("GET https://anna:password-of-the-cause@host/"));
        }
    }

    /** The first attempt waits behind the failures, so that the records are kept. */
    public static void leaking(Event event, RunnerContext ctx) throws Exception {
        DurableCallable<String> refused =
                JavaTestActions.call(
                        "refused",
                        String.class,
                        () -> {
                            throw new Refused();
                        });
        Outcome<String> gathered = ctx.gather(ctx.durableExecuteAsync(refused)).get(0);
        try {
            ctx.durableExecute(refused);
        } catch (RuntimeException e) {
            ctx.sendEvent(new OutputEvent(gathered.getError().getClass().equals(e.getClass())));
        }
        ctx.await(ctx.durableExecuteAsync(JavaTestActions.echo("held")));
        throw new Refused();
    }

    @ParameterizedTest
    @ValueSource(strings = {"pickle", "json"})
    void x8NoCredentialOfAFailureReachesTheStoreOrTheState(String payload) throws Exception {
        Map<String, Object> more =
                Map.of(
                        "options",
                        Map.of("agents.payload", payload, "agents.action-failure", "skip"));
        byte[] stored =
                plan(List.of(onInput(JavaFailuresTest.class, "leaking")), storedIn(folder), more);
        JavaTestActions.hold("held");
        try (Harness harness = open(stored)) {
            input(harness, "k");
            outputs(harness, 1);
            until(harness, () -> made().contains("held"));
            String state =
                    text(
                            InstantiationUtil.serializeObject(
                                    harness.snapshot(1, CheckpointType.CHECKPOINT)));
            assertClean(state);
            JavaTestActions.hold("held").countDown();
            input(harness, "other");
            outputs(harness, 2);
        }
        StringBuilder log = new StringBuilder();
        try (Stream<Path> files = Files.walk(folder)) {
            for (Path file : (Iterable<Path>) files.filter(Files::isRegularFile)::iterator) {
                log.append(text(Files.readAllBytes(file)));
            }
        }
        assertClean(log.toString());
    }

    private static String text(byte[] bytes) {
        return new String(bytes, StandardCharsets.ISO_8859_1);
    }

    private static void assertClean(String stored) {
        assertTrue(stored.contains("$Refused"), "it is there");
        assertTrue(stored.contains("[removed]"), "what was removed is marked");
        for (String secret :
                List.of("key-of-the-field", "token-of-the-message", "password-of-the-cause")) {
            assertTrue(!stored.contains(secret), secret);
        }
    }

    private static String odd(int status, String reason) {
        return JavaTestActions.Odd.class.getName() + ": status " + status + " " + reason;
    }

    @Test
    void p14AnUncaughtFailureRunsAgainAfterTheRestart() throws Exception {
        JavaTestActions.broken = true;
        try (Harness harness = open(plan("uncaught", folder, Map.of()))) {
            Throwable end =
                    assertThrows(
                            Throwable.class,
                            () -> {
                                input(harness, "k");
                                outputs(harness, 2);
                            });
            String text = String.valueOf(end) + end.getCause();
            assertTrue(text.contains("java.lang.IllegalStateException: wrapped"), text);
        }
        JavaTestActions.reset();
        try (Harness harness = open(plan("uncaught", folder, Map.of()))) {
            input(harness, "k");
            assertEquals(List.of("\"first!\"", "\"end\""), outputs(harness, 2));
            assertEquals(List.of("second"), made());
        }
    }

    @ParameterizedTest
    @ValueSource(strings = {"single", "sync", "gather"})
    void r1ToR4ACallInDoubtIsReconciled(String mode) throws Exception {
        JavaTestActions.hold("doubtful");
        byte[] input = JavaAgents.text("{\"mode\": \"" + mode + "\"}");
        Harness first = open(plan("reconciled", folder, Map.of()));
        Thread crash =
                new Thread(
                        () -> {
                            // A synchronous call holds the task thread: an interrupt ends it.
                            Thread task = JavaAgents.taskThread;
                            while (!made().contains("doubtful")) {
                                Thread.onSpinWait();
                            }
                            if (mode.equals("sync")) {
                                task.interrupt();
                            }
                        });
        JavaAgents.taskThread = Thread.currentThread();
        crash.setDaemon(true);
        crash.start();
        try {
            JavaAgents.process(first, "k", input);
            until(first, () -> made().contains("doubtful"));
        } catch (Throwable interrupted) {
            assertEquals("sync", mode);
        }
        crash.join();
        Thread.interrupted();
        first.close();
        JavaTestActions.reset();
        try (Harness harness = open(plan("reconciled", folder, Map.of()))) {
            JavaAgents.process(harness, "k", input);
            assertEquals(List.of("\"reconciled\""), outputs(harness, 1));
            assertTrue(made().contains("reconcile doubtful"), made().toString());
            assertTrue(!made().contains("doubtful"), made().toString());
        }
        JavaTestActions.reset();
        try (Harness harness = open(plan("reconciled", folder, Map.of()))) {
            JavaAgents.process(harness, "k", input);
            assertEquals(List.of("\"reconciled\""), outputs(harness, 1));
            assertEquals(List.of(), made(), "R3: neither is called");
        }
    }

    @Test
    void f8AndCallTimeouts() throws Exception {
        JavaTestActions.hold("slow");
        JavaTestActions.hold("single");
        String expected = "[\"fast!\", \"CallTimeoutException\", \"again\", \"single\"]";
        for (int attempt = 0; attempt < 2; attempt++) {
            try (Harness harness = open(plan("late", folder, Map.of()))) {
                input(harness, "k");
                assertEquals(List.of(expected), outputs(harness, 1));
            }
            assertEquals(attempt == 0 ? 3 : 0, made().size());
            JavaTestActions.reset();
        }
    }

    @Test
    void retriesAreThoseOfThePolicyAndAreJournaled() throws Exception {
        for (int attempt = 0; attempt < 2; attempt++) {
            try (Harness harness = open(plan("retried", folder, Map.of()))) {
                input(harness, "k");
                assertEquals(List.of("[3, 3, \"final\"]"), outputs(harness, 1));
            }
            assertEquals(attempt == 0 ? 7 : 0, made().size());
            JavaTestActions.reset();
        }
    }

    @ParameterizedTest
    @ValueSource(strings = {"single", "sync", "gather"})
    void i1AndI2AnInterruptionIsNotRecordedAndItsOriginalArrives(String mode) throws Exception {
        JavaTestActions.broken = true;
        byte[] input = JavaAgents.text("{\"mode\": \"" + mode + "\"}");
        try (Harness harness = open(plan("interrupted", folder, Map.of()))) {
            assertThrows(
                    Throwable.class,
                    () -> {
                        JavaAgents.process(harness, "k", input);
                        outputs(harness, 2);
                    });
            assertEquals(List.of("stop", true), List.copyOf(JavaTestActions.CAUGHT));
            assertTrue(!harness.emitted().contains("\"swallowed\""), "commands are refused");
            assertTrue(!made().contains("after"));
            assertTrue(!Thread.interrupted(), "the task itself was not interrupted");
        }
        JavaTestActions.reset();
        try (Harness harness = open(plan("interrupted", folder, Map.of()))) {
            JavaAgents.process(harness, "k", input);
            assertEquals(List.of("\"before!\"", "\"done\""), outputs(harness, 2));
            assertTrue(made().contains("interrupted"), made().toString());
            assertTrue(!made().contains("before"), made().toString());
        }
    }

    @Test
    void l6AnActionThatIsAbandonedUnwindsAndIsRefused() throws Exception {
        JavaTestActions.hold("held");
        try (Harness harness = open(plan("closing", null, Map.of()))) {
            input(harness, "k");
            until(harness, () -> made().contains("held"));
        }
        assertEquals(List.of("finally", "AbandonedError"), List.copyOf(JavaTestActions.CAUGHT));
    }
}
