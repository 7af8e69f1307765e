package org.flinkagents.durable.api;

import java.util.Objects;
import org.apache.flink.api.common.typeinfo.TypeInformation;
import org.apache.flink.api.java.functions.KeySelector;
import org.apache.flink.configuration.Configuration;
import org.apache.flink.streaming.api.datastream.DataStream;
import org.apache.flink.streaming.api.environment.StreamExecutionEnvironment;
import org.flinkagents.durable.program.JavaProgram;

/** One agent of a job, from its input to its output. */
public final class AgentBuilder<T> {
    private final StreamExecutionEnvironment env;
    private final Configuration config;
    private final DataStream<T> input;
    private final KeySelector<T, ?> key;
    private JavaProgram program;

    AgentBuilder(
            StreamExecutionEnvironment env,
            Configuration config,
            DataStream<T> input,
            KeySelector<T, ?> key) {
        this.env = env;
        this.config = config;
        this.input = Objects.requireNonNull(input, "input");
        this.key = Objects.requireNonNull(key, "key");
    }

    /** As below; the simple name of its class is the uid. */
    public AgentBuilder<T> apply(Agent agent) {
        return apply(agent, agent.getClass().getSimpleName());
    }

    /**
     * Adds the agent to the job.
     *
     * @param uid names the agent in the job's state and in the log, so it must stay the same
     * @throws IllegalArgumentException for an agent that cannot work, and for a uid that another
     *     operator has
     */
    public AgentBuilder<T> apply(Agent agent, String uid) {
        if (program != null) {
            throw new IllegalStateException(
                    "One input takes one agent: call fromDataStream again for another one");
        }
        program = JavaProgram.apply(env, config, input, key, agent, uid);
        return this;
    }

    /** The outputs as plain values: texts, Long, Double, Boolean, byte[], lists and maps. */
    public DataStream<Object> toDataStream() {
        return toDataStream(Object.class);
    }

    /** The outputs as beans, or as another class that Jackson reads a plain value as. */
    public <O> DataStream<O> toDataStream(Class<O> type) {
        return toDataStream(type, TypeInformation.of(type));
    }

    /** As above, with the serialisation of the stream named. */
    public <O> DataStream<O> toDataStream(Class<O> type, TypeInformation<O> information) {
        return applied().outputs(type, information);
    }

    /**
     * What became of inputs whose action failed under dead-letter, exactly once as the outputs are.
     * Where dead-letter is chosen this stream must have a sink, else the job fails when it is
     * submitted.
     */
    public DataStream<DeadLetter> deadLetters() {
        return applied().deadLetters();
    }

    private JavaProgram applied() {
        if (program == null) {
            throw new IllegalStateException("No agent yet: call apply(agent) first");
        }
        return program;
    }
}
