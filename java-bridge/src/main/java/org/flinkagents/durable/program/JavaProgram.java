package org.flinkagents.durable.program;

import java.io.File;
import java.util.List;
import java.util.Map;
import java.util.UUID;
import org.apache.flink.api.common.typeinfo.PrimitiveArrayTypeInfo;
import org.apache.flink.api.common.typeinfo.TypeInformation;
import org.apache.flink.api.dag.Transformation;
import org.apache.flink.api.java.functions.KeySelector;
import org.apache.flink.configuration.CheckpointingOptions;
import org.apache.flink.configuration.ConfigOption;
import org.apache.flink.configuration.Configuration;
import org.apache.flink.python.util.PythonConfigUtil;
import org.apache.flink.streaming.api.datastream.DataStream;
import org.apache.flink.streaming.api.environment.StreamExecutionEnvironment;
import org.apache.flink.types.Row;
import org.flinkagents.durable.AgentSpec;
import org.flinkagents.durable.DurableAgents;
import org.flinkagents.durable.actions.Packer;
import org.flinkagents.durable.api.Agent;
import org.flinkagents.durable.api.AgentOptions;
import org.flinkagents.durable.api.DeadLetter;

/**
 * Adds an agent written in Java to a job of a Java program. What it consists of crosses as plain
 * data; a Python function that the tasks call makes the plan of it.
 */
public final class JavaProgram {
    private static final String PYTHON_MODULE = "flink_agents_durable.runtime.java_program";

    private static final String DEAD_LETTER = "dead-letter";

    /** Encoded key, and payload. */
    private static final int FIELDS = 2;

    /**
     * Flink's own default for parallelism up to 85; it must not follow each start's parallelism.
     */
    private static final int DEFAULT_MAX_PARALLELISM = 128;

    private static final int UPPER_MAX_PARALLELISM = 1 << 15;

    private static final byte[] NOTHING = new byte[0];

    private final DataStream<byte[]> outputs;
    private final String uid;

    private JavaProgram(DataStream<byte[]> outputs, String uid) {
        this.outputs = outputs;
        this.uid = uid;
    }

    public static <T> JavaProgram apply(
            StreamExecutionEnvironment env,
            Configuration config,
            DataStream<T> input,
            KeySelector<T, ?> key,
            Agent agent,
            String uid) {
        refuseDuplicate(env, uid);
        Configuration options = resolved(config);
        AgentActions actions = AgentActions.of(agent);
        prepare(env, options);
        boolean deadLetters =
                actions.have(DEAD_LETTER)
                        || options.get(AgentOptions.ACTION_FAILURE).equals(DEAD_LETTER);
        AgentSpec spec =
                new AgentSpec(
                        uid,
                        plan(agent, actions, options),
                        options.get(AgentOptions.MAX_IN_FLIGHT_RUNS),
                        options.get(AgentOptions.CLOSE_TIMEOUT).toMillis(),
                        DurableAgents.INPUT_BATCH,
                        deadLetters,
                        agent);
        DataStream<byte[]> outputs =
                DurableAgents.apply(rows(input, key, uid), uid, spec, PYTHON_MODULE);
        outputs.getTransformation().setMaxParallelism(maxParallelism(env));
        return new JavaProgram(outputs, uid);
    }

    /** What {@code open_operator} of the Python module reads. */
    private static byte[] plan(Agent agent, AgentActions actions, Configuration options) {
        // Tells deployments apart that Flink runs under one job id.
        String id = UUID.randomUUID().toString().replace("-", "");
        Map<String, String> values = options.toMap();
        values.keySet().removeIf(JavaProgram::isSecret);
        return Packer.pack(
                Map.of(
                        "agent",
                        agent.getClass().getName(),
                        "id",
                        id,
                        "actions",
                        actions.described(),
                        "options",
                        values));
    }

    /** Keeps L3: with the parallelism of what comes before, inputs of a key stay in order. */
    private static <T> DataStream<Row> rows(
            DataStream<T> input, KeySelector<T, ?> key, String uid) {
        DataStream<byte[]> packed =
                input.map(new PackInput<>(key))
                        .returns(PrimitiveArrayTypeInfo.BYTE_PRIMITIVE_ARRAY_TYPE_INFO)
                        .name(uid + ": key");
        follow(packed, input);
        DataStream<Row> rows =
                DurableAgents.encode(packed, uid + ": encode", NOTHING, FIELDS, PYTHON_MODULE);
        follow(rows, input);
        return rows;
    }

    private static void follow(DataStream<?> stream, DataStream<?> input) {
        Transformation<?> before = input.getTransformation();
        stream.getTransformation()
                .setParallelism(before.getParallelism(), before.isParallelismConfigured());
    }

    public <O> DataStream<O> outputs(Class<O> type, TypeInformation<O> information) {
        return outputs.map(new ReadOutput<>(type)).returns(information).name(uid + ": output");
    }

    public DataStream<DeadLetter> deadLetters() {
        return DurableAgents.deadLetters(
                        outputs, PrimitiveArrayTypeInfo.BYTE_PRIMITIVE_ARRAY_TYPE_INFO)
                .map(new ReadDeadLetter())
                .returns(DeadLetter.class)
                .name(uid + ": dead letters");
    }

    // ---------------------------------------------------------------- the job

    /** A uid names state and log, so that two operators of one uid would read each other's. */
    private static void refuseDuplicate(StreamExecutionEnvironment env, String uid) {
        if (uid == null || uid.trim().isEmpty()) {
            throw new IllegalArgumentException(
                    "An agent needs a uid, and its class has no name: apply(agent, \"reviews\")");
        }
        for (Transformation<?> other : env.getTransformations()) {
            if (uid.equals(other.getUid())) {
                throw new IllegalArgumentException(
                        "Two operators of this job have the uid '"
                                + uid
                                + "', under which their state would be mixed up. Remedy: give each"
                                + " agent its own: apply(agent, \"...\")");
            }
        }
    }

    /** The options as the tasks need them: a task's working directory is not this program's. */
    private static Configuration resolved(Configuration config) {
        Configuration options = new Configuration(config);
        for (ConfigOption<String> option :
                List.of(AgentOptions.STORE_SQLITE_PATH, AgentOptions.STORE_SIGNING_KEY_FILE)) {
            String path = options.get(option);
            if (path != null) {
                options.set(option, new File(path).getAbsolutePath());
            }
        }
        return options;
    }

    /** Sets what the job of an agent needs and the user did not set. */
    private static void prepare(StreamExecutionEnvironment env, Configuration options) {
        Configuration job = new Configuration();
        options.toMap()
                .forEach(
                        (key, value) -> {
                            if (isSecret(key)) {
                                job.setString(key, value);
                            }
                        });
        if (env.getConfiguration().getOptional(CheckpointingOptions.ENABLE_UNALIGNED).isEmpty()) {
            job.set(CheckpointingOptions.ENABLE_UNALIGNED, true); // K1
        }
        env.configure(job);
        try {
            PythonConfigUtil.configPythonOperator(env); // K9: files and archives go with the job
        } catch (Exception e) {
            throw new IllegalArgumentException(
                    "The python.* options of the job cannot be used: " + e.getMessage(), e);
        }
    }

    /** Properties of store clients: they are in the job's configuration, not in the plan. */
    private static boolean isSecret(String key) {
        return key.matches("agents\\.store\\.\\w+\\.properties\\..+");
    }

    private static int maxParallelism(StreamExecutionEnvironment env) {
        if (env.getMaxParallelism() > 0) {
            return env.getMaxParallelism();
        }
        int needed = DEFAULT_MAX_PARALLELISM;
        while (needed < env.getParallelism()) {
            needed *= 2;
        }
        return Math.min(needed, UPPER_MAX_PARALLELISM);
    }
}
