package org.flinkagents.durable;

import static org.flinkagents.durable.FakePython.result;
import static org.flinkagents.durable.Harness.bytes;
import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertSame;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.List;
import java.util.stream.Collectors;
import org.apache.flink.runtime.state.KeyGroupRangeAssignment;
import org.apache.flink.streaming.runtime.watermarkstatus.WatermarkStatus;
import org.junit.jupiter.api.Test;

/** Inputs, wake-ups, watermarks and outputs. */
class OperatorStepsTest {
    private final FakePython python = new FakePython();

    @Test
    void anInputReachesPythonWithItsKeyGroupAndTimestamp() throws Exception {
        try (Harness harness = open()) {
            harness.input("k", "v", 7);
            Object[] arguments = python.argumentsOf("process");
            assertArrayEquals(bytes("k"), (byte[]) arguments[0]);
            assertEquals(
                    KeyGroupRangeAssignment.assignToKeyGroup("k", Harness.MAX_PARALLELISM),
                    arguments[1]);
            assertArrayEquals(bytes("v"), (byte[]) arguments[2]);
            assertEquals(7L, arguments[3]);
        }
    }

    @Test
    void s8OutputsKeepTimestampsAndItsAbsence() throws Exception {
        python.answer("process", result(0, 0, 0, bytes("a"), 5L, bytes("b"), null));
        try (Harness harness = open()) {
            harness.input("k", "v");
            assertNull(python.argumentsOf("process")[3]);
            assertEquals(List.of("a@5", "b"), harness.emitted());
        }
    }

    @Test
    void deadLettersGoToTheSideOutput() throws Exception {
        Object[] letter = {bytes("letter"), 5L};
        Object[] untimed = {bytes("other"), null};
        python.answer("process", result(0, 0, 0, letter, bytes("a"), 5L, untimed));
        try (Harness harness = open()) {
            harness.input("k", "v", 5);
            assertEquals(List.of("a@5"), harness.emitted());
            assertEquals(
                    List.of("letter@5", "other"),
                    harness.getSideOutput(DeadLetters.TAG).stream()
                            .map(Harness::describe)
                            .collect(Collectors.toList()));
        }
    }

    @Test
    void s8WatermarksPassAtOnceWithoutPythonWhileNothingIsLive() throws Exception {
        try (Harness harness = open()) {
            harness.processWatermark(3);
            harness.processWatermarkStatus(WatermarkStatus.IDLE);
            assertEquals(List.of("watermark 3", "idle"), harness.emitted());
            assertEquals(0, python.count("watermark") + python.count("watermark_status"));
        }
    }

    @Test
    void s8AndK4WatermarkAndStatusWaitForPythonWhileRunsAreLive() throws Exception {
        python.answer("process", result(1, 1, 0));
        python.answer("drain", result(0, 0, 0, bytes("out"), 1L, 9L, false, true));
        try (Harness harness = open()) {
            harness.input("k", "v", 1);
            harness.processWatermark(9);
            harness.processWatermarkStatus(WatermarkStatus.IDLE);
            harness.processWatermarkStatus(WatermarkStatus.ACTIVE);
            assertEquals(List.of(), harness.emitted());
            assertEquals(9L, python.argumentsOf("watermark")[0]);
            assertEquals(true, python.argumentsOf("watermark_status")[0]);
            python.host.wake();
            harness.runMails();
            assertEquals(List.of("out@1", "watermark 9", "idle", "active"), harness.emitted());
            harness.processWatermark(10);
            assertEquals(1, python.count("watermark"));
        }
    }

    @Test
    void wakeUpsBeforeADrainAreOneMail() throws Exception {
        try (Harness harness = open()) {
            for (int i = 0; i < 100; i++) {
                python.host.wake();
            }
            assertEquals(1, harness.getTaskMailbox().size());
            harness.runMails();
            python.host.wake();
            harness.runMails();
            assertEquals(2, python.count("drain"));
        }
    }

    @Test
    void k10MoreWorkIsDoneInMailsOfItsOwn() throws Exception {
        python.on("drain", a -> result(1, 1, python.count("drain") < 3 ? 1 : 0));
        try (Harness harness = open()) {
            python.host.wake();
            harness.getTaskMailbox().take(-1).run();
            assertEquals(1, python.count("drain"));
            harness.runMails();
            assertEquals(3, python.count("drain"));
        }
    }

    @Test
    void k4EndOfInputWaitsForAllRunsAndEmitsTheHeldWatermark() throws Exception {
        python.answer("process", result(1, 1, 0));
        python.answer("drain", result(0, 0, 0, bytes("late"), null, Long.MAX_VALUE));
        Harness harness = open();
        harness.input("k", "v");
        harness.processWatermark(Long.MAX_VALUE);
        python.on(
                "end_input",
                a -> {
                    Thread waker = new Thread(python.host::wake);
                    waker.start();
                    return null;
                });
        harness.endInput();
        assertEquals(List.of("late", "watermark " + Long.MAX_VALUE), harness.emitted());
        harness.close();
    }

    @Test
    void k7NothingIsEmittedAfterFinish() throws Exception {
        python.answer("drain", result(0, 0, 0, bytes("late"), null));
        Harness harness = open();
        harness.getOneInputOperator().finish();
        assertEquals(1, python.count("finish"));
        python.host.wake();
        harness.runMails();
        assertEquals(List.of(), harness.emitted());
        harness.close();
    }

    @Test
    void k2AWakeUpInAYieldFurtherDownTheChainIsDeferred() throws Exception {
        python.answer("process", result(1, 1, 0, bytes("a"), null, bytes("b"), null));
        python.answer("drain", result(0, 0, 0, bytes("c"), null));
        Harness harness = new Harness(python);
        boolean[] yielded = {false};
        harness.setOutputCreator(
                serializer ->
                        new YieldingOutput(
                                harness.getOutput(),
                                () -> {
                                    if (!yielded[0]) {
                                        yielded[0] = true;
                                        python.host.wake();
                                        harness.runMails();
                                    }
                                }));
        harness.setup();
        harness.open();
        harness.input("k", "v");
        harness.runMails();
        assertTrue(yielded[0]);
        assertEquals(List.of("a", "b", "c"), harness.emitted());
        harness.close();
    }

    @Test
    void k2PythonIsNotEnteredFromInsideAPythonCall() throws Exception {
        try (Harness harness = open()) {
            python.on(
                    "process",
                    a -> {
                        python.host.wake();
                        harness.runMails();
                        assertThrows(
                                IllegalStateException.class,
                                () -> harness.agents().notifyCheckpointComplete(1));
                        return null;
                    });
            harness.input("k", "v");
            assertEquals(0, python.count("drain"));
            assertEquals(0, python.count("completed"));
            harness.runMails();
            assertEquals(1, python.count("drain"));
        }
    }

    @Test
    void aFailureOfPythonFailsTheTask() throws Exception {
        Exception failure = new Exception("traceback");
        python.on(
                "process",
                a -> {
                    throw failure;
                });
        try (Harness harness = open()) {
            assertSame(failure, assertThrows(Exception.class, () -> harness.input("k", "v")));
        }
    }

    @Test
    void k5AnInterruptedWaitComesBackAsTheInterruptionThatItWas() throws Exception {
        python.on(
                "process",
                a -> {
                    Thread.currentThread().interrupt();
                    try {
                        python.host.awaitSignal(10_000);
                    } catch (InterruptedException e) {
                        throw new Exception("RuntimeError: java.lang.InterruptedException");
                    }
                    return null;
                });
        try (Harness harness = open()) {
            assertThrows(InterruptedException.class, () -> harness.input("k", "v"));
        }
        python.on(
                "process",
                a -> {
                    Thread.currentThread().interrupt();
                    assertThrows(InterruptedException.class, () -> python.host.awaitSignal(10_000));
                    return null; // user code may swallow what it likes
                });
        try (Harness harness = open()) {
            assertThrows(InterruptedException.class, () -> harness.input("k", "v"));
            assertFalse(Thread.interrupted());
        }
    }

    private Harness open() throws Exception {
        Harness harness = new Harness(python);
        harness.open();
        return harness;
    }
}
