package org.flinkagents.durable.api;

import java.time.Duration;
import java.time.Instant;
import java.util.Arrays;
import java.util.List;
import java.util.Map;
import java.util.Random;
import java.util.UUID;
import org.slf4j.Logger;

/**
 * What an action works with. It belongs to the action's own thread of control: a durable call, a
 * thread that the action starts, and an action that has ended cannot use it.
 *
 * <p>While an action waits it holds no lock and no place: other keys go on. A lock that it keeps
 * over {@link #await} is therefore shared with whatever runs meanwhile; do not keep one.
 */
public abstract class RunnerContext {

    /** A call that starts when it is first awaited or gathered. */
    public final <T> DurableFuture<T> durableExecuteAsync(DurableCallable<T> callable) {
        return durableExecuteAsync(callable, CallOptions.DEFAULT);
    }

    public abstract <T> DurableFuture<T> durableExecuteAsync(
            DurableCallable<T> callable, CallOptions options);

    /**
     * A durable call of a tool of the agent, which may be one of Python: a resource of the kind
     * TOOL. It runs with the tool's own options.
     *
     * @param arguments by the names of the tool's parameters
     */
    public abstract <T> DurableFuture<T> callToolAsync(
            String tool, Map<String, ?> arguments, Class<T> resultClass);

    /** Makes a call while the whole task waits; prefer {@link #durableExecuteAsync}. */
    public final <T> T durableExecute(DurableCallable<T> callable) throws Exception {
        return durableExecute(callable, CallOptions.DEFAULT);
    }

    public abstract <T> T durableExecute(DurableCallable<T> callable, CallOptions options)
            throws Exception;

    /**
     * Waits for a call while other keys go on. Throws what the call threw; awaiting again gives the
     * same.
     */
    public abstract <T> T await(DurableFuture<T> future) throws Exception;

    /**
     * Makes calls at once and waits for all; outcomes come in the order of the arguments, and a
     * failed call is an outcome, not an exception.
     *
     * @throws IllegalArgumentException unless all are distinct calls of this context that nobody
     *     has awaited; then nothing has started
     */
    @SafeVarargs
    @SuppressWarnings("varargs")
    public final <T> List<Outcome<T>> gather(DurableFuture<? extends T>... futures)
            throws Exception {
        return gatherAll(null, Arrays.asList(futures));
    }

    /** As above; when the time is over, calls without an outcome have a timeout as theirs. */
    @SafeVarargs
    @SuppressWarnings("varargs")
    public final <T> List<Outcome<T>> gather(
            Duration timeout, DurableFuture<? extends T>... futures) throws Exception {
        return gatherAll(timeout, Arrays.asList(futures));
    }

    /** As above, for any number of calls; a timeout of null: none. */
    public abstract <T> List<Outcome<T>> gatherAll(
            Duration timeout, List<? extends DurableFuture<? extends T>> futures) throws Exception;

    /** Waits for a durable timer. */
    public abstract void sleep(Duration duration) throws InterruptedException;

    public abstract void sendEvent(Event event);

    public abstract MemoryObject getShortTermMemory();

    /** Memory of this run alone. */
    public abstract MemoryObject getSensoryMemory();

    /** The key of the input. */
    public abstract Object getKey();

    public abstract String getRunId();

    /** The recorded time: the same on replay. */
    public abstract Instant now();

    /** Random numbers that are the same on replay. */
    public abstract Random random();

    /** Another id at each call, the same on replay. */
    public abstract UUID uuid();

    /** What the agent was given for this action. */
    public abstract Map<String, Object> getActionConfig();

    /** The value of an option of the job, such as {@code agents.call.workers}, or null. */
    public abstract Object getConfigValue(String key);

    public abstract MetricGroup getAgentMetricGroup();

    public abstract MetricGroup getActionMetricGroup();

    /** Silent during a replay. */
    public abstract Logger getLogger();
}
