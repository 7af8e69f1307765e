package org.flinkagents.durable;

import static org.flinkagents.durable.FakePython.result;
import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.List;
import org.junit.jupiter.api.Test;

/** Inputs that cross to Python together: in order, and before whatever comes after them. */
class InputBatchTest {
    private static final int LIMIT = 1_000;

    private final List<String> admitted = new ArrayList<>();
    private final FakePython python = new FakePython();

    @Test
    void aFullBatchCrossesAtOnceAndInOrder() {
        InputBatch batch = new InputBatch(3, 5);
        boolean now = false;
        for (int i = 0; i < 3; i++) {
            now = batch.add(new Object[] {i, i, i, i, i});
        }
        assertTrue(now);
        assertFalse(batch.isSingle());
        assertArrayEquals(new Object[] {0, 0, 0, 0, 0, 1, 1, 1, 1, 1, 2, 2, 2, 2, 2}, batch.take());
        assertTrue(batch.isEmpty());
    }

    @Test
    void s8AWatermarkComesAfterTheInputsBeforeIt() throws Exception {
        try (Harness harness = open()) {
            inputs(harness);
            harness.processWatermark(5);
            assertEquals(List.of("a", "b", "c"), admitted);
            assertEquals(1, python.count("watermark"));
        }
    }

    @Test
    void k1ASnapshotHasTheInputsBeforeItsBarrier() throws Exception {
        try (Harness harness = open()) {
            inputs(harness);
            harness.getOneInputOperator().prepareSnapshotPreBarrier(1);
            assertEquals(List.of("a", "b", "c"), admitted);
        }
    }

    @Test
    void theEndOfInputAdmitsWhatWaits() throws Exception {
        try (Harness harness = open()) {
            python.answer("end_input", result(0, 0, 0));
            inputs(harness);
            python.on(
                    "end_input",
                    a -> {
                        assertEquals(List.of("a", "b", "c"), admitted);
                        return result(0, 0, 0);
                    });
            harness.endInput();
        }
    }

    @Test
    void inputsDoNotWaitLongerThanTheLinger() throws Exception {
        try (Harness harness = open()) {
            inputs(harness);
            harness.setProcessingTime(harness.getProcessingTime() + InputBatch.LINGER_MILLIS);
            assertEquals(List.of("a", "b", "c"), admitted);
        }
    }

    private void inputs(Harness harness) throws Exception {
        for (String text : List.of("a", "b", "c")) {
            harness.input(text, text);
        }
    }

    private Harness open() throws Exception {
        python.on("process", a -> admit(a));
        python.on("process_batch", a -> admit((Object[]) a[0]));
        Harness harness = new Harness(python.factory(), LIMIT, 1, 0, LIMIT);
        harness.open();
        return harness;
    }

    private Object admit(Object[] flat) {
        for (int i = 0; i < flat.length; i += 5) {
            assertArrayEquals((byte[]) flat[i], (byte[]) flat[i + 2]);
            admitted.add(new String((byte[]) flat[i], StandardCharsets.UTF_8));
        }
        return result(1, 1, 0);
    }
}
