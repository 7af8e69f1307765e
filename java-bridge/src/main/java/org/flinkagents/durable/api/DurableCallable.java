package org.flinkagents.durable.api;

import java.lang.reflect.Type;
import java.util.Arrays;
import java.util.List;
import java.util.concurrent.Callable;

/**
 * What a durable call does. It runs on a worker, away from the task, and its outcome is recorded
 * once: after a failure the recorded outcome is given instead.
 *
 * @param <T> values as JSON has them, {@code byte[]}, and beans that Jackson reads and writes
 */
public interface DurableCallable<T> {

    /**
     * Names the call in the journal. With {@link #arguments()} it tells calls apart, so it must be
     * the same on every replay.
     */
    String getId();

    /** The class of the result. */
    Class<T> getResultClass();

    /** The type of the result where a class does not say enough, such as {@code List<Order>}. */
    default Type getResultType() {
        return getResultClass();
    }

    T call() throws Exception;

    /**
     * What this call is made with. Two calls of one id with other arguments are two calls: on
     * replay neither gets what was recorded for the other. Taken when the call is first awaited.
     */
    default List<?> arguments() {
        return List.of();
    }

    /**
     * Finds out what became of a call that had been started when its task failed. With one the call
     * is never made a second time: what this returns or throws is the outcome.
     */
    default Callable<T> reconciler() {
        return null;
    }

    /**
     * A call of a function, for {@code ctx.durableExecuteAsync(DurableCallable.of("judge",
     * String.class, () -> judge(text), text))}.
     *
     * @param arguments what the call is made with, see {@link #arguments()}
     */
    static <T> DurableCallable<T> of(
            String id, Class<T> resultClass, Callable<? extends T> function, Object... arguments) {
        List<?> given = Arrays.asList(arguments.clone());
        return new DurableCallable<T>() {
            @Override
            public String getId() {
                return id;
            }

            @Override
            public Class<T> getResultClass() {
                return resultClass;
            }

            @Override
            public T call() throws Exception {
                return function.call();
            }

            @Override
            public List<?> arguments() {
                return given;
            }
        };
    }
}
