package org.flinkagents.durable;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.File;
import java.io.IOException;
import java.util.List;
import org.apache.flink.configuration.Configuration;
import org.apache.flink.python.PythonOptions;
import org.apache.flink.runtime.checkpoint.CheckpointType;
import org.apache.flink.runtime.checkpoint.OperatorSubtaskState;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;

/** The operator with a real interpreter; the Python side is src/test/resources/python. */
@Timeout(120)
class PemjaRuntimeTest {
    static final String PYTHON = System.getProperty("python.executable");

    @Test
    void settingsArriveAsPlainPythonValues() throws Exception {
        try (Harness harness = open(null)) {
            assertEquals(
                    "{'attempt': 'int', 'close_timeout_millis': 'int', 'first_group': 'int',"
                            + " 'job_id': 'str', 'job_name': 'str', 'last_group': 'int',"
                            + " 'local': 'bool', 'max_parallelism': 'int', 'num_retained': 'int',"
                            + " 'parallelism': 'int', 'plan': 'bytes', 'restored': 'bool',"
                            + " 'restored_checkpoint_id': 'int', 'store_properties': 'dict',"
                            + " 'subtask': 'int', 'uid': 'str',"
                            + " 'unaligned': 'bool'}",
                    answer(harness, "settings_types"));
            assertEquals("plan", answer(harness, "plan"));
        }
    }

    @Test
    void k9TheEnvironmentOfTheExecutableIsUsedThoughItIsNotOnPath() throws Exception {
        try (Harness harness = open(null)) {
            File environment = new File(PYTHON).getParentFile().getParentFile();
            assertEquals(
                    environment.getCanonicalPath(),
                    new File(answer(harness, "prefix")).getCanonicalPath());
            assertEquals("msgspec", answer(harness, "imports"));
        }
    }

    @Test
    void stateCrossesInBothDirections() throws Exception {
        OperatorSubtaskState snapshot;
        try (Harness harness = open(null)) {
            assertEquals("(None, None)", answer(harness, "read"));
            harness.input("k", "write");
            snapshot = harness.snapshot(1, CheckpointType.CHECKPOINT);
            String state = "(0, None, b'active', 1, 7, b'journal')";
            assertEquals("(" + state + ", ('a.b', b'memory'))", tuples(answer(harness, "read")));
        }
        try (Harness harness = open(snapshot)) {
            String restored = tuples(answer(harness, "what_was_restored"));
            assertTrue(restored.startsWith("(9, (0, b'group 0'), (b'k', "), restored);
            assertTrue(restored.endsWith("(0, None, b'active', 1, 7, b'journal')))"), restored);
        }
    }

    @Test
    void k12APythonThreadWakesThroughTheMailboxOfTheParameters() throws Exception {
        try (Harness harness = open(null)) {
            assertEquals("False", answer(harness, "wait"));
            harness.input("k", "wake_from_a_thread");
            harness.runMails();
            assertEquals(List.of("True", "woken"), harness.emitted());
        }
    }

    @Test
    void metricsAreReported() throws Exception {
        try (Harness harness = open(null)) {
            assertEquals("reported", answer(harness, "metrics"));
        }
    }

    @Test
    void k5AndI2AnInterruptThatPythonSwallowsStillEndsTheStep() throws Exception {
        try (Harness harness = open(null)) {
            Thread task = Thread.currentThread();
            Thread interrupter = new Thread(task::interrupt);
            interrupter.start();
            assertThrows(
                    InterruptedException.class, () -> harness.input("k", "wait_long_and_swallow"));
            interrupter.join();
            assertFalse(Thread.interrupted());
        }
    }

    @Test
    void s10AStuckCallDoesNotKeepTheOperatorFromClosing() throws Exception {
        Harness harness = open(null);
        assertEquals("stuck", answer(harness, "get_stuck"));
        harness.close();
        try (Harness next = open(null)) {
            assertEquals("plan", answer(next, "plan"));
        }
    }

    @Test
    void anUnusablePythonIsNamedWithTheRemedy() {
        for (String python : List.of("/no/such/python", "/bin/false")) {
            Throwable failure = assertThrows(IOException.class, () -> PythonSite.of(python));
            assertTrue(failure.getMessage().contains("'" + python + "'"), failure.getMessage());
            assertTrue(failure.getMessage().contains("python.executable"), failure.getMessage());
        }
    }

    private static Harness open(OperatorSubtaskState snapshot) throws Exception {
        Harness harness = new Harness(PemjaRuntime.factory("bridge_probe"), 1_000, 1, 0);
        Configuration job = harness.getEnvironment().getJobConfiguration();
        job.set(PythonOptions.PYTHON_EXECUTABLE, PYTHON);
        job.set(PythonOptions.PYTHON_PATH, new File("src/test/resources/python").getAbsolutePath());
        if (snapshot != null) {
            harness.initializeState(snapshot);
        }
        harness.open();
        return harness;
    }

    private static String answer(Harness harness, String question) throws Exception {
        harness.getOutput().clear();
        harness.input("k", question);
        String answer = harness.emitted().get(0);
        harness.getOutput().clear();
        return answer;
    }

    /** Java arrays arrive as tuples or lists, which is the same to the Python operator. */
    private static String tuples(String text) {
        return text.replace('[', '(').replace(']', ')');
    }
}
