package org.flinkagents.durable;

import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import org.apache.flink.api.common.typeinfo.TypeInformation;
import org.apache.flink.fnexecution.v1.FlinkFnApi.CoderInfoDescriptor.Mode;
import org.apache.flink.python.util.ProtoUtils;
import org.apache.flink.streaming.api.operators.AbstractStreamOperator;
import org.apache.flink.streaming.api.operators.BoundedOneInput;
import org.apache.flink.streaming.api.operators.OneInputStreamOperator;
import org.apache.flink.streaming.api.operators.StreamOperatorParameters;
import org.apache.flink.streaming.api.utils.PythonTypeUtils;
import org.apache.flink.streaming.api.watermark.Watermark;
import org.apache.flink.streaming.runtime.streamrecord.StreamRecord;
import org.apache.flink.streaming.runtime.watermarkstatus.WatermarkStatus;
import org.apache.flink.types.Row;

/**
 * Turns records into rows of (encoded key, payload), many in one crossing to Python. PyFlink's own
 * operator crosses several times for each record, and each time may wait for the interpreter lock.
 */
final class InputEncoder<T> extends AbstractStreamOperator<Row>
        implements OneInputStreamOperator<T, Row>, BoundedOneInput {
    private static final long serialVersionUID = 1L;

    private static final int RECORD_WIDTH = 1;

    private final TypeInformation<T> inputType;
    private final byte[] encoder;
    private final int fields;
    private final int batch;
    private final PythonRuntimeFactory runtimes;

    /**
     * One for each place in a batch: what a converter returns is overwritten by its next record.
     */
    private transient List<PythonTypeUtils.DataConverter<T, Object>> converters;

    private transient PythonRuntime runtime;
    private transient InputBatch values;
    private transient List<StreamRecord<Row>> rows;
    private transient boolean encodingSoon;

    InputEncoder(
            StreamOperatorParameters<Row> parameters,
            TypeInformation<T> inputType,
            byte[] encoder,
            int fields,
            int batch,
            PythonRuntimeFactory runtimes) {
        super(parameters); // sets the processing-time service (K12)
        this.inputType = inputType;
        this.encoder = encoder;
        this.fields = fields;
        this.batch = batch;
        this.runtimes = runtimes;
    }

    @Override
    public void open() throws Exception {
        super.open();
        converters = new ArrayList<>();
        for (int i = 0; i < batch; i++) {
            converters.add(
                    PythonTypeUtils.TypeInfoToDataConverter.typeInfoDataConverter(inputType));
        }
        values = new InputBatch(batch, RECORD_WIDTH);
        rows = new ArrayList<>();
        Map<String, Object> settings = new HashMap<>();
        settings.put("encoder", encoder);
        settings.put(
                "input_type",
                ProtoUtils.createRawTypeCoderInfoDescriptorProto(
                                inputType, Mode.SINGLE, false, null)
                        .toByteArray());
        settings.put("runtime_context", getRuntimeContext());
        settings.put("job_parameters", getRuntimeContext().getGlobalJobParameters());
        runtime = runtimes.open(getContainingTask(), getRuntimeContext(), null, settings);
    }

    @Override
    public void processElement(StreamRecord<T> record) throws Exception {
        Object value = converters.get(rows.size()).toExternal(record.getValue());
        Row row = new Row(fields);
        rows.add(
                record.hasTimestamp()
                        ? new StreamRecord<>(row, record.getTimestamp())
                        : new StreamRecord<>(row));
        if (values.add(new Object[] {value})) {
            encode();
        } else {
            encodeSoon();
        }
    }

    private void encode() throws Exception {
        if (values.isEmpty()) {
            return;
        }
        Object[] encoded = PythonValues.array(runtime.call("encode", new Object[] {values.take()}));
        List<StreamRecord<Row>> ready = rows;
        rows = new ArrayList<>();
        for (int i = 0; i < ready.size(); i++) {
            Row row = ready.get(i).getValue();
            for (int field = 0; field < fields; field++) {
                row.setField(field, encoded[fields * i + field]);
            }
            output.collect(ready.get(i));
        }
    }

    private void encodeSoon() {
        if (!encodingSoon) {
            encodingSoon = true;
            long now = getProcessingTimeService().getCurrentProcessingTime();
            getProcessingTimeService()
                    .registerTimer(
                            now + InputBatch.LINGER_MILLIS,
                            time -> {
                                encodingSoon = false;
                                encode();
                            });
        }
    }

    /** Never overtakes the records before it. Keeps S8. */
    @Override
    public void processWatermark(Watermark mark) throws Exception {
        encode();
        super.processWatermark(mark);
    }

    @Override
    public void processWatermarkStatus(WatermarkStatus status) throws Exception {
        encode();
        super.processWatermarkStatus(status);
    }

    /** What waits here would be in no snapshot. */
    @Override
    public void prepareSnapshotPreBarrier(long checkpointId) throws Exception {
        encode();
        super.prepareSnapshotPreBarrier(checkpointId);
    }

    @Override
    public void endInput() throws Exception {
        encode();
    }

    @Override
    public void close() throws Exception {
        try {
            if (runtime != null) {
                runtime.close();
            }
        } finally {
            super.close();
        }
    }
}
