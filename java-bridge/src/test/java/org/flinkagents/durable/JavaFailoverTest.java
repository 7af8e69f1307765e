package org.flinkagents.durable;

import static org.flinkagents.durable.Harness.bytes;
import static org.flinkagents.durable.JavaTestActions.echo;
import static org.flinkagents.durable.JavaTestActions.out;
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
import org.apache.flink.streaming.api.datastream.DataStream;
import org.apache.flink.streaming.api.environment.StreamExecutionEnvironment;
import org.apache.flink.test.junit5.MiniClusterExtension;
import org.apache.flink.types.Row;
import org.apache.flink.util.CloseableIterator;
import org.flinkagents.durable.api.Event;
import org.flinkagents.durable.api.InputEvent;
import org.flinkagents.durable.api.RunnerContext;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.extension.RegisterExtension;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

/** Jobs with Java actions whose tasks fail in the middle. */
@Timeout(240)
public class JavaFailoverTest {
    private static final int INPUTS = 120;
    private static final int KEYS = 12;

    @RegisterExtension static final MiniClusterExtension CLUSTER = Clusters.ofOneTaskManager(2);

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
        byte[] plan =
                JavaAgents.plan(
                        "chain",
                        store.equals("none") ? null : folder,
                        Map.of("options", Map.of("agents.store.type", store)));
        assertEquals(expected(), outputsThroughTwoFailures(plan));
        if (!store.equals("none")) {
            assertNoRecordedCallRanAgain(List.of("first", "in place", "left", "last"));
            assertNoRecordedCallRanAgain(List.of("in place", "right", "last"));
        }
    }

    // ---------------------------------------------------------------- with actions in Python

    public static void begin(Event event, RunnerContext ctx) throws Exception {
        String name = "n" + ((InputEvent) event).getInput(Map.class).get("n") + " ";
        String first = ctx.await(ctx.durableExecuteAsync(echo(name + "first")));
        ctx.sendEvent(new Event("to_relay", Map.of("name", name, "first", first)));
    }

    /** What the action in Python calls, which java_agents.py has. */
    static String relay(String name) {
        JavaTestActions.MADE.add(name + "relay");
        return name + "relay!";
    }

    public static void end(Event event, RunnerContext ctx) throws Exception {
        String name = event.getAttr("name", String.class);
        String last = ctx.await(ctx.durableExecuteAsync(echo(name + "last")));
        out(ctx, List.of(event.getAttr("first"), event.getAttr("relayed"), last));
    }

    @Test
    void l1ToL5ActionsOfBothLanguagesThatTriggerEachOther() throws Exception {
        String owner = JavaFailoverTest.class.getName();
        byte[] plan =
                JavaAgents.plan(
                        List.of(
                                JavaAgents.onInput(JavaFailoverTest.class, "begin"),
                                List.of("end", "to_end", owner, "end")),
                        JavaAgents.storedIn(folder),
                        Map.of("relay", owner));
        List<String> expected =
                IntStream.range(0, INPUTS)
                        .mapToObj(
                                n ->
                                        String.format(
                                                "[\"n%1$d first!\", \"n%1$d relay!\", \"n%1$d last!\"]",
                                                n))
                        .sorted()
                        .collect(Collectors.toList());
        assertEquals(expected, outputsThroughTwoFailures(plan));
        assertNoRecordedCallRanAgain(List.of("first", "relay", "last"));
    }

    private List<String> outputsThroughTwoFailures(byte[] plan) throws Exception {
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
        return seen.stream().sorted().collect(Collectors.toList());
    }

    /** A call counts as recorded once the next one of its input has begun. */
    private static void assertNoRecordedCallRanAgain(List<String> calls) {
        List<String> made = JavaAgents.made();
        for (int n = 0; n < INPUTS; n++) {
            String input = "n" + n + " ";
            for (int i = 1; i < calls.size(); i++) {
                int before = made.lastIndexOf(input + calls.get(i - 1));
                int next = made.indexOf(input + calls.get(i));
                assertTrue(before >= 0 && before < next, () -> input + made);
            }
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
