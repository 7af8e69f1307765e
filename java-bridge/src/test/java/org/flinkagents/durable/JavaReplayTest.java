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

import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import org.flinkagents.durable.api.Event;
import org.flinkagents.durable.api.Outcome;
import org.flinkagents.durable.api.RunnerContext;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.io.TempDir;

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
}
