package org.flinkagents.durable;

import static org.flinkagents.durable.Harness.bytes;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.nio.charset.StandardCharsets;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.stream.Collectors;
import java.util.stream.IntStream;
import org.apache.flink.api.common.eventtime.WatermarkStrategy;
import org.apache.flink.api.common.functions.MapFunction;
import org.apache.flink.api.common.typeinfo.PrimitiveArrayTypeInfo;
import org.apache.flink.api.common.typeinfo.Types;
import org.apache.flink.api.connector.source.util.ratelimit.RateLimiterStrategy;
import org.apache.flink.configuration.CheckpointingOptions;
import org.apache.flink.configuration.Configuration;
import org.apache.flink.configuration.RestartStrategyOptions;
import org.apache.flink.connector.datagen.source.DataGeneratorSource;
import org.apache.flink.runtime.testutils.MiniClusterResourceConfiguration;
import org.apache.flink.streaming.api.datastream.DataStream;
import org.apache.flink.streaming.api.environment.StreamExecutionEnvironment;
import org.apache.flink.test.junit5.MiniClusterExtension;
import org.apache.flink.types.Row;
import org.apache.flink.util.CloseableIterator;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.extension.RegisterExtension;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

/** Jobs with Java actions whose tasks fail in the middle. */
@Timeout(240)
class JavaFailoverTest {
    private static final int INPUTS = 120;
    private static final int KEYS = 12;

    @RegisterExtension
    static final MiniClusterExtension CLUSTER =
            new MiniClusterExtension(
                    new MiniClusterResourceConfiguration.Builder()
                            .setNumberTaskManagers(1)
                            .setNumberSlotsPerTaskManager(2)
                            .build());

    /** Fails twice, after so many outputs of an attempt. */
    private static final AtomicInteger FAILURES = new AtomicInteger();

    @TempDir private Path folder;

    @BeforeEach
    @AfterEach
    void reset() {
        JavaTestActions.reset();
        FAILURES.set(0);
    }

    @ParameterizedTest
    @ValueSource(strings = {"sqlite", "none"})
    void l1ToL5AndS1EveryInputIsAnsweredOnceThroughTwoFailures(String store) throws Exception {
        Configuration configuration = new Configuration();
        JavaAgents.configure(configuration);
        configuration.set(CheckpointingOptions.CHECKPOINTING_INTERVAL, Duration.ofMillis(200));
        configuration.set(CheckpointingOptions.ENABLE_UNALIGNED, true);
        configuration.set(RestartStrategyOptions.RESTART_STRATEGY, "fixed-delay");
        configuration.set(
                RestartStrategyOptions.RESTART_STRATEGY_FIXED_DELAY_DELAY, Duration.ofMillis(10));
        configuration.set(RestartStrategyOptions.RESTART_STRATEGY_FIXED_DELAY_ATTEMPTS, 5);
        StreamExecutionEnvironment env =
                StreamExecutionEnvironment.getExecutionEnvironment(configuration);
        env.setParallelism(2);
        env.setMaxParallelism(16);
        byte[] plan =
                JavaAgents.plan(
                        "chain",
                        store.equals("none") ? null : folder,
                        Map.of("options", Map.of("agents.store.type", store)));
        DataStream<byte[]> outputs =
                DurableAgents.transform(
                        numbers(env),
                        "agents",
                        new AgentSpec("agents", plan, 1_000, 2_000),
                        PemjaRuntime.factory("java_agents"));
        List<String> seen = new ArrayList<>();
        try (CloseableIterator<byte[]> all =
                outputs.map(new Failing()).setParallelism(1).collectAsync()) {
            env.executeAsync("java actions");
            all.forEachRemaining(out -> seen.add(new String(out, StandardCharsets.UTF_8)));
        }
        assertEquals(2, FAILURES.get());
        assertEquals(expected(), seen.stream().sorted().collect(Collectors.toList()));
        if (!store.equals("none")) {
            assertNoRecordedCallRanAgain();
        }
    }

    /** A call counts as recorded once a later one of its input has begun. */
    private static void assertNoRecordedCallRanAgain() {
        List<String> made = JavaAgents.made();
        for (int n = 0; n < INPUTS; n++) {
            String input = "n" + n + " ";
            int first = made.lastIndexOf(input + "first");
            int next = made.indexOf(input + "in place");
            int batch = made.indexOf(input + "left");
            int last = made.indexOf(input + "last");
            assertTrue(first < next, () -> input + made);
            assertTrue(made.lastIndexOf(input + "in place") < batch, () -> input + made);
            assertTrue(made.lastIndexOf(input + "left") < last, () -> input + made);
            assertTrue(made.lastIndexOf(input + "right") < last, () -> input + made);
        }
    }

    /** The inputs of a key come in their order, and each sees the memory of those before it. */
    private static List<String> expected() {
        return IntStream.range(0, INPUTS)
                .mapToObj(
                        n -> {
                            String name = "n" + n + " ";
                            String answers =
                                    List.of("first", "in place", "left", "right", "last").stream()
                                            .map(call -> name + call + "!")
                                            .collect(Collectors.joining());
                            return "[\""
                                    + name
                                    + "\", \""
                                    + answers
                                    + "\", "
                                    + (n / KEYS + 1)
                                    + "]";
                        })
                .sorted()
                .collect(Collectors.toList());
    }

    private static DataStream<Row> numbers(StreamExecutionEnvironment env) {
        DataGeneratorSource<Long> source =
                new DataGeneratorSource<>(
                        number -> number, INPUTS, RateLimiterStrategy.perSecond(60), Types.LONG);
        return env.fromSource(source, WatermarkStrategy.noWatermarks(), "numbers")
                .setParallelism(1)
                .map(n -> Row.of(bytes("key" + n % KEYS), bytes("{\"n\": " + n + "}")))
                .returns(
                        Types.ROW(
                                PrimitiveArrayTypeInfo.BYTE_PRIMITIVE_ARRAY_TYPE_INFO,
                                PrimitiveArrayTypeInfo.BYTE_PRIMITIVE_ARRAY_TYPE_INFO))
                .setParallelism(1);
    }

    private static final class Failing implements MapFunction<byte[], byte[]> {
        private static final long serialVersionUID = 1L;
        private int seen;

        @Override
        public byte[] map(byte[] value) {
            if (++seen == 30 && FAILURES.get() < 2) {
                FAILURES.incrementAndGet();
                throw new IllegalStateException("failed on purpose");
            }
            return value;
        }
    }
}
