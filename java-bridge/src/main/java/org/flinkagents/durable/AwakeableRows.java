package org.flinkagents.durable;

import org.apache.flink.streaming.api.datastream.DataStream;
import org.apache.flink.streaming.api.operators.AbstractStreamOperator;
import org.apache.flink.streaming.api.operators.AbstractStreamOperatorFactory;
import org.apache.flink.streaming.api.operators.ChainingStrategy;
import org.apache.flink.streaming.api.operators.OneInputStreamOperator;
import org.apache.flink.streaming.api.operators.OneInputStreamOperatorFactory;
import org.apache.flink.streaming.api.operators.StreamOperator;
import org.apache.flink.streaming.api.operators.StreamOperatorParameters;
import org.apache.flink.streaming.api.watermark.Watermark;
import org.apache.flink.streaming.runtime.streamrecord.StreamRecord;
import org.apache.flink.streaming.runtime.watermarkstatus.WatermarkStatus;
import org.apache.flink.types.Row;

/**
 * Resolutions of awakeables travel with the inputs, as rows of (encoded key, null, resolution).
 * They have no event time: their side is idle from the start, and its watermarks end here, so that
 * those of the inputs are never held.
 */
final class AwakeableRows {
    private static final int FIELDS = 3;
    private static final int RESOLUTION = 2;

    private AwakeableRows() {}

    /** The inputs and the resolutions, both rows of three fields. */
    static DataStream<Row> union(DataStream<Row> inputs, DataStream<Row> resolutions, String name) {
        DataStream<Row> timeless = resolutions.transform(name, resolutions.getType(), timeless());
        // Resolutions of one awakeable stay in order: the first one counts.
        timeless.getTransformation().setParallelism(resolutions.getParallelism(), false);
        return inputs.union(timeless);
    }

    static OneInputStreamOperatorFactory<Row, Row> timeless() {
        return new TimelessFactory();
    }

    /** The resolution in a row; null for an input. */
    static byte[] resolutionIn(Row row) {
        return row.getArity() == FIELDS ? (byte[]) row.getField(RESOLUTION) : null;
    }

    /** Passes records on, without their timestamps. */
    static final class Timeless extends AbstractStreamOperator<Row>
            implements OneInputStreamOperator<Row, Row> {
        private static final long serialVersionUID = 1L;

        Timeless(StreamOperatorParameters<Row> parameters) {
            super(parameters);
        }

        @Override
        public void open() throws Exception {
            super.open();
            output.emitWatermarkStatus(WatermarkStatus.IDLE);
        }

        @Override
        public void processElement(StreamRecord<Row> record) {
            output.collect(new StreamRecord<>(record.getValue()));
        }

        @Override
        public void processWatermark(Watermark mark) {}

        @Override
        public void processWatermarkStatus(WatermarkStatus status) {}
    }

    private static final class TimelessFactory extends AbstractStreamOperatorFactory<Row>
            implements OneInputStreamOperatorFactory<Row, Row> {
        private static final long serialVersionUID = 1L;

        TimelessFactory() {
            setChainingStrategy(ChainingStrategy.ALWAYS);
        }

        @Override
        public <T extends StreamOperator<Row>> T createStreamOperator(
                StreamOperatorParameters<Row> parameters) {
            @SuppressWarnings("unchecked")
            T operator = (T) new Timeless(parameters);
            return operator;
        }

        @Override
        @SuppressWarnings("rawtypes")
        public Class<? extends StreamOperator> getStreamOperatorClass(ClassLoader classLoader) {
            return Timeless.class;
        }
    }
}
