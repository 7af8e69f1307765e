package org.flinkagents.durable.actions;

import java.time.Duration;
import java.util.ArrayList;
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

    /** Of user code that catches what tells it that it is abandoned, before the task leaves it. */
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

    private volatile Thread thread;
    private ClassLoader contextLoader;
    private Unpacker answer;
    private Throwable interruption;
    private boolean interrupted;
    private boolean replaying;
    private volatile boolean running;
    private volatile boolean abandoned;
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
        if (abandoned && Thread.currentThread() == thread) {
            refuse();
        }
        if (!running || Thread.currentThread() != thread) {
            throw new DurableExecutionException(
                    what
                            + " belongs to the action '"
                            + action
                            + "': it cannot be used in a durable call, on another thread, or after"
                            + " the action has ended");
        }
    }

    private void refuse() {
        if (refusals < MAX_REFUSALS) {
            refusals++;
        } else {
            coroutine.leave();
        }
        throw new AbandonedError();
    }

    <T> FutureImpl<T> future(DurableCallable<T> callable, CallOptions options) {
        return new FutureImpl<>(context, ++nextFuture, callable, options);
    }

    void await(FutureImpl<?> future) throws InterruptedException {
        Packer described = CallDescription.of(future);
        int size = out.size();
        int count = commands;
        int slot = nextSlot++;
        place(CALL, future, slot, described);
        if (!suspend()) {
            undo(size, count);
            executeInPlace(future, slot, described);
            return;
        }
        takeOutcome(future, (int) answer.number());
    }

    void gather(List<FutureImpl<?>> batch, Duration timeout) throws InterruptedException {
        double limit = timeout == null ? 0 : Math.max(0.001, CallDescription.seconds(timeout));
        List<Packer> described = new ArrayList<>();
        for (FutureImpl<?> future : batch) {
            described.add(CallDescription.of(future));
        }
        int first = nextSlot;
        command(BATCH, 4).array(batch.size());
        for (int i = 0; i < batch.size(); i++) {
            out.array(5).packed(described.get(i));
            take(batch.get(i), nextSlot++);
        }
        out.number(first);
        if (timeout == null) {
            out.nil();
        } else {
            nextSlot++; // of its end
            out.value(limit);
        }
        exchange();
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
        double delay = CallDescription.seconds(duration);
        int size = out.size();
        int count = commands;
        int slot = nextSlot++;
        command(TIMER, 3).number(slot).value(delay);
        if (!suspend()) {
            undo(size, count);
            FutureImpl<Void> sleep = future(new Sleep(duration), CallOptions.DEFAULT);
            executeInPlace(sleep, slot, CallDescription.of(sleep));
            return;
        }
        int kind = (int) answer.number();
        if (kind != FIRED) {
            throw interrupted(kind);
        }
    }

    /** A call that the whole task waits for (P17). */
    void executeInPlace(FutureImpl<?> future) throws InterruptedException {
        Packer described = CallDescription.of(future);
        executeInPlace(future, nextSlot++, described);
    }

    private void executeInPlace(FutureImpl<?> future, int slot, Packer described)
            throws InterruptedException {
        place(EXECUTE, future, slot, described);
        exchange();
        takeOutcome(future, (int) answer.number());
    }

    void send(Event event) {
        Packer said = new Packer().text(event.getType()).value(event.getAttributes());
        command(SEND, 3).packed(said);
    }

    void metric(boolean ofAction, List<String> path, String kind, String name, Object value) {
        Packer said = new Packer().value(path).text(kind).text(name).value(value);
        command(METRIC, 6).bool(ofAction).packed(said);
    }

    /** What the engine answers at once. */
    Object ask(String what, Object... arguments) {
        Packer said = new Packer().text(what).array(arguments.length);
        for (Object argument : arguments) {
            said.value(argument);
        }
        command(ASK, 3).packed(said);
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

    /** Whatever user code or its values can refuse comes before it: a command is written whole. */
    private Packer command(int kind, int length) {
        commands++;
        return out.array(length).number(kind);
    }

    private void undo(int size, int count) {
        out.truncate(size);
        commands = count;
    }

    private void place(int kind, FutureImpl<?> future, int slot, Packer described) {
        command(kind, 7).number(slot).packed(described);
        take(future, slot);
    }

    private void take(FutureImpl<?> future, int slot) {
        future.slot = slot;
        calls.put(future.number, future);
    }

    private void fail(Throwable error) {
        List<Integer> slots = new ArrayList<>();
        int length = 0;
        for (Throwable e = error;
                e != null && length < Failures.MAX_CAUSES;
                e = Failures.cause(e)) {
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

    /** Asks by a step, or, from a pinned frame, by a call that is answered at once. */
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
