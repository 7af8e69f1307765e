package org.flinkagents.durable.api;

import java.util.Map;
import org.apache.flink.api.dag.Transformation;
import org.apache.flink.api.java.functions.KeySelector;
import org.apache.flink.configuration.Configuration;
import org.apache.flink.configuration.ReadableConfig;
import org.apache.flink.streaming.api.datastream.DataStream;
import org.apache.flink.streaming.api.datastream.KeyedStream;
import org.apache.flink.streaming.api.environment.StreamExecutionEnvironment;

/**
 * The entry of a Java program to its agents. The tasks find Python as PyFlink's do, by {@code
 * python.executable}, {@code python.archives} and the rest of Flink's options for it; the program
 * itself needs none.
 */
public final class AgentsExecutionEnvironment {
    private static final String PREFIX = "agents.";

    private final StreamExecutionEnvironment env;
    private final Configuration config = new Configuration();

    private AgentsExecutionEnvironment(StreamExecutionEnvironment env) {
        this.env = env;
        config.addAll(ofAgents(env.getConfiguration()));
    }

    public static AgentsExecutionEnvironment getExecutionEnvironment(
            StreamExecutionEnvironment env) {
        return new AgentsExecutionEnvironment(env);
    }

    /**
     * The options of the agents: those of Flink's configuration, and what is set here, see {@link
     * AgentOptions}.
     */
    public Configuration getConfig() {
        return config;
    }

    /**
     * Each record is an input of an agent; inputs of one key are worked on one after the other.
     * Records and keys are texts, numbers, booleans, {@code byte[]}, lists and maps of these, rows
     * with names, and beans that Jackson knows.
     */
    public <T, K> AgentBuilder<T> fromDataStream(DataStream<T> input, KeySelector<T, K> key) {
        return new AgentBuilder<>(env, config, input, key);
    }

    /** As above, by the key of the stream. */
    public <T, K> AgentBuilder<T> fromDataStream(KeyedStream<T, K> input) {
        // Taken before Flink's own partitioning: the agent partitions by its own form of the keys.
        @SuppressWarnings("unchecked")
        Transformation<T> before = (Transformation<T>) input.getTransformation().getInputs().get(0);
        DataStream<T> records = new DataStream<>(env, before);
        return new AgentBuilder<>(env, config, records, input.getKeySelector());
    }

    static Configuration ofAgents(ReadableConfig flink) {
        Configuration own = new Configuration();
        for (Map.Entry<String, String> entry : flink.toMap().entrySet()) {
            if (entry.getKey().startsWith(PREFIX)) {
                own.setString(entry.getKey(), entry.getValue());
            }
        }
        return own;
    }
}
