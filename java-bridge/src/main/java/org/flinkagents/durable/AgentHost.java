package org.flinkagents.durable;

import java.util.concurrent.Semaphore;
import java.util.concurrent.TimeUnit;
import org.flinkagents.durable.actions.JavaActions;

/**
 * What Python may ask of its operator. Python threads can outlive the operator, so that this object
 * lets go of it on close. Keeps K11.
 */
public final class AgentHost {
    private final Semaphore signals = new Semaphore(0);
    private final Thread taskThread = Thread.currentThread();
    private volatile DurableAgentOperator operator;
    private JavaActions javaActions;

    /** Only the text of a Java failure comes back through Python, so that it is kept here. */
    private Throwable failure;

    AgentHost(DurableAgentOperator operator) {
        this.operator = operator;
    }

    /** Asks for one call of {@code drain} on the task thread. Any thread; nothing after close. */
    public void wake() {
        DurableAgentOperator current = operator;
        if (current != null) {
            current.wake();
        }
    }

    /** Ends a wait of the task thread, or the next one. Any thread. */
    public void signal() {
        if (signals.availablePermits() == 0) {
            signals.release();
        }
    }

    /**
     * Waits on the task thread for a signal; an interrupt of the task ends it. Keeps K5.
     *
     * @return false if there was none in time
     */
    public boolean awaitSignal(long millis) throws InterruptedException {
        try {
            return signals.tryAcquire(millis, TimeUnit.MILLISECONDS);
        } catch (InterruptedException e) {
            failure = e;
            throw e;
        }
    }

    /** The keyed state of a key without its memory as (state, subkey, value, ...), or null. */
    public Object[] loadKey(byte[] key) throws Exception {
        AgentState state = owner().state();
        return remembering(() -> state.load(EncodedKeySelector.toKey(key)));
    }

    /** The memory of a key as (path, value, ...), or null. */
    public Object[] loadMemory(byte[] key) throws Exception {
        AgentState state = owner().state();
        return remembering(() -> state.loadMemory(EncodedKeySelector.toKey(key)));
    }

    /** True for a Java throwable that says that the task was interrupted. Any thread. */
    public boolean isInterruption(Object throwable) {
        return JavaInterruptionDetector.isInterruption(throwable);
    }

    /** Takes (path, kind, value, ...); see {@link AgentMetrics}. */
    public void updateMetrics(Object[] flat) {
        owner().agentMetrics().update(flat);
    }

    /**
     * The actions written in Java; made when Python first asks, with so many workers. Task thread.
     */
    public JavaActions javaActions(int workers) {
        DurableAgentOperator current = owner();
        if (javaActions == null) {
            ClassLoader loader = Thread.currentThread().getContextClassLoader();
            javaActions = new JavaActions(current.javaAgent(), workers, loader, this::callEnded);
        }
        return javaActions;
    }

    /**
     * How many runs may be in flight: where each Java action holds a thread, as many as workers.
     */
    long capacity(long maxInFlight) {
        return javaActions == null ? maxInFlight : javaActions.capacity(maxInFlight);
    }

    private void callEnded() {
        signal();
        wake();
    }

    /** Throws what a method of this object threw during the Python call that has just ended. */
    void rethrow() throws Exception {
        Throwable thrown = failure;
        failure = null;
        if (thrown instanceof Error) {
            throw (Error) thrown;
        }
        if (thrown != null) {
            throw (Exception) thrown;
        }
    }

    void release() {
        if (javaActions != null) {
            javaActions.close();
        }
        operator = null;
    }

    private DurableAgentOperator owner() {
        DurableAgentOperator current = operator;
        if (current == null || Thread.currentThread() != taskThread) {
            throw new IllegalStateException(
                    "Only the task thread of an open operator may ask for this");
        }
        return current;
    }

    private Object[] remembering(Load load) throws Exception {
        try {
            return load.get();
        } catch (Exception | Error e) {
            failure = e;
            throw e;
        }
    }

    @FunctionalInterface
    private interface Load {
        Object[] get() throws Exception;
    }
}
