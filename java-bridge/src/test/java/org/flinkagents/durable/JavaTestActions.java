package org.flinkagents.durable;

import java.io.IOException;
import java.lang.ref.WeakReference;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Collections;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.Callable;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.concurrent.atomic.AtomicReference;
import org.flinkagents.durable.api.CallOptions;
import org.flinkagents.durable.api.CallTimeoutException;
import org.flinkagents.durable.api.DurableCallable;
import org.flinkagents.durable.api.DurableExecutionException;
import org.flinkagents.durable.api.DurableFuture;
import org.flinkagents.durable.api.Event;
import org.flinkagents.durable.api.InputEvent;
import org.flinkagents.durable.api.Outcome;
import org.flinkagents.durable.api.OutputEvent;
import org.flinkagents.durable.api.RecordedCallException;
import org.flinkagents.durable.api.RetryPolicy;
import org.flinkagents.durable.api.RunnerContext;

/** Actions of the tests; what their calls did is kept here, beyond the operators. */
public final class JavaTestActions {
    /** Labels of the calls that ran, in the order of their starts. */
    static final List<String> MADE = Collections.synchronizedList(new ArrayList<>());

    private static final Map<String, CountDownLatch> GATES = new ConcurrentHashMap<>();

    private JavaTestActions() {}

    static void reset() {
        MADE.clear();
        CAUGHT.clear();
        ATTEMPTS.set(0);
        MOST.set(0);
        KEPT.set(null);
        broken = false;
        GATES.values().forEach(CountDownLatch::countDown);
        GATES.clear();
    }

    /** Calls with this label wait until it is opened. */
    static CountDownLatch hold(String label) {
        return GATES.computeIfAbsent(label, l -> new CountDownLatch(1));
    }

    static <T> Call<T> call(String label, Class<T> type, Callable<T> body) {
        return new Call<>(label, type, body);
    }

    static Call<String> echo(String label) {
        return call(label, String.class, () -> label + "!");
    }

    /** A call with one id for all, told apart by its label. */
    static final class Call<T> implements DurableCallable<T> {
        private final String label;
        private final Class<T> type;
        private final Callable<T> body;
        private Callable<T> reconciler;
        private String id = "call";

        Call(String label, Class<T> type, Callable<T> body) {
            this.label = label;
            this.type = type;
            this.body = body;
        }

        Call<T> reconciledBy(Callable<T> reconciler) {
            this.reconciler =
                    () -> {
                        MADE.add("reconcile " + label);
                        return reconciler.call();
                    };
            return this;
        }

        Call<T> named(String id) {
            this.id = id;
            return this;
        }

        @Override
        public String getId() {
            return id;
        }

        @Override
        public Class<T> getResultClass() {
            return type;
        }

        @Override
        public List<?> arguments() {
            return List.of(label);
        }

        @Override
        public Callable<T> reconciler() {
            return reconciler;
        }

        @Override
        public T call() throws Exception {
            MADE.add(label);
            CountDownLatch gate = GATES.get(label);
            if (gate != null) {
                gate.await();
            }
            return body.call();
        }
    }

    /** A bean, as users have them. */
    public static final class Order {
        public String item;
        public int count;
        public byte[] picture;

        public Order() {}

        Order(String item, int count) {
            this.item = item;
            this.count = count;
            this.picture = new byte[] {0, 1, -1};
        }
    }

    static void out(RunnerContext ctx, Object value) {
        ctx.sendEvent(new OutputEvent(value));
    }

    // ---------------------------------------------------------------- actions

    /** Three calls one after the other, with an output after each. */
    public static void steps(Event event, RunnerContext ctx) throws Exception {
        for (String name : List.of("a", "b", "c")) {
            out(ctx, ctx.await(ctx.durableExecuteAsync(echo(ctx.getKey() + name))));
        }
    }

    public static void bean(Event event, RunnerContext ctx) throws Exception {
        Order order =
                ctx.await(
                        ctx.durableExecuteAsync(
                                call("order", Order.class, () -> new Order("tea", 3))));
        out(ctx, List.of(order.item, order.count, order.picture.length, order.picture[2]));
    }

    public static void futures(Event event, RunnerContext ctx) throws Exception {
        DurableFuture<String> never = ctx.durableExecuteAsync(echo("never"));
        DurableFuture<String> one = ctx.durableExecuteAsync(echo("one"));
        DurableFuture<String> two = ctx.durableExecuteAsync(echo("two"));
        List<Outcome<String>> both = ctx.gather(one, two);
        List<Object> seen = new ArrayList<>();
        for (Outcome<String> outcome : both) {
            seen.add(outcome.getValue());
        }
        seen.add(ctx.await(one));
        seen.add(ctx.durableExecute(echo("three")));
        for (List<DurableFuture<String>> wrong :
                List.of(List.of(one, never), List.of(never, never))) {
            try {
                ctx.gatherAll(null, wrong);
            } catch (IllegalArgumentException e) {
                seen.add(e.getMessage().contains("nothing was reserved"));
            }
        }
        seen.add(ctx.await(ctx.durableExecuteAsync(echo("four"))));
        out(ctx, seen);
    }

    public static void surroundings(Event event, RunnerContext ctx) throws Exception {
        Map<String, Object> seen = new LinkedHashMap<>();
        seen.put("key", ctx.getKey());
        seen.put("input", ((InputEvent) event).getInput());
        seen.put("config", ctx.getActionConfig());
        seen.put("workers", ctx.getConfigValue("agents.call.workers"));
        ctx.getShortTermMemory().set("a.b", List.of(1, 2));
        seen.put("memory", ctx.getShortTermMemory().get("a.b"));
        seen.put("fields", ctx.getShortTermMemory().getFields());
        ctx.getSensoryMemory().set("x", Map.of("deep", new byte[] {1}));
        seen.put("sensory", ctx.getSensoryMemory().isExist("x"));
        try {
            ctx.getShortTermMemory().set("a", 1);
        } catch (IllegalArgumentException e) {
            seen.put("refused", e.getMessage());
        }
        ctx.getActionMetricGroup().getSubGroup("sub").count("counted", 2);
        ctx.getLogger().info("an action of {}", ctx.getKey());
        ctx.sendEvent(new Event("to_python", Map.of("value", new Order("tea", 1))));
        seen.put("loader", Thread.currentThread().getContextClassLoader() != null);
        out(ctx, seen);
    }

    /** What must be the same on replay. */
    public static void same(Event event, RunnerContext ctx) throws Exception {
        List<Object> seen = new ArrayList<>();
        seen.add(ctx.now().toEpochMilli());
        seen.add(ctx.random().nextLong());
        seen.add(ctx.uuid().toString());
        seen.add(ctx.uuid().toString());
        ctx.sleep(Duration.ofMillis(5));
        seen.add(ctx.now().toEpochMilli());
        ctx.await(ctx.durableExecuteAsync(echo("last")));
        seen.add(ctx.now().toEpochMilli());
        out(ctx, seen);
        ctx.await(ctx.durableExecuteAsync(echo("held")));
        out(ctx, "end");
    }

    /** Waits under a monitor, which pins on 21. */
    public static void pinned(Event event, RunnerContext ctx) throws Exception {
        List<Object> seen = new ArrayList<>();
        synchronized (new Object()) {
            seen.add(ctx.await(ctx.durableExecuteAsync(echo("p1"))));
            for (Outcome<String> outcome :
                    ctx.gather(
                            ctx.durableExecuteAsync(echo("p2")),
                            ctx.durableExecuteAsync(echo("p3")))) {
                seen.add(outcome.getValue());
            }
            ctx.sleep(Duration.ofMillis(2));
            ctx.getShortTermMemory().set("p", 1);
            seen.add(ctx.getShortTermMemory().get("p"));
            out(ctx, "inside");
        }
        seen.add(ctx.await(ctx.durableExecuteAsync(echo("p4"))));
        out(ctx, seen);
        ctx.await(ctx.durableExecuteAsync(echo("held")));
        out(ctx, "end");
    }

    /** Answers a Python action. */
    public static void answer(Event event, RunnerContext ctx) throws Exception {
        Map<String, Object> seen = new LinkedHashMap<>();
        byte[] bytes = (byte[]) event.getAttr("bytes");
        seen.put("bytes", List.of(bytes[0], bytes[1]));
        seen.put("pair", event.getAttr("pair"));
        seen.put("memory", ctx.getShortTermMemory().get("from_python"));
        seen.put("id", event.getId() != null);
        out(ctx, seen);
    }

    // ---------------------------------------------------------------- failures

    /** An exception that its message and fields give back. */
    public static final class Busy extends Exception {
        private static final long serialVersionUID = 1L;
        private int retryAfter;

        public Busy(String message) {
            super(message);
        }

        static Busy after(int seconds, Throwable cause) {
            Busy busy = new Busy("busy");
            busy.retryAfter = seconds;
            busy.initCause(cause);
            return busy;
        }

        int retryAfter() {
            return retryAfter;
        }
    }

    /** An exception with a constructor that nobody can guess, and an object in it. */
    public static final class Odd extends RuntimeException {
        private static final long serialVersionUID = 1L;
        private final int status;
        private final transient Object connection = new Object();

        public Odd(int status, String reason) {
            super("status " + status + " " + reason);
            this.status = status;
        }

        @Override
        public String toString() {
            return "Odd" + connection.hashCode() + status;
        }
    }

    private static String described(Throwable error) {
        String text = error.getClass().getSimpleName() + "(" + error.getMessage() + ")";
        if (error instanceof Busy) {
            text += ((Busy) error).retryAfter();
        }
        if (error instanceof RecordedCallException) {
            text += ((RecordedCallException) error).getFields();
        }
        return error.getCause() == null ? text : text + " < " + described(error.getCause());
    }

    /** Calls that fail in several ways, caught; in a batch and in place too. */
    public static void failures(Event event, RunnerContext ctx) throws Exception {
        List<Object> seen = new ArrayList<>();
        List<DurableFuture<String>> futures = new ArrayList<>();
        futures.add(
                ctx.durableExecuteAsync(
                        call(
                                "busy",
                                String.class,
                                () -> {
                                    throw Busy.after(7, new Odd(500, "why"));
                                })));
        futures.add(
                ctx.durableExecuteAsync(
                        call(
                                "odd",
                                String.class,
                                () -> {
                                    throw new Odd(429, "slow");
                                })));
        futures.add(
                ctx.durableExecuteAsync(
                        call(
                                "none",
                                String.class,
                                () -> {
                                    throw new IllegalStateException();
                                })));
        for (DurableFuture<String> future : futures) {
            for (int i = 0; i < 2; i++) {
                try {
                    ctx.await(future);
                } catch (Exception e) {
                    seen.add(described(e));
                }
            }
        }
        List<Outcome<Object>> outcomes =
                ctx.gather(
                        ctx.durableExecuteAsync(echo("fine")),
                        ctx.durableExecuteAsync(
                                call(
                                        "unrecordable",
                                        Object.class,
                                        () -> {
                                            Map<String, Object> circle = new LinkedHashMap<>();
                                            circle.put("self", circle);
                                            return circle;
                                        })),
                        ctx.durableExecuteAsync(echo("neighbour")));
        for (Outcome<Object> outcome : outcomes) {
            seen.add(
                    outcome.isSuccess()
                            ? outcome.getValue()
                            : outcome.getError().getClass().getSimpleName());
        }
        try {
            ctx.durableExecute(
                    call(
                            "in place",
                            String.class,
                            () -> {
                                throw new IOException("in place");
                            }));
        } catch (IOException e) {
            seen.add(described(e));
        }
        out(ctx, seen);
        ctx.await(ctx.durableExecuteAsync(echo("held")));
        out(ctx, "end");
    }

    static volatile boolean broken;

    /** An uncaught failure of the second call, as long as it is broken. */
    public static void uncaught(Event event, RunnerContext ctx) throws Exception {
        out(ctx, ctx.await(ctx.durableExecuteAsync(echo("first"))));
        try {
            ctx.await(
                    ctx.durableExecuteAsync(
                            call(
                                    "second",
                                    String.class,
                                    () -> {
                                        if (broken) {
                                            throw new Busy("broken");
                                        }
                                        return "second!";
                                    })));
        } catch (Busy e) {
            throw new IllegalStateException("wrapped", e);
        }
        out(ctx, "end");
    }

    /** A call with a reconciler, alone, in place, and in a batch. */
    public static void reconciled(Event event, RunnerContext ctx) throws Exception {
        String mode = (String) ((InputEvent) event).getInput(Map.class).get("mode");
        Call<String> call = echo("doubtful").reconciledBy(() -> "reconciled");
        if (mode.equals("sync")) {
            out(ctx, ctx.durableExecute(call));
        } else if (mode.equals("gather")) {
            List<Outcome<String>> outcomes =
                    ctx.gather(ctx.durableExecuteAsync(call), ctx.durableExecuteAsync(echo("x")));
            out(ctx, outcomes.get(0).getValue());
        } else {
            out(ctx, ctx.await(ctx.durableExecuteAsync(call)));
        }
    }

    /** A batch whose time ends before its second call, which the test holds. */
    public static void late(Event event, RunnerContext ctx) throws Exception {
        List<Object> seen = new ArrayList<>();
        DurableFuture<String> fast = ctx.durableExecuteAsync(echo("fast"));
        DurableFuture<String> slow = ctx.durableExecuteAsync(echo("slow"));
        for (Outcome<String> outcome : ctx.gather(Duration.ofMillis(300), fast, slow)) {
            seen.add(
                    outcome.isSuccess()
                            ? outcome.getValue()
                            : outcome.getError().getClass().getSimpleName());
        }
        try {
            ctx.await(slow);
        } catch (CallTimeoutException e) {
            seen.add("again");
        }
        try {
            ctx.await(
                    ctx.durableExecuteAsync(
                            echo("single"),
                            CallOptions.DEFAULT.withTimeout(Duration.ofMillis(50))));
        } catch (CallTimeoutException e) {
            seen.add("single");
        }
        out(ctx, seen);
    }

    static final AtomicInteger ATTEMPTS = new AtomicInteger();

    /** Fails twice with what is tried again, then with what is not, each in its own call. */
    public static void retried(Event event, RunnerContext ctx) throws Exception {
        CallOptions options =
                CallOptions.DEFAULT.withRetry(
                        RetryPolicy.of(3)
                                .withIntervals(Duration.ofMillis(5), 1, Duration.ofMillis(5))
                                .onlyOn(Busy.class));
        List<Object> seen = new ArrayList<>();
        Callable<Integer> body =
                () -> {
                    if (ATTEMPTS.incrementAndGet() < 3) {
                        throw new Busy("again");
                    }
                    return ATTEMPTS.get();
                };
        seen.add(ctx.await(ctx.durableExecuteAsync(call("r1", Integer.class, body), options)));
        ATTEMPTS.set(0);
        seen.add(ctx.durableExecute(call("r2", Integer.class, body), options));
        try {
            ctx.await(
                    ctx.durableExecuteAsync(
                            call(
                                    "r3",
                                    Integer.class,
                                    () -> {
                                        throw new Odd(1, "final");
                                    }),
                            options));
        } catch (RuntimeException e) {
            seen.add("final");
        }
        out(ctx, seen);
    }

    static final List<Object> CAUGHT = Collections.synchronizedList(new ArrayList<>());

    /** What a call throws is caught, and the action goes on as if nothing were. */
    public static void interrupted(Event event, RunnerContext ctx) throws Exception {
        String mode = (String) ((InputEvent) event).getInput(Map.class).get("mode");
        Call<String> call =
                call(
                        "interrupted",
                        String.class,
                        () -> {
                            if (broken) {
                                throw new IllegalStateException(new InterruptedException("stop"));
                            }
                            return "done";
                        });
        out(ctx, ctx.await(ctx.durableExecuteAsync(echo("before"))));
        Object answer = null;
        try {
            if (mode.equals("sync")) {
                answer = ctx.durableExecute(call);
            } else if (mode.equals("gather")) {
                answer =
                        ctx.gather(
                                        ctx.durableExecuteAsync(echo("first")),
                                        ctx.durableExecuteAsync(call),
                                        ctx.durableExecuteAsync(echo("third")))
                                .get(1)
                                .getValue();
            } else {
                answer = ctx.await(ctx.durableExecuteAsync(call));
            }
        } catch (IllegalStateException e) {
            CAUGHT.add(e.getCause().getMessage());
            CAUGHT.add(Thread.currentThread().isInterrupted());
            ctx.sendEvent(new OutputEvent("swallowed"));
            ctx.await(ctx.durableExecuteAsync(echo("after")));
        }
        out(ctx, answer);
    }

    /** Waits with something to close. */
    public static void closing(Event event, RunnerContext ctx) throws Exception {
        try {
            out(ctx, "begun");
            ctx.await(ctx.durableExecuteAsync(echo("held")));
        } finally {
            CAUGHT.add("finally");
            try {
                ctx.sendEvent(new OutputEvent("refused"));
            } catch (Error e) {
                CAUGHT.add(e.getClass().getSimpleName());
            }
        }
    }

    /** Calls of every kind for one input, each labelled by it. */
    public static void chain(Event event, RunnerContext ctx) throws Exception {
        String name = "n" + ((InputEvent) event).getInput(Map.class).get("n") + " ";
        StringBuilder answers = new StringBuilder();
        answers.append(ctx.await(ctx.durableExecuteAsync(echo(name + "first"))));
        answers.append(ctx.durableExecute(echo(name + "in place")));
        ctx.sleep(Duration.ofMillis(20));
        for (Outcome<String> outcome :
                ctx.gather(
                        ctx.durableExecuteAsync(echo(name + "left")),
                        ctx.durableExecuteAsync(echo(name + "right")))) {
            answers.append(outcome.getValue());
        }
        Long seen = ctx.getShortTermMemory().get("seen", Long.class);
        ctx.getShortTermMemory().set("seen", seen == null ? 1 : seen + 1);
        answers.append(ctx.await(ctx.durableExecuteAsync(echo(name + "last"))));
        out(ctx, List.of(name, answers.toString(), seen == null ? 1 : seen + 1));
    }

    /** Nothing, with one id. */
    private static final DurableCallable<Long> NOTHING =
            new DurableCallable<>() {
                @Override
                public String getId() {
                    return "nothing";
                }

                @Override
                public Class<Long> getResultClass() {
                    return Long.class;
                }

                @Override
                public Long call() {
                    return 1L;
                }
            };

    /** Many calls of nothing. */
    public static void busy(Event event, RunnerContext ctx) throws Exception {
        Map<?, ?> input = ((InputEvent) event).getInput(Map.class);
        for (long n = (Long) input.get("n"); n > 0; n--) {
            ctx.await(ctx.durableExecuteAsync(NOTHING));
        }
        out(ctx, "end");
    }

    /** Waits for half a second. */
    public static void waiting(Event event, RunnerContext ctx) throws Exception {
        ctx.sleep(Duration.ofMillis(500));
        out(ctx, "end");
    }

    static final AtomicInteger RUNNING = new AtomicInteger();
    static final AtomicInteger MOST = new AtomicInteger();

    private static Call<String> counted(String label) {
        return call(
                label,
                String.class,
                () -> {
                    int running = RUNNING.incrementAndGet();
                    MOST.accumulateAndGet(running, Math::max);
                    Thread.sleep(20);
                    RUNNING.decrementAndGet();
                    return label;
                });
    }

    /** A batch of eight, and how many of its calls ran at a time. */
    public static void many(Event event, RunnerContext ctx) throws Exception {
        Object limit = ((InputEvent) event).getInput(Map.class).get("limit");
        CallOptions options =
                limit == null ? CallOptions.DEFAULT : CallOptions.DEFAULT.withLimit((String) limit);
        List<DurableFuture<String>> futures = new ArrayList<>();
        for (int i = 0; i < 8; i++) {
            futures.add(ctx.durableExecuteAsync(counted("m" + i), options));
        }
        int good = 0;
        for (Outcome<String> outcome : ctx.gatherAll(null, futures)) {
            good += outcome.isSuccess() ? 1 : 0;
        }
        out(ctx, good);
    }

    /** Two calls of one id, in an order that the test changes. */
    public static void swapped(Event event, RunnerContext ctx) throws Exception {
        List<String> order = broken ? List.of("two", "one") : List.of("one", "two");
        List<Object> seen = new ArrayList<>();
        for (String label : order) {
            seen.add(ctx.await(ctx.durableExecuteAsync(echo(label))));
        }
        out(ctx, seen);
        ctx.await(ctx.durableExecuteAsync(echo("held")));
        out(ctx, "end");
    }

    /** The task itself is interrupted while it waits for a call. */
    public static void waitInPlace(Event event, RunnerContext ctx) throws Exception {
        try {
            ctx.durableExecute(echo("held"));
        } catch (InterruptedException e) {
            CAUGHT.add(Thread.currentThread().isInterrupted());
            out(ctx, "swallowed");
            throw e;
        }
        out(ctx, "end");
    }

    static volatile WeakReference<RunnerContext> context;

    /** Leaves its context and a call that lasts behind. */
    public static void leaving(Event event, RunnerContext ctx) throws Exception {
        context = new WeakReference<>(ctx);
        ctx.await(ctx.durableExecuteAsync(echo("fast")));
        out(ctx, "end");
    }

    /** Uses another execution's future and context, and its own from a call. */
    public static void foreign(Event event, RunnerContext ctx) throws Exception {
        List<Object> seen = new ArrayList<>();
        DurableFuture<String> own = ctx.durableExecuteAsync(echo("own"));
        Object kept = KEPT.getAndSet(own);
        if (kept != null) {
            try {
                ctx.await((DurableFuture<?>) kept);
            } catch (IllegalArgumentException e) {
                seen.add(e.getMessage().contains("another action execution"));
            }
        }
        seen.add(
                ctx.await(
                        ctx.durableExecuteAsync(
                                call(
                                        "inside",
                                        Boolean.class,
                                        () -> {
                                            try {
                                                ctx.sendEvent(new OutputEvent("wrong"));
                                            } catch (DurableExecutionException e) {
                                                return true;
                                            }
                                            return false;
                                        }))));
        out(ctx, seen);
    }

    private static final AtomicReference<Object> KEPT = new AtomicReference<>();

    // ---------------------------------------------------------------- for Python

    static int add(int a, Integer b) {
        MADE.add("add");
        return a + b;
    }

    static String refuse(String why) {
        MADE.add("refuse");
        throw new IllegalArgumentException(why);
    }

    /** Arguments of a tool. */
    public static final class Point {
        public int x;
        public int y;
    }

    static Map<String, Object> norm(Point point) {
        MADE.add("norm");
        return Map.of("norm", point.x + point.y, "bytes", new byte[] {1});
    }

    static String held() throws InterruptedException {
        MADE.add("held");
        CountDownLatch gate = GATES.get("held");
        if (gate != null) {
            gate.await();
        }
        return "held";
    }

    /** Calls a tool of Python, alone and in a batch, and one that there is not. */
    public static void tools(Event event, RunnerContext ctx) throws Exception {
        Map<String, Object> tea = Map.of("item", "tea", "count", 2);
        List<Object> seen = new ArrayList<>();
        seen.add(ctx.await(ctx.callToolAsync("price", tea, Map.class)));
        List<Outcome<Object>> both =
                ctx.gather(
                        ctx.callToolAsync("price", Map.of("item", "coffee", "count", 1), Map.class),
                        ctx.durableExecuteAsync(echo("java")));
        seen.add(((Map<?, ?>) both.get(0).getValue()).get("total"));
        seen.add(both.get(1).getValue());
        try {
            ctx.await(ctx.callToolAsync("price", Map.of("item", 5), Map.class));
        } catch (IllegalArgumentException e) {
            seen.add("refused");
        }
        out(ctx, seen);
        ctx.await(ctx.durableExecuteAsync(echo("held")));
        out(ctx, "end");
    }
}
