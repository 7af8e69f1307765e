package org.flinkagents.durable;

import static org.flinkagents.durable.JavaAgents.input;
import static org.flinkagents.durable.JavaAgents.made;
import static org.flinkagents.durable.JavaAgents.onInput;
import static org.flinkagents.durable.JavaAgents.open;
import static org.flinkagents.durable.JavaAgents.outputs;
import static org.flinkagents.durable.JavaAgents.plan;
import static org.flinkagents.durable.JavaAgents.storedIn;
import static org.flinkagents.durable.JavaAgents.until;
import static org.flinkagents.durable.JavaTestActions.echo;
import static org.flinkagents.durable.JavaTestActions.out;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.IOException;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import org.flinkagents.durable.api.DurableFuture;
import org.flinkagents.durable.api.Event;
import org.flinkagents.durable.api.Outcome;
import org.flinkagents.durable.api.RunnerContext;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;

/** What Java actions get of an attempt that ended in the middle of a wait. */
@Timeout(180)
public class JavaReplayTest {
    @TempDir private Path folder;

    @BeforeEach
    @AfterEach
    void reset() {
        JavaTestActions.reset();
    }

    private byte[] planOf(String method, Map<String, ?> options) {
        return plan(
                List.of(onInput(JavaReplayTest.class, method)),
                storedIn(folder),
                Map.of("options", options));
    }

    /** A batch; or, for the key {@code other}, a single call. */
    public static void batch(Event event, RunnerContext ctx) throws Exception {
        if (ctx.getKey().equals("other")) {
            out(ctx, ctx.await(ctx.durableExecuteAsync(echo("other"))));
            return;
        }
        List<Object> seen = new ArrayList<>();
        for (Outcome<String> outcome :
                ctx.gather(
                        ctx.durableExecuteAsync(echo("held")),
                        ctx.durableExecuteAsync(echo("fast")))) {
            seen.add(outcome.getValue());
        }
        out(ctx, seen);
    }

    /**
     * Two workers, one of which is held, end their calls in order, and in order they are recorded.
     */
    @Test
    void f9WhatWasFinishedInABatchIsKept() throws Exception {
        byte[] plan = planOf("batch", Map.of("agents.call.workers", 2));
        JavaTestActions.hold("held");
        try (Harness harness = open(plan)) {
            input(harness, "k");
            until(harness, () -> made().containsAll(List.of("held", "fast")));
            input(harness, "other");
            assertEquals(List.of("\"other!\""), outputs(harness, 1));
        }
        JavaTestActions.reset();
        try (Harness harness = open(plan)) {
            input(harness, "k");
            assertEquals(List.of("[\"held!\", \"fast!\"]"), outputs(harness, 1));
            assertEquals(List.of("held"), made());
        }
    }

    // ---------------------------------------------------------------- pinned now, not before

    private static volatile boolean pinned;

    /** A wait of every kind, in a frame that pins on JDK 21 if the test says so. */
    public static void sometimesPinned(Event event, RunnerContext ctx) throws Exception {
        List<Object> seen = new ArrayList<>();
        if (pinned) {
            synchronized (new Object()) {
                waits(ctx, seen);
            }
        } else {
            waits(ctx, seen);
        }
        out(ctx, seen);
        ctx.await(ctx.durableExecuteAsync(echo("held")));
        out(ctx, "end");
    }

    private static void waits(RunnerContext ctx, List<Object> seen) throws Exception {
        seen.add(ctx.await(ctx.durableExecuteAsync(echo("one"))));
        ctx.getShortTermMemory().set("seen", seen);
        gathered(seen, ctx.gather(ctx.durableExecuteAsync(echo("two")), failing(ctx)));
        ctx.sleep(Duration.ofMillis(2));
        seen.add(ctx.now().toEpochMilli());
        Duration limit = Duration.ofMillis(100);
        DurableFuture<String> fast = ctx.durableExecuteAsync(echo("fast"));
        DurableFuture<String> slow = ctx.durableExecuteAsync(echo("slow"));
        gathered(seen, ctx.gather(limit, fast, slow));
        DurableFuture<String> failing = failing(ctx);
        try {
            ctx.await(failing);
        } catch (IOException e) {
            seen.add(e.getMessage());
        }
        seen.add(ctx.durableExecute(echo("three")));
        seen.add(ctx.now().toEpochMilli());
        seen.add(ctx.getShortTermMemory().get("beside"));
    }

    /** What it remembers is seen by the other action, whose frame may hold the task meanwhile. */
    public static void beside(Event event, RunnerContext ctx) throws Exception {
        ctx.getShortTermMemory().set("beside", ctx.await(ctx.durableExecuteAsync(echo("beside"))));
    }

    private static DurableFuture<String> failing(RunnerContext ctx) {
        return ctx.durableExecuteAsync(
                JavaTestActions.call(
                        "failing",
                        String.class,
                        () -> {
                            throw new IOException("on purpose");
                        }));
    }

    private static void gathered(List<Object> seen, List<Outcome<String>> outcomes)
            throws Exception {
        for (Outcome<String> outcome : outcomes) {
            seen.add(outcome.isSuccess() ? outcome.getValue() : outcome.getError().getMessage());
        }
    }

    @ParameterizedTest
    @CsvSource({"false, true", "true, false", "true, true"})
    void p17WhatWasRecordedInAFrameThatPinsReplaysInOneThatDoesNotAndTheReverse(
            boolean first, boolean second) throws Exception {
        String owner = JavaReplayTest.class.getName();
        byte[] plan =
                plan(
                        List.of(
                                List.of("act", "_input_event", owner, "sometimesPinned"),
                                List.of("beside", "_input_event", owner, "beside")),
                        storedIn(folder),
                        Map.of("options", Map.of("agents.mismatch-policy", "fail")));
        JavaTestActions.hold("held");
        JavaTestActions.hold("slow");
        if (first) {
            JavaTestActions.hold("slow").countDown(); // the whole task would wait for it
        }
        List<String> before;
        pinned = first;
        try (Harness harness = open(plan)) {
            input(harness, "k");
            before = outputs(harness, 1);
            until(harness, () -> made().contains("held"));
        }
        JavaTestActions.reset();
        pinned = second;
        try (Harness harness = open(plan)) {
            input(harness, "k");
            assertEquals(before.get(0), outputs(harness, 2).get(0));
            List<String> again = new ArrayList<>(made());
            if (first) {
                again.remove("beside"); // it began when the frame had let go of the task
            } else {
                assertTrue(before.get(0).endsWith("\"beside!\"]"), before.get(0));
            }
            assertEquals(List.of("held"), again);
        }
    }
}
