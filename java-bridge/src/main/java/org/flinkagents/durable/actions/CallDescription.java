package org.flinkagents.durable.actions;

import java.time.Duration;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import org.flinkagents.durable.api.CallOptions;
import org.flinkagents.durable.api.RetryPolicy;

/**
 * A call as its command tells of it. It is written apart, before the command: user code runs here,
 * which may throw anything, or write commands of its own.
 */
final class CallDescription {
    private CallDescription() {}

    /** Number, function id, arguments, whether there is a reconciler, options: five items. */
    static Packer of(FutureImpl<?> future) {
        Packer to = new Packer().number(future.number);
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
        return to.bool(future.reconciler != null).value(options(future.options));
    }

    /** Throws ArithmeticException for a time that has no form in nanoseconds. */
    static double seconds(Duration duration) {
        return duration.toNanos() / 1e9;
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
}
