package org.flinkagents.durable;

import org.apache.flink.api.common.ExecutionConfig;
import org.apache.flink.api.common.typeinfo.TypeInformation;
import org.apache.flink.streaming.api.operators.AbstractStreamOperatorFactory;
import org.apache.flink.streaming.api.operators.ChainingStrategy;
import org.apache.flink.streaming.api.operators.OneInputStreamOperatorFactory;
import org.apache.flink.streaming.api.operators.StreamOperator;
import org.apache.flink.streaming.api.operators.StreamOperatorParameters;
import org.apache.flink.types.Row;

/** Creates the operator of one subtask. */
public final class DurableAgentOperatorFactory extends AbstractStreamOperatorFactory<byte[]>
        implements OneInputStreamOperatorFactory<Row, byte[]> {
    private static final long serialVersionUID = 1L;

    private final AgentSpec spec;
    private final PythonRuntimeFactory runtimes;
    private boolean deadLettersAreRead;

    DurableAgentOperatorFactory(AgentSpec spec, PythonRuntimeFactory runtimes) {
        this.spec = spec;
        this.runtimes = runtimes;
        // Keeps K2: nothing upstream is on the stack when this operator yields.
        setChainingStrategy(ChainingStrategy.HEAD);
    }

    void deadLettersAreRead() {
        deadLettersAreRead = true;
    }

    @Override
    public boolean isOutputTypeConfigurable() {
        return true;
    }

    /** Flink calls this when it builds the graph of a job, however it is submitted. Keeps K14. */
    @Override
    public void setOutputType(TypeInformation<byte[]> type, ExecutionConfig config) {
        if (spec.deadLetters && !deadLettersAreRead) {
            throw DeadLetters.notRead(spec.uid);
        }
    }

    @Override
    public <T extends StreamOperator<byte[]>> T createStreamOperator(
            StreamOperatorParameters<byte[]> parameters) {
        @SuppressWarnings("unchecked")
        T operator = (T) new DurableAgentOperator(parameters, spec, runtimes);
        return operator;
    }

    @Override
    @SuppressWarnings("rawtypes")
    public Class<? extends StreamOperator> getStreamOperatorClass(ClassLoader classLoader) {
        return DurableAgentOperator.class;
    }
}
