package org.flinkagents.durable.actions;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNotEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.IOException;
import java.io.UncheckedIOException;
import java.sql.SQLException;
import java.util.Map;
import org.flinkagents.durable.api.CallTimeoutException;
import org.flinkagents.durable.api.RecordedCallException;
import org.junit.jupiter.api.Test;

/** Throwables through their record. */
class FailuresTest {
    private static Throwable again(Throwable error) {
        byte[] record = Packer.pack(Failures.describe(error));
        return Failures.rebuild(new Unpacker(record).map(), FailuresTest.class.getClassLoader());
    }

    /** Its text is not what it was made of. */
    private static final class Formatted extends RuntimeException {
        private static final long serialVersionUID = 1L;
        private final int code;

        Formatted(String reason) {
            super("formatted: " + reason);
            code = 3;
        }

        int code() {
            return code;
        }
    }

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
    }

    private static final class Circle extends Exception {
        private static final long serialVersionUID = 1L;
        private Throwable next = this;

        @Override
        public synchronized Throwable getCause() {
            return next;
        }
    }

    @Test
    void x2AnExceptionComesBackAsItself() {
        IOException error = new IOException("broken", new IllegalStateException("inner"));
        Throwable again = again(error);
        assertEquals(IOException.class, again.getClass());
        assertEquals("broken", again.getMessage());
        assertEquals(IllegalStateException.class, again.getCause().getClass());
        String first = error.getStackTrace()[0].toString();
        assertTrue(first.endsWith(again.getStackTrace()[0].toString()), first);
        assertEquals(StackOverflowError.class, again(new StackOverflowError()).getClass());
        assertEquals(
                CallTimeoutException.class, again(new CallTimeoutException("late")).getClass());
    }

    @Test
    void x3OneThatCannotBeRebuiltIsStoodInFor() {
        Formatted error = new Formatted("why");
        RecordedCallException again = (RecordedCallException) again(error);
        assertEquals(Formatted.class.getName() + ": formatted: why", again.getMessage());
        assertEquals(Map.of("code", (long) error.code()), again.getFields());
        RecordedCallException io =
                (RecordedCallException) again(new UncheckedIOException(new IOException("inner")));
        assertEquals("inner", io.getCause().getMessage());
        RecordedCallException sql = (RecordedCallException) again(new SQLException("s", "42", 7));
        assertEquals("42", sql.getFields().get("SQLState"), sql.getFields().toString());
    }

    @Test
    void x7HostileAndRingsAreRecordedAndBounded() {
        assertTrue(again(new Hostile()).getMessage().contains("getMessage() threw"));
        Circle one = new Circle();
        Circle two = new Circle();
        one.next = two;
        two.next = one;
        assertEquals(RecordedCallException.class, again(one).getClass());
        String large = "x".repeat(1_000_000);
        assertTrue(Packer.pack(Failures.describe(new IOException(large))).length < 40_000);
        assertNotEquals(large, again(new IOException(large)).getMessage());
    }

    @Test
    void x1MessagesRoundTripAsPythonReadsThem() {
        Object value =
                Map.of("n", -70_000L, "big", Long.MIN_VALUE, "text", "käse".repeat(100), "r", 0.5);
        assertEquals(value, Unpacker.unpack(Packer.pack(value)));
    }
}
