package org.flinkagents.durable;

import static org.flinkagents.durable.Harness.bytes;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertInstanceOf;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.nio.charset.StandardCharsets;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicReference;
import java.util.stream.Collectors;
import java.util.stream.IntStream;
import org.apache.flink.api.common.JobStatus;
import org.apache.flink.api.common.RuntimeExecutionMode;
import org.apache.flink.api.common.eventtime.WatermarkStrategy;
import org.apache.flink.api.common.typeinfo.PrimitiveArrayTypeInfo;
import org.apache.flink.api.common.typeinfo.TypeInformation;
import org.apache.flink.api.common.typeinfo.Types;
import org.apache.flink.api.connector.source.util.ratelimit.RateLimiterStrategy;
import org.apache.flink.configuration.CheckpointingOptions;
import org.apache.flink.configuration.Configuration;
import org.apache.flink.configuration.ExecutionOptions;
import org.apache.flink.configuration.RestartStrategyOptions;
import org.apache.flink.configuration.StateBackendOptions;
import org.apache.flink.configuration.StateRecoveryOptions;
import org.apache.flink.connector.datagen.source.DataGeneratorSource;
import org.apache.flink.core.execution.JobClient;
import org.apache.flink.core.execution.SavepointFormatType;
import org.apache.flink.runtime.checkpoint.CheckpointException;
import org.apache.flink.streaming.api.datastream.DataStream;
import org.apache.flink.streaming.api.environment.StreamExecutionEnvironment;
import org.apache.flink.streaming.api.functions.sink.v2.DiscardingSink;
import org.apache.flink.test.junit5.MiniClusterExtension;
import org.apache.flink.types.Row;
import org.apache.flink.util.CloseableIterator;
import org.flinkagents.durable.HeldAgents.Control;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.extension.RegisterExtension;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

/** Jobs whose agents wait as long as the test holds them. */
@Timeout(120)
class MiniClusterTest {
    private static final int SLOTS = 3;

    @RegisterExtension static final MiniClusterExtension CLUSTER = Clusters.ofOneTaskManager(SLOTS);

    private static final Duration CHECKPOINT_TIMEOUT = Duration.ofSeconds(4);
    private static final TypeInformation<Row> ROWS =
            Types.ROW(
                    PrimitiveArrayTypeInfo.BYTE_PRIMITIVE_ARRAY_TYPE_INFO,
                    PrimitiveArrayTypeInfo.BYTE_PRIMITIVE_ARRAY_TYPE_INFO);

    @TempDir private Path folder;

    @Test
    void k1AndS9CheckpointsCompleteUnderBackPressureForLongerThanTheirTimeout() throws Exception {
        Control.reset(true);
        StreamExecutionEnvironment env = environment(1, "hashmap");
        env.getCheckpointConfig().setCheckpointTimeout(CHECKPOINT_TIMEOUT.toMillis());
        DataStream<byte[]> out = agents(numbers(env, Long.MAX_VALUE, 200), 5);
        try (CloseableIterator<byte[]> outputs = out.collectAsync()) {
            JobClient job = env.executeAsync();
            await(() -> Control.PENDING.get() >= 5);
            long held = System.nanoTime();
            int before = Control.CHECKPOINTS.get();
            await(
                    () ->
                            Control.CHECKPOINTS.get() >= before + 5
                                    && secondsSince(held) > CHECKPOINT_TIMEOUT.toSeconds());
            assertTrue(Control.PENDING.get() <= 5 + secondsSince(held) + 1, "held back");
            Control.release();
            assertEquals("0", text(outputs.next()));
            job.cancel().get();
        }
    }

    /** In most rounds one subtask of the source finishes a checkpoint before the other. */
    @ParameterizedTest
    @ValueSource(booleans = {true, true, false})
    void k1AndS9CheckpointsCompleteWhileTheEndOfInputWaits(boolean unaligned) throws Exception {
        Control.reset(true);
        StreamExecutionEnvironment env = environment(2, "hashmap");
        env.getCheckpointConfig().setCheckpointTimeout(CHECKPOINT_TIMEOUT.toMillis());
        env.getCheckpointConfig().enableUnalignedCheckpoints(unaligned);
        DataStream<byte[]> out = agents(numbers(env, 20, unaligned ? 0 : 40), 100);
        try (CloseableIterator<byte[]> outputs = out.collectAsync()) {
            env.executeAsync();
            await(() -> Control.ENDED.get() == 2);
            long held = System.nanoTime();
            int before = Control.CHECKPOINTS.get();
            await(
                    () ->
                            Control.CHECKPOINTS.get() >= before + 6
                                    && secondsSince(held) > CHECKPOINT_TIMEOUT.toSeconds());
            Control.release();
            assertEquals(expected(20), all(outputs));
        }
    }

    @Test
    void k7AStopWithSavepointWhileTheEndOfInputWaits() throws Exception {
        Control.reset(true);
        StreamExecutionEnvironment env = environment(2, "hashmap");
        agents(numbers(env, 20, 0), 100).sinkTo(new DiscardingSink<>());
        JobClient job = env.executeAsync();
        await(() -> Control.ENDED.get() == 2);
        String savepoint = stopped(job);
        await(() -> job.getJobStatus().get() == JobStatus.FINISHED);
        Control.reset(false);
        StreamExecutionEnvironment again = environment(3, "hashmap");
        again.configure(new Configuration().set(StateRecoveryOptions.SAVEPOINT_PATH, savepoint));
        DataStream<byte[]> rest = agents(numbers(again, 20, 0), 100);
        try (CloseableIterator<byte[]> outputs = rest.collectAsync()) {
            again.executeAsync();
            assertEquals(expected(20), all(outputs));
        }
    }

    /** Flink gives a savepoint up whose trigger meets a source that is just ending. */
    private String stopped(JobClient job) throws Exception {
        AtomicReference<String> savepoint = new AtomicReference<>();
        await(
                () -> {
                    try {
                        savepoint.set(
                                job.stopWithSavepoint(
                                                false,
                                                folder.toUri().toString(),
                                                SavepointFormatType.CANONICAL)
                                        .get());
                        return true;
                    } catch (ExecutionException e) {
                        assertInstanceOf(CheckpointException.class, e.getCause());
                        return false;
                    }
                });
        return savepoint.get();
    }

    @ParameterizedTest
    @ValueSource(strings = {"hashmap", "rocksdb"})
    void aFailureWhileTheEndOfInputWaitsLosesAndDoublesNothing(String backend) throws Exception {
        Control.reset(true);
        StreamExecutionEnvironment env = environment(2, backend);
        DataStream<byte[]> out = agents(numbers(env, 50, 0), 1_000);
        try (CloseableIterator<byte[]> outputs = out.collectAsync()) {
            env.executeAsync();
            await(() -> Control.ENDED.get() == 2);
            int before = Control.CHECKPOINTS.get();
            await(() -> Control.CHECKPOINTS.get() >= before + 4);
            Control.fail();
            await(() -> Control.OPENED.get() >= 4 && Control.PENDING.get() == 50);
            Control.release();
            assertEquals(expected(50), all(outputs));
        }
    }

    @ParameterizedTest
    @ValueSource(strings = {"hashmap", "rocksdb"})
    void k7AndS5AStopWithSavepointGoesOnAtAnotherParallelism(String backend) throws Exception {
        Control.reset(true);
        StreamExecutionEnvironment env = environment(2, backend);
        agents(numbers(env, 200, 100), 1_000).sinkTo(new DiscardingSink<>());
        JobClient job = env.executeAsync();
        await(() -> Control.PENDING.get() >= 40);
        String savepoint =
                job.stopWithSavepoint(
                                false, folder.toUri().toString(), SavepointFormatType.CANONICAL)
                        .get();
        await(() -> job.getJobStatus().get() == JobStatus.FINISHED);
        Control.reset(false);
        StreamExecutionEnvironment again = environment(3, backend);
        again.configure(new Configuration().set(StateRecoveryOptions.SAVEPOINT_PATH, savepoint));
        DataStream<byte[]> rest = agents(numbers(again, 200, 0), 1_000);
        try (CloseableIterator<byte[]> outputs = rest.collectAsync()) {
            again.executeAsync();
            assertEquals(expected(200), all(outputs));
        }
    }

    @Test
    void s10ACancelEndsWhileRunsWait() throws Exception {
        Control.reset(true);
        StreamExecutionEnvironment env = environment(2, "hashmap");
        agents(numbers(env, 20, 0), 2).print();
        JobClient job = env.executeAsync();
        await(() -> Control.PENDING.get() >= 4);
        job.cancel().get();
        await(() -> job.getJobStatus().get() == JobStatus.CANCELED && Control.PENDING.get() == 0);
    }

    @Test
    void k8BatchIsRefused() throws Exception {
        StreamExecutionEnvironment env = environment(1, "hashmap");
        env.setRuntimeMode(RuntimeExecutionMode.BATCH);
        DataStream<Row> input = numbers(env, 5, 0);
        assertThrows(
                IllegalStateException.class,
                () ->
                        DurableAgents.apply(
                                input, "uid", "name", new byte[0], 1, 1, false, "module"));

        StreamExecutionEnvironment automatic =
                StreamExecutionEnvironment.getExecutionEnvironment(
                        new Configuration()
                                .set(ExecutionOptions.RUNTIME_MODE, RuntimeExecutionMode.AUTOMATIC)
                                .set(RestartStrategyOptions.RESTART_STRATEGY, "none"));
        agents(numbers(automatic, 5, 0), 5).print();
        Exception refusal = assertThrows(Exception.class, automatic::execute);
        assertTrue(rootOf(refusal).getMessage().contains("BATCH"), () -> "" + rootOf(refusal));
    }

    private StreamExecutionEnvironment environment(int parallelism, String backend) {
        Configuration configuration = new Configuration();
        configuration.set(CheckpointingOptions.CHECKPOINTING_INTERVAL, Duration.ofMillis(50));
        configuration.set(CheckpointingOptions.ENABLE_UNALIGNED, true);
        configuration.set(CheckpointingOptions.TOLERABLE_FAILURE_NUMBER, Integer.MAX_VALUE);
        configuration.set(StateBackendOptions.STATE_BACKEND, backend);
        configuration.set(CheckpointingOptions.CHECKPOINTS_DIRECTORY, folder.toUri().toString());
        configuration.set(RestartStrategyOptions.RESTART_STRATEGY, "fixed-delay");
        configuration.set(
                RestartStrategyOptions.RESTART_STRATEGY_FIXED_DELAY_DELAY, Duration.ofMillis(1));
        configuration.set(RestartStrategyOptions.RESTART_STRATEGY_FIXED_DELAY_ATTEMPTS, 10);
        StreamExecutionEnvironment env =
                StreamExecutionEnvironment.getExecutionEnvironment(configuration);
        env.setParallelism(parallelism);
        env.setMaxParallelism(16);
        return env;
    }

    private static DataStream<Row> numbers(
            StreamExecutionEnvironment env, long count, double perSecond) {
        DataGeneratorSource<Long> source =
                new DataGeneratorSource<>(
                        number -> number,
                        count,
                        perSecond == 0
                                ? RateLimiterStrategy.noOp()
                                : RateLimiterStrategy.perSecond(perSecond),
                        Types.LONG);
        return env.fromSource(source, WatermarkStrategy.noWatermarks(), "numbers")
                .uid("numbers")
                .map(number -> Row.of(bytes("key" + number % 17), bytes("" + number)))
                .returns(ROWS)
                .uid("rows");
    }

    private static DataStream<byte[]> agents(DataStream<Row> input, long maxInFlight) {
        AgentSpec spec = new AgentSpec("agents", new byte[0], maxInFlight, 1_000);
        return DurableAgents.transform(input, "agents", spec, HeldAgents.factory());
    }

    private static List<Integer> expected(int count) {
        return IntStream.range(0, count).boxed().collect(Collectors.toList());
    }

    private static List<Integer> all(CloseableIterator<byte[]> outputs) {
        List<Integer> all = new ArrayList<>();
        outputs.forEachRemaining(output -> all.add(Integer.valueOf(text(output))));
        all.sort(null);
        return all;
    }

    private static String text(byte[] output) {
        return new String(output, StandardCharsets.UTF_8);
    }

    private static Throwable rootOf(Throwable failure) {
        Throwable root = failure;
        while (root.getCause() != null) {
            root = root.getCause();
        }
        return root;
    }

    private static long secondsSince(long nanos) {
        return TimeUnit.NANOSECONDS.toSeconds(System.nanoTime() - nanos);
    }

    @FunctionalInterface
    private interface Condition {
        boolean holds() throws Exception;
    }

    /** Asks every few milliseconds, for longer than any of these jobs needs on a slow machine. */
    private static void await(Condition condition) throws Exception {
        long start = System.nanoTime();
        while (!condition.holds()) {
            assertTrue(secondsSince(start) < 60, Control::describe);
            TimeUnit.MILLISECONDS.sleep(10);
        }
    }
}
