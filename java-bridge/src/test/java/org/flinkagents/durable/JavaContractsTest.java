package org.flinkagents.durable;

import static org.flinkagents.durable.JavaAgents.input;
import static org.flinkagents.durable.JavaAgents.made;
import static org.flinkagents.durable.JavaAgents.open;
import static org.flinkagents.durable.JavaAgents.outputs;
import static org.flinkagents.durable.JavaAgents.plan;
import static org.flinkagents.durable.JavaAgents.until;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.nio.file.Path;
import java.util.List;
import java.util.Map;
import org.apache.flink.runtime.checkpoint.CheckpointType;
import org.apache.flink.runtime.checkpoint.OperatorSubtaskState;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.io.TempDir;

/** Contracts of Java actions beside those of failures: limits, identity, checkpoints, ends. */
@Timeout(180)
class JavaContractsTest {
    @TempDir private Path folder;

    @BeforeEach
    @AfterEach
    void reset() {
        JavaTestActions.reset();
    }

    @Test
    void f11ABatchKeepsToTheParallelismOfCalls() throws Exception {
        Map<String, Object> two = Map.of("options", Map.of("agents.call.parallelism", 2));
        try (Harness harness = open(plan("many", folder, two))) {
            input(harness, "k");
            assertEquals(List.of("8"), outputs(harness, 1));
        }
        assertEquals(2, JavaTestActions.MOST.get());
    }

    @Test
    void f11CallsKeepToTheirLimitAndToTheWorkers() throws Exception {
        Map<String, Object> limits =
                Map.of("options", Map.of("agents.limits.model.max-concurrency", 3));
        try (Harness harness = open(plan("many", null, limits))) {
            JavaAgents.process(harness, "k", JavaAgents.text("{\"limit\": \"model\"}"));
            assertEquals(List.of("8"), outputs(harness, 1));
        }
        assertEquals(3, JavaTestActions.MOST.get());
        JavaTestActions.reset();
        Map<String, Object> workers = Map.of("options", Map.of("agents.call.workers", 4));
        try (Harness harness = open(plan("many", null, workers))) {
            input(harness, "k");
            assertEquals(List.of("8"), outputs(harness, 1));
        }
        assertEquals(4, JavaTestActions.MOST.get());
    }

    @Test
    void aLimitThatIsNotConfiguredIsAnError() throws Exception {
        try (Harness harness = open(plan("many", null, Map.of()))) {
            Throwable end =
                    assertThrows(
                            Throwable.class,
                            () -> {
                                JavaAgents.process(
                                        harness, "k", JavaAgents.text("{\"limit\": \"model\"}"));
                                outputs(harness, 1);
                            });
            assertTrue((end + " " + end.getCause()).contains("model"), end.toString());
        }
    }

    @Test
    void d3CallsOfOneIdAreToldApartByTheirArguments() throws Exception {
        JavaTestActions.hold("held");
        try (Harness harness = open(plan("swapped", folder, Map.of()))) {
            input(harness, "k");
            assertEquals(List.of("[\"one!\", \"two!\"]"), outputs(harness, 1));
            until(harness, () -> made().contains("held"));
        }
        JavaTestActions.reset();
        JavaTestActions.broken = true;
        try (Harness harness = open(plan("swapped", folder, Map.of()))) {
            input(harness, "k");
            assertEquals("[\"two!\", \"one!\"]", outputs(harness, 2).get(0));
            assertEquals(List.of("two", "one", "held"), made(), "P13: from the first one on");
        }
    }

    @Test
    void l2AndS1WithoutAStoreACheckpointKeepsWhatWasFinished() throws Exception {
        JavaTestActions.hold("kc");
        OperatorSubtaskState state;
        try (Harness harness = open(plan("steps", null, Map.of()))) {
            input(harness, "k");
            outputs(harness, 2);
            until(harness, () -> made().contains("kc"));
            state = harness.snapshot(1, CheckpointType.CHECKPOINT);
        }
        JavaTestActions.reset();
        try (Harness harness = open(plan("steps", null, Map.of()), state)) {
            assertEquals(List.of("\"kc!\""), outputs(harness, 1), "L5: earlier outputs come once");
            assertEquals(List.of("kc"), made());
        }
    }

    @Test
    void i2AnInterruptOfTheTaskReachesTheActionAndIsNotRecorded() throws Exception {
        JavaTestActions.hold("held");
        Thread task = Thread.currentThread();
        Thread interrupter =
                new Thread(
                        () -> {
                            while (!made().contains("held")) {
                                Thread.onSpinWait();
                            }
                            task.interrupt();
                        });
        interrupter.setDaemon(true);
        interrupter.start();
        try (Harness harness = open(plan("waitInPlace", folder, Map.of()))) {
            assertThrows(
                    Throwable.class,
                    () -> {
                        input(harness, "k");
                        outputs(harness, 1);
                    });
            interrupter.join();
            Thread.interrupted();
            assertEquals(List.of(true), List.copyOf(JavaTestActions.CAUGHT));
            assertEquals(List.of(), harness.emitted());
        }
        JavaTestActions.reset();
        try (Harness harness = open(plan("waitInPlace", folder, Map.of()))) {
            input(harness, "k");
            assertEquals(List.of("\"end\""), outputs(harness, 1));
            assertEquals(List.of("held"), made(), "the call runs again");
        }
    }

    @Test
    void l6NothingOfAnExecutionStays() throws Exception {
        try (Harness harness = open(plan("leaving", null, Map.of()))) {
            input(harness, "k");
            outputs(harness, 1);
            until(
                    harness,
                    () -> {
                        System.gc();
                        return JavaTestActions.context.get() == null;
                    });
        }
    }

    @Test
    void i4CallsInFlightAtTheEndAreNeitherRecordedNorDelivered() throws Exception {
        JavaTestActions.hold("xa");
        try (Harness harness = open(plan("steps", folder, Map.of()))) {
            input(harness, "x");
            until(harness, () -> made().contains("xa"));
        }
        JavaTestActions.hold("xa").countDown();
        JavaTestActions.reset();
        try (Harness harness = open(plan("steps", folder, Map.of()))) {
            input(harness, "x");
            assertEquals(3, outputs(harness, 3).size());
            assertEquals(List.of("xa", "xb", "xc"), made());
        }
    }

    @Test
    void f6AFutureAndAContextBelongToTheirExecution() throws Exception {
        try (Harness harness = open(plan("foreign", null, Map.of()))) {
            input(harness, "k");
            assertEquals(List.of("[true]"), outputs(harness, 1));
            input(harness, "k");
            assertEquals("[true, true]", outputs(harness, 2).get(1));
        }
    }
}
