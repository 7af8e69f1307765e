package org.flinkagents.durable;

import static org.flinkagents.durable.JavaAgents.input;
import static org.flinkagents.durable.JavaAgents.made;
import static org.flinkagents.durable.JavaAgents.onInput;
import static org.flinkagents.durable.JavaAgents.open;
import static org.flinkagents.durable.JavaAgents.outputs;
import static org.flinkagents.durable.JavaAgents.plan;
import static org.flinkagents.durable.JavaAgents.sorted;
import static org.flinkagents.durable.JavaAgents.storedIn;
import static org.flinkagents.durable.JavaAgents.until;
import static org.flinkagents.durable.JavaTestActions.echo;
import static org.flinkagents.durable.JavaTestActions.out;
import static org.junit.jupiter.api.Assertions.assertEquals;

import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.stream.Collectors;
import java.util.stream.IntStream;
import org.apache.flink.core.execution.SavepointFormatType;
import org.apache.flink.runtime.checkpoint.CheckpointType;
import org.apache.flink.runtime.checkpoint.OperatorSubtaskState;
import org.apache.flink.runtime.checkpoint.SavepointType;
import org.apache.flink.runtime.state.KeyGroupRangeAssignment;
import org.apache.flink.streaming.util.AbstractStreamOperatorTestHarness;
import org.flinkagents.durable.api.Event;
import org.flinkagents.durable.api.RunnerContext;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

/** Java actions that wait while their job is rescaled, up and down. */
@Timeout(180)
public class JavaRescaleTest {
    private static final List<String> KEYS =
            IntStream.range(0, 12).mapToObj(i -> "key" + i).collect(Collectors.toList());

    private static final SavepointType SAVEPOINT =
            SavepointType.savepoint(SavepointFormatType.CANONICAL);

    @TempDir private Path folder;

    @BeforeEach
    @AfterEach
    void reset() {
        JavaTestActions.reset();
    }

    /** A call for each parallelism, with memory between them, and an output after each. */
    public static void threeCalls(Event event, RunnerContext ctx) throws Exception {
        String key = (String) ctx.getKey();
        List<Object> answers = new ArrayList<>();
        for (String name : List.of(" one", " two", " three")) {
            answers.add(ctx.await(ctx.durableExecuteAsync(echo(key + name))));
            ctx.getShortTermMemory().set("answers", answers);
            out(ctx, ctx.getShortTermMemory().get("answers"));
        }
    }

    private byte[] planFor(String store) {
        return plan(
                List.of(onInput(JavaRescaleTest.class, "threeCalls")),
                storedIn(store.equals("none") ? null : folder),
                Map.of());
    }

    @ParameterizedTest
    @ValueSource(strings = {"sqlite", "none"})
    void s5EveryKeyGoesOnAtTheSubtaskThatOwnsIt(String store) throws Exception {
        // What these get after the snapshot is in the log alone.
        List<String> later =
                store.equals("none") ? List.of() : List.of(owned(0).get(0), owned(1).get(0));
        hold(" two");
        hold(" three");
        OperatorSubtaskState state;
        try (Harness harness = open(planFor(store))) {
            for (String key : KEYS) {
                input(harness, key);
            }
            assertEquals(answered(KEYS, 1), sorted(outputs(harness, KEYS.size())));
            until(harness, () -> made().containsAll(calls(" two")));
            state = harness.snapshot(1, CheckpointType.CHECKPOINT);
            later.forEach(key -> JavaTestActions.hold(key + " two").countDown());
            outputs(harness, KEYS.size() + later.size());
        }
        JavaTestActions.reset();
        hold(" three");
        state = atParallelismTwo(planFor(store), state, later);
        JavaTestActions.reset();
        try (Harness harness = open(planFor(store), repartitioned(state, 2, 1, 0))) {
            assertEquals(answered(KEYS, 3), sorted(outputs(harness, KEYS.size())));
            assertEquals(sorted(calls(" three")), sorted(made()));
        }
    }

    private static OperatorSubtaskState atParallelismTwo(
            byte[] plan, OperatorSubtaskState state, List<String> finished) throws Exception {
        try (Harness left = open(plan, repartitioned(state, 1, 2, 0), 2, 0);
                Harness right = open(plan, repartitioned(state, 1, 2, 1), 2, 1)) {
            assertEquals(answered(owned(0), 2), sorted(outputs(left, owned(0).size())));
            assertEquals(answered(owned(1), 2), sorted(outputs(right, owned(1).size())));
            until(left, () -> made().containsAll(calls(" three")));
            List<String> expected = calls(" two");
            finished.forEach(key -> expected.remove(key + " two"));
            expected.addAll(calls(" three"));
            assertEquals(sorted(expected), sorted(made()), "L2: none that had finished");
            return AbstractStreamOperatorTestHarness.repackageState(
                    left.snapshot(2, SAVEPOINT), right.snapshot(2, SAVEPOINT));
        }
    }

    private static OperatorSubtaskState repartitioned(
            OperatorSubtaskState state, int from, int to, int subtask) {
        return AbstractStreamOperatorTestHarness.repartitionOperatorState(
                state, Harness.MAX_PARALLELISM, from, to, subtask);
    }

    private static void hold(String call) {
        calls(call).forEach(JavaTestActions::hold);
    }

    private static List<String> calls(String call) {
        return KEYS.stream().map(key -> key + call).collect(Collectors.toList());
    }

    private static List<String> owned(int subtask) {
        return KEYS.stream()
                .filter(
                        key ->
                                KeyGroupRangeAssignment.assignKeyToParallelOperator(
                                                key, Harness.MAX_PARALLELISM, 2)
                                        == subtask)
                .collect(Collectors.toList());
    }

    /** The outputs after so many calls. */
    private static List<String> answered(List<String> keys, int calls) {
        List<String> names = List.of(" one!\"", " two!\"", " three!\"").subList(0, calls);
        return sorted(
                keys.stream()
                        .map(
                                key ->
                                        names.stream()
                                                .map(name -> "\"" + key + name)
                                                .collect(Collectors.joining(", ", "[", "]")))
                        .collect(Collectors.toList()));
    }
}
