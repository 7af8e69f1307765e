package org.flinkagents.durable;

import java.nio.charset.StandardCharsets;
import java.util.List;
import java.util.stream.Collectors;
import org.apache.flink.api.common.typeinfo.Types;
import org.apache.flink.runtime.checkpoint.OperatorSubtaskState;
import org.apache.flink.runtime.checkpoint.SnapshotType;
import org.apache.flink.streaming.api.watermark.Watermark;
import org.apache.flink.streaming.runtime.streamrecord.StreamRecord;
import org.apache.flink.streaming.runtime.watermarkstatus.WatermarkStatus;
import org.apache.flink.streaming.util.KeyedOneInputStreamOperatorTestHarness;
import org.apache.flink.types.Row;

/** Flink's harness around the operator, with texts for bytes. */
final class Harness extends KeyedOneInputStreamOperatorTestHarness<String, Row, byte[]> {
    static final int MAX_PARALLELISM = 8;

    Harness(FakePython python) throws Exception {
        this(python.factory(), 1_000, 1, 0);
    }

    Harness(PythonRuntimeFactory runtimes, long maxInFlight, int subtasks, int subtask)
            throws Exception {
        this(runtimes, maxInFlight, subtasks, subtask, 1);
    }

    Harness(
            PythonRuntimeFactory runtimes,
            long maxInFlight,
            int subtasks,
            int subtask,
            int inputBatch)
            throws Exception {
        this(
                new AgentSpec("uid", bytes("plan"), maxInFlight, 1_000, inputBatch, false),
                runtimes,
                subtasks,
                subtask);
    }

    Harness(AgentSpec spec, PythonRuntimeFactory runtimes, int subtasks, int subtask)
            throws Exception {
        super(
                new DurableAgentOperatorFactory(spec, runtimes),
                new EncodedKeySelector(),
                Types.STRING,
                MAX_PARALLELISM,
                subtasks,
                subtask);
    }

    static byte[] bytes(String text) {
        return text.getBytes(StandardCharsets.UTF_8);
    }

    void input(String key, String payload, long timestamp) throws Exception {
        processElement(Row.of(bytes(key), bytes(payload)), timestamp);
    }

    void input(String key, String payload) throws Exception {
        processElement(new StreamRecord<>(Row.of(bytes(key), bytes(payload))));
    }

    void resolution(String key, String resolution) throws Exception {
        processElement(new StreamRecord<>(Row.of(bytes(key), null, bytes(resolution))));
    }

    /** Runs what is in the mailbox now, and what that adds. */
    void runMails() throws Exception {
        while (getTaskMailbox().hasMail()) {
            getTaskMailbox().take(-1).run();
        }
    }

    DurableAgentOperator agents() {
        return (DurableAgentOperator) getOneInputOperator();
    }

    OperatorSubtaskState snapshot(long checkpointId, SnapshotType type) throws Exception {
        return snapshotWithLocalState(checkpointId, 0, type).getJobManagerOwnedState();
    }

    /** What was emitted, as "text", "text@timestamp", "watermark 5", "active" or "idle". */
    List<String> emitted() {
        return getOutput().stream().map(Harness::describe).collect(Collectors.toList());
    }

    static String describe(Object item) {
        if (item instanceof Watermark) {
            return "watermark " + ((Watermark) item).getTimestamp();
        }
        if (item instanceof WatermarkStatus) {
            return ((WatermarkStatus) item).isActive() ? "active" : "idle";
        }
        StreamRecord<?> record = (StreamRecord<?>) item;
        String text = new String((byte[]) record.getValue(), StandardCharsets.UTF_8);
        return record.hasTimestamp() ? text + "@" + record.getTimestamp() : text;
    }
}
