package org.flinkagents.durable.actions;

import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.Callable;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.atomic.AtomicBoolean;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;
import pemja.core.object.PyObject;

/**
 * The actions of one operator that are written in Java, as its Python engine drives them. All
 * methods are called by Python, on the task thread unless they say otherwise.
 */
public final class JavaActions {
    private static final Logger LOG = LoggerFactory.getLogger(JavaActions.class);

    /** Enough of a stack to see which frames of user code pin. */
    private static final int SHOWN_FRAMES = 12;

    private static final AtomicBoolean PIN_LOGGED = new AtomicBoolean();

    private final ClassLoader loader;
    private final Object agent;
    private final Map<Long, Execution> executions = new ConcurrentHashMap<>();
    private final Map<String, ActionMethod> methods = new HashMap<>();
    private final CallPool pool;
    private final int workers;
    private PyObject server;

    /**
     * @param agent the object whose methods the actions of its class are, or null
     * @param wake tells the task from any thread that a call has ended
     */
    public JavaActions(Object agent, int workers, ClassLoader loader, Runnable wake) {
        this.agent = agent;
        this.loader = loader;
        this.workers = workers;
        this.pool = new CallPool(workers, loader, wake);
    }

    // ---------------------------------------------------------------- called by Python

    /** Takes the Python object whose {@code serve(commands)} answers a pinned frame. */
    public void serveBy(Object server) {
        this.server = (PyObject) server;
    }

    /** Begins an execution; gives its commands. */
    public byte[] start(long handle, byte[] message) {
        Execution execution;
        try {
            execution = new Execution(this, message);
        } catch (RuntimeException | Error e) {
            return Execution.failed(e);
        }
        executions.put(handle, execution);
        try {
            return execution.start();
        } catch (RuntimeException | Error e) {
            executions.remove(handle); // it has not begun: nothing is there to unwind
            throw e;
        }
    }

    /** Gives an execution what it waits for; gives its next commands. */
    public byte[] step(long handle, byte[] answer) {
        return executions.get(handle).step(answer);
    }

    /** Before {@link #step}: the answer is the interruption of this call. */
    public void interruptBy(long handle, long call) {
        executions.get(handle).interruptBy(pool.interruptionOf(call));
    }

    /** Before {@link #step}: the answer is the interruption of the task thread itself. */
    public void interruptByTask(long handle, Object throwable) {
        executions.get(handle).interruptBy((Throwable) throwable);
    }

    /** Nobody resumes this execution any more. */
    public void abandon(long handle) {
        Execution execution = executions.remove(handle);
        if (execution != null) {
            execution.abandon();
        }
    }

    /** This execution has ended by itself. */
    public void release(long handle) {
        executions.remove(handle);
    }

    /**
     * Starts calls of (id, execution, number, whether its reconciler), or of (id, class, method,
     * arguments) for Python. Also on the loop thread.
     */
    public void startCalls(byte[] message) {
        Unpacker calls = new Unpacker(message);
        for (int left = calls.array() / 4; left > 0; left--) {
            long id = calls.number();
            Object owner = calls.value();
            if (owner instanceof String) {
                String method = calls.text();
                List<Object> arguments = calls.list();
                pool.start(id, () -> StaticMethod.call(loader, (String) owner, method, arguments));
                continue;
            }
            Execution execution = executions.get((Long) owner);
            int number = (int) calls.number();
            boolean reconcile = calls.bool();
            Callable<?> call = execution == null ? null : execution.callOf(number, reconcile);
            pool.start(id, call == null ? JavaActions::gone : call);
        }
    }

    /** Its execution has ended meanwhile; the place that Python gave it is free again. */
    private static Object gone() {
        throw new AbandonedError();
    }

    /** (id, status, payload) of at most so many calls that have ended. */
    public byte[] takeCompletions(int limit) {
        return pool.take(limit);
    }

    // ---------------------------------------------------------------- for Java

    /** Ends what Python has left. */
    public void close() {
        for (Long handle : executions.keySet()) {
            abandon(handle);
        }
        pool.close();
        methods.clear();
        server = null;
    }

    /** How many runs may be in flight. */
    public long capacity(long maxInFlight) {
        return Coroutines.useContinuations() ? maxInFlight : Math.min(maxInFlight, workers);
    }

    ClassLoader loader() {
        return loader;
    }

    ActionMethod method(String className, String name) {
        return methods.computeIfAbsent(
                className + "." + name, key -> ActionMethod.find(agent, loader, className, name));
    }

    /** From a frame that cannot be suspended: Python answers at once, as the whole task waits. */
    byte[] serve(byte[] commands) {
        if (PIN_LOGGED.compareAndSet(false, true)) {
            LOG.warn(
                    "An action waits in a frame that cannot be suspended (synchronized on JDK 21, a"
                            + " class initialiser, or native code), so that its whole task waits"
                            + " with it: {}",
                    userFrames());
        }
        return (byte[]) server.invokeMethod("serve", new Object[] {commands});
    }

    private static String userFrames() {
        StringBuilder frames = new StringBuilder();
        int shown = 0;
        for (StackTraceElement frame : new Throwable().getStackTrace()) {
            if (!frame.getClassName().startsWith(JavaActions.class.getPackageName())
                    && shown++ < SHOWN_FRAMES) {
                frames.append("\n    at ").append(frame);
            }
        }
        return frames.toString();
    }
}
