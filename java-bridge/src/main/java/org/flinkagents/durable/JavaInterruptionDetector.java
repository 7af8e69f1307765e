package org.flinkagents.durable;

import java.util.Collections;
import java.util.IdentityHashMap;
import java.util.Set;

/**
 * Tells an interruption of the task from an ordinary failure by the classes along a cause chain,
 * never by messages. Keeps I1 and I3: InterruptedIOException is none (HTTP clients throw it when a
 * request times out), suppressed exceptions do not count, and what cannot be inspected is ordinary.
 */
public final class JavaInterruptionDetector {
    /** Bounds a chain whose getCause() makes a new throwable each time. */
    private static final int MAX_CAUSES = 1_000;

    private static final Set<String> INTERRUPTIONS =
            Set.of(
                    "java.lang.InterruptedException",
                    "java.nio.channels.ClosedByInterruptException",
                    "java.util.concurrent.CancellationException");

    private JavaInterruptionDetector() {}

    public static boolean isInterruption(Object candidate) {
        if (!(candidate instanceof Throwable)) {
            return false;
        }
        Set<Throwable> seen = Collections.newSetFromMap(new IdentityHashMap<>());
        Throwable cause = (Throwable) candidate;
        while (cause != null && seen.size() < MAX_CAUSES && seen.add(cause)) {
            if (isInterruptionClass(cause.getClass())) {
                return true;
            }
            try {
                cause = cause.getCause();
            } catch (Throwable hostile) { // an exception's own code may throw anything
                return false;
            }
        }
        return false;
    }

    /** By name, so that a class of another class loader counts as well. */
    private static boolean isInterruptionClass(Class<?> type) {
        for (Class<?> c = type; c != null; c = c.getSuperclass()) {
            if (INTERRUPTIONS.contains(c.getName())) {
                return true;
            }
        }
        return false;
    }
}
