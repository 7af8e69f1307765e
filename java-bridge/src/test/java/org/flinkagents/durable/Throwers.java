package org.flinkagents.durable;

import java.io.IOException;
import java.io.InterruptedIOException;
import java.nio.channels.ClosedByInterruptException;
import java.util.concurrent.CancellationException;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.FutureTask;

/** What durable functions call in Java, through pemja: methods that throw what they are told to. */
public final class Throwers {
    private Throwers() {}

    /** "interrupted", or "interrupted:3": the same as the third cause of other exceptions. */
    public static void fail(String kind) throws Throwable {
        int colon = kind.indexOf(':');
        if (colon < 0) {
            throw make(kind);
        }
        Throwable thrown = make(kind.substring(0, colon));
        for (int depth = Integer.parseInt(kind.substring(colon + 1)); depth > 0; depth--) {
            thrown =
                    depth % 2 == 0 ? new ExecutionException(thrown) : new IOException("io", thrown);
        }
        throw thrown;
    }

    private static Throwable make(String kind) throws Throwable {
        switch (kind) {
            case "interrupted":
                return new InterruptedException("on purpose");
            case "closed-by-interrupt":
                return new ClosedByInterruptException();
            case "cancelled":
                return new CancellationException();
            case "subclass":
                return new InterruptedException() {
                    private static final long serialVersionUID = 1L;
                };
            case "sleep":
                Thread.currentThread().interrupt();
                Thread.sleep(60_000);
                throw new AssertionError("not interrupted");
            case "future":
                FutureTask<Object> future = new FutureTask<>(() -> null);
                future.cancel(true);
                future.get();
                throw new AssertionError("not cancelled");
            case "suppressed":
                IOException suppressing = new IOException("InterruptedException");
                suppressing.addSuppressed(new InterruptedException());
                return suppressing;
            case "interrupted-io":
                return new InterruptedIOException("interrupted");
            case "cycle":
                IOException first = new IOException("first");
                first.initCause(new IllegalStateException("second", first));
                return first;
            case "hostile":
                return new Hostile();
            case "error":
                return new StackOverflowError("an Error");
            default:
                throw new IllegalArgumentException(kind);
        }
    }

    /** Nothing of it can be had; pemja itself fails to hand it over. */
    private static final class Hostile extends RuntimeException {
        private static final long serialVersionUID = 1L;

        @Override
        public String getMessage() {
            throw new IllegalStateException("no message");
        }

        @Override
        public synchronized Throwable getCause() {
            throw new IllegalStateException("no cause");
        }

        @Override
        public StackTraceElement[] getStackTrace() {
            throw new IllegalStateException("no stack");
        }

        @Override
        public String toString() {
            throw new IllegalStateException("no text");
        }
    }
}
