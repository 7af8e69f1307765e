package org.flinkagents.durable.actions;

import java.time.Duration;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.IdentityHashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.Callable;
import java.util.concurrent.ConcurrentHashMap;
import org.flinkagents.durable.api.CallOptions;
import org.flinkagents.durable.api.DurableCallable;
import org.flinkagents.durable.api.DurableExecutionException;
import org.flinkagents.durable.api.Event;
import org.flinkagents.durable.api.Outcome;
import org.flinkagents.durable.api.RetryPolicy;
import org.flinkagents.durable.api.Values;

/**
 * One action that works on one event. User code never enters the engine: it writes commands and
 * suspends, and the task thread takes both over to Python. The messages are those of {@code
 * engine/java_messages.py}.
 */
final class Execution implements Runnable {
    // Commands
    private static final int CALL = 1;
    private static final int BATCH = 2;
    private static final int TIMER = 3;
    private static final int SEND = 4;
    private static final int METRIC = 5;
    private static final int COMPLETE = 6;
    private static final int FAIL = 7;
    private static final int EXECUTE = 8;
    private static final int ASK = 9;

    // Answers
    private static final int VALUE = 0;
    private static final int FAILURE = 1;
    private static final int INTERRUPTED = 2;
    private static final int FIRED = 3;
    private static final int OUTCOMES = 4;

    /** Of user code that catches what tells it that it is abandoned, before it is left alone. */
    private static final int MAX_REFUSALS = 100;

    private static final String SLEEP = "ctx.sleep";

    private final JavaActions actions;
    private final String action;
    private final ActionMethod method;
    private final Event event;
    private final ActionContext context;
    private final Coroutine coroutine;
    private final Packer out = new Packer();
    private int commands;
    private int nextSlot;
    private int nextFuture;

    /** Calls that may run, by number: read by the thread that starts them. */
    private final Map<Integer, FutureImpl<?>> calls = new ConcurrentHashMap<>();

    /** Failures that were delivered, and the slots that brought them (P14). */
    private final Map<Throwable, Integer> delivered = new IdentityHashMap<>();

    private Thread thread;
    private ClassLoader contextLoader;
    private Unpacker answer;
    private Throwable interruption;
    private boolean interrupted;
    private boolean replaying;
    private volatile boolean running;
    private boolean abandoned;
    private boolean ended;
    private int refusals;

    Execution(JavaActions actions, byte[] start) {
        this.actions = actions;
        Unpacker message = new Unpacker(start);
        message.array();
        replaying = message.bool();
        String className = message.text();
        String methodName = message.text();
        action = message.text();
        method = actions.method(className, methodName);
        event = Event.received(message.text(), message.map(), message.uuid(), message.optional());
        context = new ActionContext(this, message);
        contextLoader = actions.loader();
        coroutine = Coroutines.make(this);
    }

    // ---------------------------------------------------------------- task thread

    byte[] start() {
        return resume();
    }

    byte[] step(byte[] input) {
        answer = new Unpacker(input);
        answer.array();
        replaying = answer.bool();
        return resume();
    }

    /** What the next step throws in user code, as the original of an interruption. */
    void interruptBy(Throwable original) {
        interruption = original;
    }

    /** Unwinds user code; what its {@code finally} blocks ask for is refused (case 26). */
    void abandon() {
        if (!abandoned && !ended) {
            abandoned = true;
            resume();
        }
    }

    /** User code sees the context class loader as it left it, and leaves nothing of it behind. */
    private byte[] resume() {
        Thread task = Thread.currentThread();
        ClassLoader outer = task.getContextClassLoader();
        running = true;
        try {
            coroutine.resume();
        } finally {
            running = false;
            task.setContextClassLoader(outer);
            if (interrupted) {
                Thread.interrupted(); // it was user code's; the engine ends the attempt by itself
                interrupted = false;
            }
        }
        return takeCommands();
    }

    private byte[] takeCommands() {
        byte[] message = new Packer().array(commands).packed(out).toBytes();
        out.clear();
        commands = 0;
        return message;
    }

    /** The call of a future, or its reconciler; null if the execution is through with it. */
    Callable<?> callOf(int number, boolean reconcile) {
        FutureImpl<?> future = calls.get(number);
        if (future == null) {
            return null;
        }
        return reconcile ? future.reconciler : future.callable::call;
    }

    String action() {
        return action;
    }

    boolean isReplaying() {
        return replaying;
    }

    /** The commands of an execution that could not begin. */
    static byte[] failed(Throwable error) {
        Packer out = new Packer().array(1).array(3).number(FAIL);
        return out.value(Failures.describe(error)).array(0).toBytes();
    }

    // ---------------------------------------------------------------- user code's side

    /** The body of the coroutine. */
    @Override
    public void run() {
        thread = Thread.currentThread();
        thread.setContextClassLoader(contextLoader);
        try {
            method.invoke(event, context);
            command(COMPLETE, 1);
        } catch (AbandonedError e) {
            return;
        } catch (Throwable e) {
            fail(e);
        } finally {
            thread = null;
            ended = true;
            calls.clear();
        }
    }

    /** Only the action itself may use its context, while it runs. */
    void check(String what) {
        if (!running || Thread.currentThread() != thread) {
            throw new DurableExecutionException(
                    what
                            + " belongs to the action '"
                            + action
                            + "': it cannot be used in a durable call, on another thread, or after"
                            + " the action has ended");
        }
        if (abandoned) {
            refuse();
        }
    }

    private void refuse() {
        if (++refusals > MAX_REFUSALS) {
            coroutine.suspend(); // for good
        }
        throw new AbandonedError();
    }

    <T> FutureImpl<T> future(DurableCallable<T> callable, CallOptions options) {
        return new FutureImpl<>(context, ++nextFuture, callable, options);
    }

    void await(FutureImpl<?> future) throws InterruptedException {
        int size = out.size();
        int count = commands;
        plan(CALL, future);
        if (!suspend()) {
            undo(size, count);
            executeInPlace(future, future.slot);
            return;
        }
        takeOutcome(future, (int) answer.number());
    }

    void gather(List<FutureImpl<?>> batch, Duration timeout) throws InterruptedException {
        int size = out.size();
        int count = commands;
        command(BATCH, 4).array(batch.size());
        for (FutureImpl<?> future : batch) {
            describe(out.array(5), future);
        }
        for (FutureImpl<?> future : batch) {
            future.slot = nextSlot++;
        }
        out.number(batch.get(0).slot);
        if (timeout == null) {
            out.nil();
        } else {
            nextSlot++; // of its end
            out.value(Math.max(0.001, seconds(timeout)));
        }
        if (!suspend()) {
            undo(size, count);
            for (FutureImpl<?> future : batch) {
                executeInPlace(future, future.slot);
            }
            return;
        }
        int kind = (int) answer.number();
        if (kind != OUTCOMES) {
            takeOutcome(batch.get(0), kind); // an interruption
        }
        answer.array();
        for (FutureImpl<?> future : batch) {
            answer.array();
            takeOutcome(future, (int) answer.number());
        }
    }

    void sleep(Duration duration) throws InterruptedException {
        int size = out.size();
        int count = commands;
        int slot = nextSlot++;
        command(TIMER, 3).number(slot).value(seconds(duration));
        if (!suspend()) {
            undo(size, count);
            executeInPlace(future(new Sleep(duration), CallOptions.DEFAULT), slot);
            return;
        }
        int kind = (int) answer.number();
        if (kind != FIRED) {
            throw interrupted(kind);
        }
    }

    /** A call that the whole task waits for (P17). */
    void executeInPlace(FutureImpl<?> future) throws InterruptedException {
        executeInPlace(future, nextSlot++);
    }

    private void executeInPlace(FutureImpl<?> future, int slot) throws InterruptedException {
        command(EXECUTE, 7).number(slot);
        describe(out, future);
        future.slot = slot;
        exchange();
        takeOutcome(future, (int) answer.number());
    }

    void send(Event event) {
        int size = out.size();
        try {
            command(SEND, 3).text(event.getType()).value(event.getAttributes());
        } catch (RuntimeException e) {
            undo(size, commands - 1);
            throw e;
        }
    }

    void metric(boolean ofAction, List<String> path, String kind, String name, Object value) {
        command(METRIC, 6).bool(ofAction).value(path).text(kind).text(name).value(value);
    }

    /** What the engine answers at once. */
    Object ask(String what, Object... arguments) {
        int size = out.size();
        int count = commands;
        try {
            command(ASK, 3).text(what).array(arguments.length);
            for (Object argument : arguments) {
                out.value(argument);
            }
        } catch (RuntimeException e) {
            undo(size, count);
            throw e;
        }
        exchange();
        if (answer.number() == VALUE) {
            return answer.value();
        }
        Throwable error = Failures.rebuild(answer.map(), actions.loader());
        throw error instanceof RuntimeException
                ? (RuntimeException) error
                : new DurableExecutionException(error.getMessage(), error);
    }

    // ---------------------------------------------------------------- messages

    private Packer command(int kind, int length) {
        commands++;
        return out.array(length).number(kind);
    }

    private void undo(int size, int count) {
        out.truncate(size);
        commands = count;
    }

    private void plan(int kind, FutureImpl<?> future) {
        command(kind, 7).number(nextSlot);
        describe(out, future);
        future.slot = nextSlot++;
    }

    /** Number, function id, arguments, whether there is a reconciler, options: five items. */
    private void describe(Packer to, FutureImpl<?> future) {
        to.number(future.number);
        boolean tool = future.callable instanceof ToolCall;
        if (tool) {
            to.nil(); // the engine knows what it calls
        } else {
            to.text(future.functionId);
        }
        int size = to.size();
        try {
            to.value(future.callable.arguments());
        } catch (RuntimeException | StackOverflowError e) {
            if (tool) {
                throw e; // a tool gets nothing else
            }
            to.truncate(size); // without a form the call is told apart by its id alone
            to.nil();
        }
        to.bool(future.reconciler != null);
        to.value(options(future.options));
        calls.put(future.number, future);
    }

    private static Map<String, Object> options(CallOptions options) {
        if (options == CallOptions.DEFAULT) {
            return null;
        }
        Map<String, Object> plain = new HashMap<>();
        put(plain, "timeout", options.getTimeout());
        put(plain, "total_timeout", options.getTotalTimeout());
        if (options.getLimit() != null) {
            plain.put("limit", options.getLimit());
        }
        RetryPolicy retry = options.getRetry();
        if (retry != null) {
            List<String> classes = new ArrayList<>();
            retry.getRetryOn().forEach(type -> classes.add(type.getName()));
            plain.put("max_attempts", retry.getMaxAttempts());
            put(plain, "initial_interval", retry.getInitialInterval());
            plain.put("backoff_factor", retry.getBackoffFactor());
            put(plain, "max_interval", retry.getMaxInterval());
            plain.put("jitter", retry.hasJitter());
            plain.put("retry_on", classes);
        }
        return plain;
    }

    private static void put(Map<String, Object> plain, String name, Duration duration) {
        if (duration != null) {
            plain.put(name, seconds(duration));
        }
    }

    private static double seconds(Duration duration) {
        return duration.toNanos() / 1e9;
    }

    private void fail(Throwable error) {
        List<Integer> slots = new ArrayList<>();
        int length = 0;
        for (Throwable e = error; e != null && length < Failures.MAX_CAUSES; e = e.getCause()) {
            Integer slot = delivered.get(e);
            if (slot != null) {
                slots.add(slot);
            }
            length++;
        }
        command(FAIL, 3).value(Failures.describe(error)).value(slots);
    }

    // ---------------------------------------------------------------- waiting

    private boolean suspend() {
        contextLoader = thread.getContextClassLoader();
        if (!coroutine.suspend()) {
            return false;
        }
        thread.setContextClassLoader(contextLoader);
        if (abandoned) {
            throw new AbandonedError();
        }
        return true;
    }

    /** Asks what is answered at once: by a step, or, from a pinned frame, by a call. */
    private void exchange() {
        if (!suspend()) {
            answer = new Unpacker(actions.serve(takeCommands()));
            answer.array();
            answer.bool();
        }
    }

    private <T> void takeOutcome(FutureImpl<T> future, int kind) throws InterruptedException {
        calls.remove(future.number);
        if (kind == VALUE) {
            future.resolve(outcome(future, answer.bytes()));
        } else if (kind == FAILURE) {
            Throwable error = Failures.rebuild(answer.map(), actions.loader());
            delivered.put(error, future.slot);
            future.resolve(Outcome.failure(error));
        } else {
            throw interrupted(kind);
        }
    }

    @SuppressWarnings("unchecked")
    private static <T> Outcome<T> outcome(FutureImpl<T> future, byte[] packed) {
        try {
            T value = (T) Values.convert(Unpacker.unpack(packed), future.resultType());
            return Outcome.success(value);
        } catch (RuntimeException e) {
            return Outcome.failure(e); // the same on replay, so that it is no durable failure
        }
    }

    /** Throws the original of an interruption, whatever its class, with the flag restored (I2). */
    private RuntimeException interrupted(int kind) throws InterruptedException {
        if (kind != INTERRUPTED) {
            throw new IllegalStateException("An answer of kind " + kind + " was not asked for");
        }
        Throwable original = interruption;
        interruption = null;
        interrupted = true;
        Thread.currentThread().interrupt();
        if (original == null) {
            throw new InterruptedException();
        }
        throw Execution.<RuntimeException>sneaky(original);
    }

    @SuppressWarnings("unchecked")
    private static <E extends Throwable> E sneaky(Throwable e) throws E {
        throw (E) e;
    }

    /** A timer in a frame that cannot be suspended. */
    private static final class Sleep implements DurableCallable<Void> {
        private final Duration duration;

        Sleep(Duration duration) {
            this.duration = duration;
        }

        @Override
        public String getId() {
            return SLEEP;
        }

        @Override
        public Class<Void> getResultClass() {
            return Void.class;
        }

        @Override
        public Void call() throws InterruptedException {
            Thread.sleep(duration.toMillis());
            return null;
        }
    }
}
