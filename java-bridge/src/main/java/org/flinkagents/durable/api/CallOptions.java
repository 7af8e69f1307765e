package org.flinkagents.durable.api;

import java.time.Duration;

/**
 * Options of one durable call; each method gives new options.
 *
 * <p>{@code timeout} bounds one attempt from the moment it starts. {@code totalTimeout} bounds the
 * call over all its attempts and the waits between them, from when it was first awaited; a restart
 * does not extend it. {@code limit} names one of {@code agents.limits.<name>}: so many calls of a
 * subtask run at a time, or start in a second.
 */
public final class CallOptions {
    public static final CallOptions DEFAULT = new CallOptions(null, null, null, null);

    private final Duration timeout;
    private final Duration totalTimeout;
    private final RetryPolicy retry;
    private final String limit;

    private CallOptions(Duration timeout, Duration totalTimeout, RetryPolicy retry, String limit) {
        this.timeout = timeout;
        this.totalTimeout = totalTimeout;
        this.retry = retry;
        this.limit = limit;
    }

    public CallOptions withTimeout(Duration timeout) {
        return new CallOptions(positive(timeout), totalTimeout, retry, limit);
    }

    public CallOptions withTotalTimeout(Duration totalTimeout) {
        return new CallOptions(timeout, positive(totalTimeout), retry, limit);
    }

    public CallOptions withRetry(RetryPolicy retry) {
        return new CallOptions(timeout, totalTimeout, retry, limit);
    }

    public CallOptions withLimit(String limit) {
        return new CallOptions(timeout, totalTimeout, retry, limit);
    }

    public Duration getTimeout() {
        return timeout;
    }

    public Duration getTotalTimeout() {
        return totalTimeout;
    }

    public RetryPolicy getRetry() {
        return retry;
    }

    public String getLimit() {
        return limit;
    }

    private static Duration positive(Duration duration) {
        if (duration.isZero() || duration.isNegative()) {
            throw new IllegalArgumentException("A timeout must be positive, not " + duration);
        }
        return duration;
    }
}
