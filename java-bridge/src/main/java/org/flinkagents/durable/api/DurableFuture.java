package org.flinkagents.durable.api;

/**
 * A durable call that has not been made yet: it starts when it is first awaited or gathered, and
 * one that never is leaves no trace. A handle for {@link RunnerContext#await} and {@link
 * RunnerContext#gather} of the context that made it, and no {@code java.util.concurrent.Future}.
 */
public interface DurableFuture<T> {}
