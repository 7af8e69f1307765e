package org.flinkagents.durable;

import org.apache.flink.api.common.typeinfo.TypeInformation;
import org.apache.flink.streaming.api.operators.AbstractStreamOperatorFactory;
import org.apache.flink.streaming.api.operators.OneInputStreamOperatorFactory;
import org.apache.flink.streaming.api.operators.StreamOperator;
import org.apache.flink.streaming.api.operators.StreamOperatorParameters;
import org.apache.flink.types.Row;

/** Creates the encoder of one subtask. */
public final class InputEncoderFactory<T> extends AbstractStreamOperatorFactory<Row>
        implements OneInputStreamOperatorFactory<T, Row> {
    private static final long serialVersionUID = 1L;

    private final TypeInformation<T> inputType;
    private final byte[] encoder;
    private final int fields;
    private final int batch;
    private final PythonRuntimeFactory runtimes;

    InputEncoderFactory(
            TypeInformation<T> inputType,
            byte[] encoder,
            int fields,
            int batch,
            PythonRuntimeFactory runtimes) {
        this.inputType = inputType;
        this.encoder = encoder.clone();
        this.fields = fields;
        this.batch = batch;
        this.runtimes = runtimes;
    }

    @Override
    public <O extends StreamOperator<Row>> O createStreamOperator(
            StreamOperatorParameters<Row> parameters) {
        @SuppressWarnings("unchecked")
        O operator =
                (O) new InputEncoder<>(parameters, inputType, encoder, fields, batch, runtimes);
        return operator;
    }

    @Override
    @SuppressWarnings("rawtypes")
    public Class<? extends StreamOperator> getStreamOperatorClass(ClassLoader classLoader) {
        return InputEncoder.class;
    }
}
