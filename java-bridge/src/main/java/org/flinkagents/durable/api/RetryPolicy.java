package org.flinkagents.durable.api;

import java.time.Duration;
import java.util.List;

/**
 * How often and when a failed call is tried again. {@code maxAttempts} counts the first attempt
 * too. The wait before attempt n + 1 is {@code initialInterval} times {@code backoffFactor} to the
 * power of n - 1, at most {@code maxInterval}; jitter shortens it by up to a half, by an amount
 * that depends on the call alone. Failed attempts are recorded: after a restart the count goes on.
 */
public final class RetryPolicy {
    private final int maxAttempts;
    private final Duration initialInterval;
    private final double backoffFactor;
    private final Duration maxInterval;
    private final boolean jitter;
    private final List<Class<? extends Throwable>> retryOn;

    private RetryPolicy(
            int maxAttempts,
            Duration initialInterval,
            double backoffFactor,
            Duration maxInterval,
            boolean jitter,
            List<Class<? extends Throwable>> retryOn) {
        if (maxAttempts < 1) {
            throw new IllegalArgumentException(
                    "maxAttempts counts the first attempt, so it is at least 1: " + maxAttempts);
        }
        if (initialInterval.isNegative() || maxInterval.compareTo(initialInterval) < 0) {
            throw new IllegalArgumentException(
                    "maxInterval must not be shorter than initialInterval, which is not negative");
        }
        if (!(backoffFactor >= 1) || Double.isInfinite(backoffFactor)) {
            throw new IllegalArgumentException(
                    "backoffFactor must be at least 1: " + backoffFactor);
        }
        this.maxAttempts = maxAttempts;
        this.initialInterval = initialInterval;
        this.backoffFactor = backoffFactor;
        this.maxInterval = maxInterval;
        this.jitter = jitter;
        this.retryOn = List.copyOf(retryOn);
    }

    /** One second before the second attempt, then twice as long each time, at most a minute. */
    public static RetryPolicy of(int maxAttempts) {
        return new RetryPolicy(
                maxAttempts,
                Duration.ofSeconds(1),
                2,
                Duration.ofMinutes(1),
                true,
                List.of(Exception.class));
    }

    public RetryPolicy withIntervals(Duration initial, double backoffFactor, Duration max) {
        return new RetryPolicy(maxAttempts, initial, backoffFactor, max, jitter, retryOn);
    }

    public RetryPolicy withoutJitter() {
        return new RetryPolicy(
                maxAttempts, initialInterval, backoffFactor, maxInterval, false, retryOn);
    }

    /** Only failures of these classes are tried again; by default every Exception. */
    @SafeVarargs
    @SuppressWarnings("varargs")
    public final RetryPolicy onlyOn(Class<? extends Throwable>... classes) {
        return new RetryPolicy(
                maxAttempts, initialInterval, backoffFactor, maxInterval, jitter, List.of(classes));
    }

    public int getMaxAttempts() {
        return maxAttempts;
    }

    public Duration getInitialInterval() {
        return initialInterval;
    }

    public double getBackoffFactor() {
        return backoffFactor;
    }

    public Duration getMaxInterval() {
        return maxInterval;
    }

    public boolean hasJitter() {
        return jitter;
    }

    public List<Class<? extends Throwable>> getRetryOn() {
        return retryOn;
    }
}
