package org.flinkagents.durable;

import static org.flinkagents.durable.FakePython.result;
import static org.flinkagents.durable.Harness.bytes;
import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNull;

import java.util.ArrayList;
import java.util.List;
import org.apache.flink.api.common.typeinfo.TypeInformation;
import org.apache.flink.api.common.typeinfo.Types;
import org.apache.flink.core.execution.SavepointFormatType;
import org.apache.flink.runtime.checkpoint.SavepointType;
import org.apache.flink.runtime.state.KeyGroupRangeAssignment;
import org.apache.flink.streaming.api.watermark.Watermark;
import org.apache.flink.streaming.runtime.streamrecord.StreamRecord;
import org.apache.flink.streaming.runtime.watermarkstatus.WatermarkStatus;
import org.apache.flink.streaming.util.OneInputStreamOperatorTestHarness;
import org.apache.flink.types.Row;
import org.junit.jupiter.api.Test;

/** Resolutions of awakeables among the inputs, and their side without event time. */
class AwakeableRowsTest {
    private final FakePython python = new FakePython();

    @Test
    void aResolutionReachesPythonBehindTheInputsBeforeIt() throws Exception {
        Harness harness = new Harness(python.factory(), 1_000, 1, 0, 64);
        harness.setup();
        harness.open();
        List<String> order = new ArrayList<>();
        python.on("process", a -> add(order, "input"));
        python.on("awaken", a -> add(order, "resolution"));
        harness.processElement(new StreamRecord<>(Row.of(bytes("k"), bytes("v"), null)));
        harness.resolution("k", "r");
        assertEquals(List.of("input", "resolution"), order);
        Object[] arguments = python.argumentsOf("awaken");
        assertArrayEquals(bytes("k"), (byte[]) arguments[0]);
        assertEquals(
                KeyGroupRangeAssignment.assignToKeyGroup("k", Harness.MAX_PARALLELISM),
                arguments[1]);
        assertArrayEquals(bytes("r"), (byte[]) arguments[2]);
        assertNull(arguments[3]);
        harness.close();
    }

    private static Object add(List<String> order, String what) {
        order.add(what);
        return null;
    }

    /** The run that it ends may be what the input before it waits for. */
    @Test
    void aResolutionIsNotHeldBackByInputsInFlight() throws Exception {
        python.answer("process", result(1, 1, 0));
        python.answer("awaken", result(1, 1, 0));
        try (Harness harness = new Harness(python.factory(), 1, 1, 0)) {
            harness.setup();
            harness.open();
            harness.resolution("k", "r");
            long before = harness.getProcessingTime();
            for (int i = 0; i < 100; i++) {
                harness.resolution("k", "r");
            }
            assertEquals(before, harness.getProcessingTime());
            assertEquals(101, python.count("awaken"));
        }
    }

    @Test
    void k7AResolutionWaitsForTheEndOfAStop() throws Exception {
        try (Harness harness = new Harness(python)) {
            harness.setup();
            harness.open();
            harness.snapshot(1, SavepointType.suspend(SavepointFormatType.CANONICAL));
            harness.resolution("k", "r");
            assertEquals(0, python.count("awaken"));
            harness.getOneInputOperator().notifyCheckpointAborted(1);
            assertEquals(1, python.count("awaken"));
        }
    }

    @Test
    void k4TheirSideIsIdleFromTheStartAndPassesNoEventTime() throws Exception {
        TypeInformation<Row> type = Types.ROW(Types.STRING);
        try (OneInputStreamOperatorTestHarness<Row, Row> harness =
                new OneInputStreamOperatorTestHarness<>(AwakeableRows.timeless())) {
            harness.setup(
                    type.createSerializer(harness.getExecutionConfig().getSerializerConfig()));
            harness.open();
            harness.processWatermarkStatus(WatermarkStatus.ACTIVE);
            harness.processElement(Row.of("r"), 5);
            harness.processWatermark(new Watermark(9));
            harness.processWatermark(Watermark.MAX_WATERMARK);
            List<Object> seen = new ArrayList<>(harness.getOutput());
            assertEquals(2, seen.size());
            assertEquals(WatermarkStatus.IDLE, seen.get(0));
            StreamRecord<?> record = (StreamRecord<?>) seen.get(1);
            assertEquals(Row.of("r"), record.getValue());
            assertFalse(record.hasTimestamp());
        }
    }
}
