package org.flinkagents.durable;

import java.util.Queue;
import org.apache.flink.runtime.event.WatermarkEvent;
import org.apache.flink.streaming.api.operators.Output;
import org.apache.flink.streaming.api.watermark.Watermark;
import org.apache.flink.streaming.runtime.streamrecord.LatencyMarker;
import org.apache.flink.streaming.runtime.streamrecord.RecordAttributes;
import org.apache.flink.streaming.runtime.streamrecord.StreamRecord;
import org.apache.flink.streaming.runtime.watermarkstatus.WatermarkStatus;
import org.apache.flink.util.OutputTag;
import org.apache.flink.util.function.ThrowingRunnable;

/** A chained operator that runs mails before it takes a record, as AsyncWaitOperator does. */
final class YieldingOutput implements Output<StreamRecord<byte[]>> {
    private final Queue<Object> out;
    private final ThrowingRunnable<Exception> yield;

    YieldingOutput(Queue<Object> out, ThrowingRunnable<Exception> yield) {
        this.out = out;
        this.yield = yield;
    }

    @Override
    public void collect(StreamRecord<byte[]> record) {
        out.add(record);
        try {
            yield.run();
        } catch (Exception e) {
            throw new IllegalStateException(e);
        }
    }

    @Override
    public <X> void collect(OutputTag<X> tag, StreamRecord<X> record) {
        throw new UnsupportedOperationException();
    }

    @Override
    public void emitWatermark(Watermark mark) {
        out.add(mark);
    }

    @Override
    public void emitWatermark(WatermarkEvent watermark) {}

    @Override
    public void emitWatermarkStatus(WatermarkStatus status) {
        out.add(status);
    }

    @Override
    public void emitLatencyMarker(LatencyMarker marker) {}

    @Override
    public void emitRecordAttributes(RecordAttributes attributes) {}

    @Override
    public void close() {}
}
