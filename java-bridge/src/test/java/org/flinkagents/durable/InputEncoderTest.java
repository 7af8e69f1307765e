package org.flinkagents.durable;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.nio.charset.StandardCharsets;
import java.util.List;
import java.util.stream.Collectors;
import org.apache.flink.api.common.typeinfo.Types;
import org.apache.flink.streaming.api.watermark.Watermark;
import org.apache.flink.streaming.runtime.streamrecord.StreamRecord;
import org.apache.flink.streaming.runtime.watermarkstatus.WatermarkStatus;
import org.apache.flink.streaming.util.OneInputStreamOperatorTestHarness;
import org.apache.flink.types.Row;
import org.junit.jupiter.api.Test;

/** Records cross to Python together: each with its own value and time, none left behind. */
class InputEncoderTest {
    private static final int LIMIT = 4;

    private final FakePython python = new FakePython();

    @Test
    void aFullBatchCrossesAtOnceEachRecordWithItsOwnValue() throws Exception {
        try (OneInputStreamOperatorTestHarness<Row, Row> harness = open()) {
            records(harness, "a", "b", "c", "d");
            assertEquals(List.of("a", "b", "c", "d"), emitted(harness));
        }
    }

    @Test
    void s8TimestampsAreKeptAndAWatermarkComesAfterTheRecordsBeforeIt() throws Exception {
        try (OneInputStreamOperatorTestHarness<Row, Row> harness = open()) {
            harness.processElement(Row.of("a"), 3);
            harness.processWatermark(5);
            harness.processElement(new StreamRecord<>(Row.of("b")));
            harness.processWatermarkStatus(WatermarkStatus.IDLE);
            assertEquals(List.of("a@3", "watermark 5", "b", "idle"), emitted(harness));
        }
    }

    @Test
    void k1ABarrierComesAfterTheRecordsBeforeIt() throws Exception {
        try (OneInputStreamOperatorTestHarness<Row, Row> harness = open()) {
            records(harness, "a", "b");
            harness.getOneInputOperator().prepareSnapshotPreBarrier(1);
            assertEquals(List.of("a", "b"), emitted(harness));
        }
    }

    @Test
    void theEndOfInputComesAfterTheRecordsBeforeIt() throws Exception {
        try (OneInputStreamOperatorTestHarness<Row, Row> harness = open()) {
            records(harness, "a");
            harness.endInput();
            assertEquals(List.of("a"), emitted(harness));
        }
        assertTrue(python.closed);
    }

    @Test
    void recordsDoNotWaitLongerThanTheLinger() throws Exception {
        try (OneInputStreamOperatorTestHarness<Row, Row> harness = open()) {
            records(harness, "a", "b");
            harness.setProcessingTime(harness.getProcessingTime() + InputBatch.LINGER_MILLIS);
            assertEquals(List.of("a", "b"), emitted(harness));
        }
    }

    private static void records(
            OneInputStreamOperatorTestHarness<Row, Row> harness, String... texts) throws Exception {
        for (String text : texts) {
            harness.processElement(new StreamRecord<>(Row.of(text)));
        }
    }

    private OneInputStreamOperatorTestHarness<Row, Row> open() throws Exception {
        python.on(
                "encode",
                arguments -> {
                    Object[] values = (Object[]) arguments[0];
                    Object[] encoded = new Object[2 * values.length];
                    for (int i = 0; i < values.length; i++) {
                        Object[] row = (Object[]) values[i]; // its kind and its fields
                        byte[] text = Harness.bytes((String) ((Object[]) row[1])[0]);
                        encoded[2 * i] = text;
                        encoded[2 * i + 1] = text;
                    }
                    return encoded;
                });
        OneInputStreamOperatorTestHarness<Row, Row> harness =
                new OneInputStreamOperatorTestHarness<>(
                        new InputEncoderFactory<>(
                                Types.ROW(Types.STRING), new byte[0], 2, LIMIT, python.factory()));
        harness.setup();
        harness.open();
        return harness;
    }

    private static List<String> emitted(OneInputStreamOperatorTestHarness<Row, Row> harness) {
        return harness.getOutput().stream()
                .map(InputEncoderTest::describe)
                .collect(Collectors.toList());
    }

    private static String describe(Object item) {
        if (item instanceof Watermark) {
            return "watermark " + ((Watermark) item).getTimestamp();
        }
        if (item instanceof WatermarkStatus) {
            return ((WatermarkStatus) item).isActive() ? "active" : "idle";
        }
        StreamRecord<?> record = (StreamRecord<?>) item;
        byte[] key = (byte[]) ((Row) record.getValue()).getField(0);
        String text = new String(key, StandardCharsets.UTF_8);
        return record.hasTimestamp() ? text + "@" + record.getTimestamp() : text;
    }
}
