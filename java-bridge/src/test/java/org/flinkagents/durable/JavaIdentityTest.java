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
import static org.junit.jupiter.api.Assertions.assertNotEquals;

import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Collections;
import java.util.HashSet;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import org.flinkagents.durable.api.DurableCallable;
import org.flinkagents.durable.api.Event;
import org.flinkagents.durable.api.Outcome;
import org.flinkagents.durable.api.RunnerContext;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.io.TempDir;

/** What tells calls, executions and keys of Java actions apart, and what does not. */
@Timeout(180)
public class JavaIdentityTest {
    private static final AtomicInteger COUNTER = new AtomicInteger();

    private static volatile boolean reversed;
    private static volatile int last;

    @TempDir private Path folder;

    @BeforeEach
    @AfterEach
    void reset() {
        JavaTestActions.reset();
        COUNTER.set(0);
        reversed = false;
        last = 2;
    }

    private static byte[] planOf(String method, Path folder) {
        return plan(List.of(onInput(JavaIdentityTest.class, method)), storedIn(folder), Map.of());
    }

    /** A call of these arguments. */
    private static DurableCallable<String> of(Object... arguments) {
        return DurableCallable.of(
                "of",
                String.class,
                () -> {
                    JavaTestActions.MADE.add("of");
                    return "done";
                },
                arguments);
    }

    // ---------------------------------------------------------------- arguments

    /** A bean with what has no order of its own. */
    public static final class Loose {
        public final Map<String, Object> map;
        public final Set<TimeUnit> units;

        Loose(Map<String, Object> map) {
            this.map = map;
            this.units = new HashSet<>(List.of(TimeUnit.values())); // identity hashes
        }
    }

    /** Equal arguments, in maps of the other order and of objects that are shared or not. */
    public static void equal(Event event, RunnerContext ctx) throws Exception {
        List<String> names = new ArrayList<>(List.of("a", "b", "c"));
        if (reversed) {
            Collections.reverse(names);
        }
        Map<String, Object> map = new LinkedHashMap<>();
        names.forEach(name -> map.put(name, List.of(name)));
        List<Integer> pair = List.of(1, last);
        List<?> pairs =
                reversed
                        ? List.of(pair, pair)
                        : List.of(List.of(1, last), List.of(1L, (long) last));
        Set<String> salted = Set.of("a", "b", "c", "d", "e", "f", "g", "h");
        String done = ctx.await(ctx.durableExecuteAsync(of(map, pairs, salted, new Loose(map))));
        out(ctx, done);
    }

    private static void askEqual(Path folder) throws Exception {
        try (Harness harness = open(planOf("equal", folder))) {
            input(harness, "k");
            assertEquals(List.of("\"done\""), outputs(harness, 1));
        }
    }

    @Test
    void d1EqualArgumentsAreTheSameWhateverTheirOrderAndSharing() throws Exception {
        askEqual(folder);
        assertEquals(List.of("of"), made());
        reversed = true;
        askEqual(folder);
        assertEquals(List.of("of"), made(), "replayed");
        last = 3;
        askEqual(folder);
        assertEquals(List.of("of", "of"), made(), "of other arguments");
    }

    /** The first attempt in a JVM of its own, with another salt and other identity hashes. */
    @Test
    void d1EqualArgumentsAreTheSameInAnotherJvm() throws Exception {
        OtherJvm.run(JavaIdentityTest.class, folder.toString());
        askEqual(folder);
        assertEquals(List.of(), made(), "replayed");
    }

    /** The other JVM. Leaves without waiting for whatever threads it has. */
    public static void main(String[] arguments) {
        last = 2;
        try {
            askEqual(Path.of(arguments[0]));
            Runtime.getRuntime().halt(0);
        } catch (Throwable e) {
            e.printStackTrace();
            Runtime.getRuntime().halt(1);
        }
    }

    /** Calls that change the list that they got; in a batch it is the list of the next one, too. */
    public static void mutating(Event event, RunnerContext ctx) throws Exception {
        List<Object> list = new ArrayList<>(List.of("begin"));
        DurableCallable<String> changing =
                DurableCallable.of(
                        "changing",
                        String.class,
                        () -> {
                            JavaTestActions.MADE.add("changing");
                            synchronized (list) {
                                list.add("more");
                            }
                            return "changed";
                        },
                        list);
        List<Object> seen = new ArrayList<>();
        for (Outcome<String> outcome :
                ctx.gather(ctx.durableExecuteAsync(changing), ctx.durableExecuteAsync(changing))) {
            seen.add(outcome.getValue());
        }
        list.clear();
        seen.add(ctx.await(ctx.durableExecuteAsync(changing)));
        list.clear();
        seen.add(ctx.durableExecute(changing));
        out(ctx, seen);
    }

    @Test
    void d2ACallThatChangesItsArgumentsIsStillTheSameCall() throws Exception {
        for (int attempt = 0; attempt < 2; attempt++) {
            try (Harness harness = open(planOf("mutating", folder))) {
                input(harness, "k");
                String all = "[\"changed\", \"changed\", \"changed\", \"changed\"]";
                assertEquals(List.of(all), outputs(harness, 1));
            }
            assertEquals(attempt == 0 ? 4 : 0, made().size());
            JavaTestActions.reset();
        }
    }

    // ---------------------------------------------------------------- executions and keys

    public static void twins(Event event, RunnerContext ctx) {
        ctx.sendEvent(new Event("twin", Map.of("n", 1)));
        ctx.sendEvent(new Event("twin", Map.of("n", 1)));
    }

    /** Gives what tells the two apart beside what each of them got from its call. */
    public static void twin(Event event, RunnerContext ctx) throws Exception {
        DurableCallable<Integer> counting =
                JavaTestActions.call("count", Integer.class, COUNTER::incrementAndGet);
        Integer count = ctx.await(ctx.durableExecuteAsync(counting));
        out(ctx, List.of(ctx.uuid().toString(), event.getId().toString(), count));
        ctx.await(ctx.durableExecuteAsync(echo("held")));
    }

    @Test
    void d4TwoEqualEventsOfARunAreTwoExecutions() throws Exception {
        byte[] plan =
                plan(
                        List.of(
                                onInput(JavaIdentityTest.class, "twins"),
                                List.of("twin", "twin", JavaIdentityTest.class.getName(), "twin")),
                        storedIn(folder),
                        Map.of());
        JavaTestActions.hold("held");
        List<String> first;
        try (Harness harness = open(plan)) {
            input(harness, "k");
            first = sorted(outputs(harness, 2));
            until(harness, () -> Collections.frequency(made(), "held") == 2);
        }
        assertNotEquals(first.get(0).substring(0, 38), first.get(1).substring(0, 38));
        assertEquals(2, COUNTER.get());
        JavaTestActions.reset();
        try (Harness harness = open(plan)) {
            input(harness, "k");
            assertEquals(first, sorted(outputs(harness, 2)), "each has its own results");
            until(harness, () -> made().size() == 2);
            assertEquals(List.of("held", "held"), made());
        }
    }

    /** Counts the inputs of its key. */
    public static void counting(Event event, RunnerContext ctx) {
        Long before = ctx.getShortTermMemory().get("count", Long.class);
        long count = before == null ? 1 : before + 1;
        ctx.getShortTermMemory().set("count", count);
        Object key = ctx.getKey();
        out(ctx, List.of(key.getClass().getSimpleName(), key.hashCode(), count));
    }

    @Test
    void d4KeysAreToldApartByTypeAndEveryCharacter() throws Exception {
        List<String> keys =
                List.of("1", "\"1\"", "\"a_b\"", "\"a/b\"", "\"a\\nb\"", "\"a\\u0000b\"", "true");
        String large = "x".repeat(10_000);
        List<String> all = new ArrayList<>(keys);
        all.add("\"" + large + "\"");
        List<String> expected = new ArrayList<>();
        for (int count = 1; count <= 2; count++) {
            expected.add("[\"Long\", " + Long.valueOf(1).hashCode() + ", " + count + "]");
            expected.add("[\"Boolean\", " + Boolean.TRUE.hashCode() + ", " + count + "]");
            for (String text : List.of("1", "a_b", "a/b", "a\nb", "a\0b", large)) {
                expected.add("[\"String\", " + text.hashCode() + ", " + count + "]");
            }
        }
        byte[] plan =
                plan(
                        List.of(onInput(JavaIdentityTest.class, "counting")),
                        Map.of(),
                        Map.of("json_keys", true));
        try (Harness harness = open(plan)) {
            for (int round = 0; round < 2; round++) {
                for (String key : all) {
                    input(harness, key);
                }
            }
            assertEquals(sorted(expected), sorted(outputs(harness, expected.size())));
        }
    }
}
