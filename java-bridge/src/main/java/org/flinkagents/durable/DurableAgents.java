package org.flinkagents.durable;

import static org.apache.flink.api.common.typeinfo.PrimitiveArrayTypeInfo.BYTE_PRIMITIVE_ARRAY_TYPE_INFO;

import java.util.Arrays;
import org.apache.flink.api.common.RuntimeExecutionMode;
import org.apache.flink.api.common.typeinfo.TypeInformation;
import org.apache.flink.api.common.typeinfo.Types;
import org.apache.flink.configuration.ExecutionOptions;
import org.apache.flink.streaming.api.datastream.DataStream;
import org.apache.flink.streaming.api.datastream.SingleOutputStreamOperator;
import org.apache.flink.streaming.api.transformations.OneInputTransformation;
import org.apache.flink.types.Row;
import org.apache.flink.util.OutputTag;

/** Where Python adds an agent to a job. */
public final class DurableAgents {
    /** Few enough that a barrier or another key waits no more than some milliseconds for them. */
    public static final int INPUT_BATCH = 64;

    private DurableAgents() {}

    /**
     * Runs an agent over rows of (encoded key, payload), both byte[].
     *
     * @param uid the uid of the operator, under which its state is found again
     * @param name the name of the operator
     * @param plan the agent, as {@code open_operator} of the Python module reads it
     * @param maxInFlight inputs of a subtask that are worked on before it holds back the stream
     * @param closeTimeoutMillis how long a closing subtask waits for calls that are running
     * @param deadLetters whether an action may emit dead letters
     * @param pythonModule the Python module that has {@code open_operator}
     * @return the outputs, as Python encoded them
     */
    public static DataStream<byte[]> apply(
            DataStream<Row> input,
            String uid,
            String name,
            byte[] plan,
            long maxInFlight,
            long closeTimeoutMillis,
            boolean deadLetters,
            String pythonModule) {
        AgentSpec spec =
                new AgentSpec(
                        uid, plan, maxInFlight, closeTimeoutMillis, INPUT_BATCH, deadLetters, null);
        return apply(input, name, spec, pythonModule);
    }

    /** As above. */
    public static DataStream<byte[]> apply(
            DataStream<Row> input, String name, AgentSpec spec, String pythonModule) {
        if (input.getExecutionEnvironment().getConfiguration().get(ExecutionOptions.RUNTIME_MODE)
                == RuntimeExecutionMode.BATCH) {
            throw new IllegalStateException(
                    "Durable agents do not run in BATCH execution: set"
                            + " execution.runtime-mode to STREAMING");
        }
        return transform(input, name, spec, PemjaRuntime.factory(pythonModule));
    }

    /**
     * The inputs of an agent together with resolutions of its awakeables, for {@link #apply}.
     *
     * @param inputs rows of (encoded key, payload, null)
     * @param resolutions rows of (encoded key, null, resolution)
     * @param name the name of the operator that takes event time from the resolutions
     */
    public static DataStream<Row> withAwakeables(
            DataStream<Row> inputs, DataStream<Row> resolutions, String name) {
        return AwakeableRows.union(inputs, resolutions, name);
    }

    /**
     * The dead letters of an agent.
     *
     * @param outputs what {@link #apply} gave
     * @param type the type of the stream, whose elements are bytes as Python encoded them
     */
    public static DataStream<byte[]> deadLetters(
            DataStream<byte[]> outputs, TypeInformation<byte[]> type) {
        OneInputTransformation<?, ?> agent =
                (OneInputTransformation<?, ?>) outputs.getTransformation();
        ((DurableAgentOperatorFactory) agent.getOperatorFactory()).deadLettersAreRead();
        return ((SingleOutputStreamOperator<byte[]>) outputs)
                .getSideOutput(new OutputTag<>(DeadLetters.TAG.getId(), type));
    }

    /**
     * Turns records into the rows that {@link #apply} takes.
     *
     * @param encoder the key selector and all else that encodes, as {@code open_encoder} of the
     *     Python module reads it
     * @param fields the fields of a row, all byte[]
     */
    public static <T> DataStream<Row> encode(
            DataStream<T> input, String name, byte[] encoder, int fields, String pythonModule) {
        TypeInformation<?>[] types = new TypeInformation<?>[fields];
        Arrays.fill(types, BYTE_PRIMITIVE_ARRAY_TYPE_INFO);
        return input.transform(
                name,
                Types.ROW(types),
                new InputEncoderFactory<>(
                        input.getType(),
                        encoder,
                        fields,
                        INPUT_BATCH,
                        PemjaRuntime.encoders(pythonModule)));
    }

    static DataStream<byte[]> transform(
            DataStream<Row> input, String name, AgentSpec spec, PythonRuntimeFactory runtimes) {
        return input.keyBy(new EncodedKeySelector(), Types.STRING)
                .transform(
                        name,
                        BYTE_PRIMITIVE_ARRAY_TYPE_INFO,
                        new DurableAgentOperatorFactory(spec, runtimes))
                .uid(spec.uid);
    }
}
