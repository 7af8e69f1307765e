package org.flinkagents.durable.api;

import java.time.Duration;
import org.apache.flink.configuration.ConfigOption;
import org.apache.flink.configuration.ConfigOptions;

/**
 * The options of the runtime, under the keys that they have in Flink's configuration. They are read
 * by the tasks: a wrong value fails the job when it starts, with the value and what it may be. More
 * keys, which hold a name ({@code agents.limits.<name>.per-second}) or a property of a store's
 * client, are set as texts.
 */
public final class AgentOptions {
    /** auto, none, sqlite, kafka or fluss. auto: sqlite in local execution, else none. */
    public static final ConfigOption<String> STORE_TYPE =
            text("agents.store.type").defaultValue("auto");

    /** A folder; relative to the working directory of the program that applies the agent. */
    public static final ConfigOption<String> STORE_SQLITE_PATH =
            text("agents.store.sqlite.path").defaultValue(".flink-agents-durable");

    public static final ConfigOption<Duration> STORE_APPEND_TIMEOUT =
            duration("agents.store.append-timeout").defaultValue(Duration.ofSeconds(30));

    public static final ConfigOption<String> STORE_SIGNING_KEY_FILE =
            text("agents.store.signing-key-file").noDefaultValue();

    public static final ConfigOption<String> KAFKA_BOOTSTRAP_SERVERS =
            text("agents.store.kafka.bootstrap-servers").noDefaultValue();

    public static final ConfigOption<String> KAFKA_TOPIC =
            text("agents.store.kafka.topic").noDefaultValue();

    public static final ConfigOption<Integer> KAFKA_REPLICATION_FACTOR =
            number("agents.store.kafka.replication-factor").noDefaultValue();

    public static final ConfigOption<String> FLUSS_BOOTSTRAP_SERVERS =
            text("agents.store.fluss.bootstrap-servers").noDefaultValue();

    public static final ConfigOption<String> FLUSS_DATABASE =
            text("agents.store.fluss.database").defaultValue("fluss");

    public static final ConfigOption<String> FLUSS_TABLE =
            text("agents.store.fluss.table").noDefaultValue();

    public static final ConfigOption<Integer> FLUSS_REPLICATION_FACTOR =
            number("agents.store.fluss.replication-factor").noDefaultValue();

    /** pickle or json. */
    public static final ConfigOption<String> PAYLOAD =
            text("agents.payload").defaultValue("pickle");

    /** Names the log; set it to find the log again without a checkpoint. */
    public static final ConfigOption<String> JOB_ID = text("agents.job-id").noDefaultValue();

    public static final ConfigOption<Boolean> WATERMARK_HOLD =
            ConfigOptions.key("agents.watermark.hold").booleanType().defaultValue(true);

    public static final ConfigOption<Integer> MAX_IN_FLIGHT_RUNS =
            number("agents.max-in-flight-runs").defaultValue(10_000);

    public static final ConfigOption<Integer> CALL_MAX_CONCURRENCY =
            number("agents.call.max-concurrency").defaultValue(10_000);

    /** Threads that run durable calls; where each Java action holds a thread, also their number. */
    public static final ConfigOption<Integer> CALL_WORKERS =
            number("agents.call.workers").defaultValue(128);

    public static final ConfigOption<Integer> CALL_PARALLELISM =
            number("agents.call.parallelism").noDefaultValue();

    /** reexecute or fail. */
    public static final ConfigOption<String> MISMATCH_POLICY =
            text("agents.mismatch-policy").defaultValue("reexecute");

    /** retry or replay. */
    public static final ConfigOption<String> UNCAUGHT_FAILURE =
            text("agents.uncaught-failure").defaultValue("retry");

    /** fail, skip or dead-letter. */
    public static final ConfigOption<String> ACTION_FAILURE =
            text("agents.action-failure").defaultValue("fail");

    public static final ConfigOption<Boolean> STRICT_VALUES =
            ConfigOptions.key("agents.strict-values").booleanType().defaultValue(false);

    public static final ConfigOption<Duration> CLOSE_TIMEOUT =
            duration("agents.close-timeout").defaultValue(Duration.ofSeconds(5));

    public static final ConfigOption<Duration> SHORT_TERM_MEMORY_TTL =
            duration("agents.short-term-memory.ttl").noDefaultValue();

    private AgentOptions() {}

    private static ConfigOptions.TypedConfigOptionBuilder<String> text(String key) {
        return ConfigOptions.key(key).stringType();
    }

    private static ConfigOptions.TypedConfigOptionBuilder<Integer> number(String key) {
        return ConfigOptions.key(key).intType();
    }

    private static ConfigOptions.TypedConfigOptionBuilder<Duration> duration(String key) {
        return ConfigOptions.key(key).durationType();
    }
}
