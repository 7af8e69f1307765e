package org.flinkagents.durable;

import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.IOException;
import java.io.InterruptedIOException;
import java.net.SocketTimeoutException;
import java.nio.channels.AsynchronousCloseException;
import java.nio.channels.ClosedByInterruptException;
import java.util.concurrent.CancellationException;
import java.util.concurrent.ExecutionException;
import org.junit.jupiter.api.Test;

class JavaInterruptionDetectorTest {
    @Test
    void i1TheThreeClassesCountAnywhereInTheCauseChain() {
        for (Throwable interruption :
                new Throwable[] {
                    new InterruptedException(),
                    new ClosedByInterruptException(),
                    new CancellationException(),
                    new InterruptedException() {
                        private static final long serialVersionUID = 1L;
                    }
                }) {
            assertTrue(JavaInterruptionDetector.isInterruption(interruption));
            assertTrue(
                    JavaInterruptionDetector.isInterruption(
                            new RuntimeException(new ExecutionException(interruption))));
        }
    }

    @Test
    void i1NeitherTimeoutsNorMessagesNorSuppressedExceptionsCount() {
        Exception suppressing = new Exception("java.lang.InterruptedException");
        suppressing.addSuppressed(new InterruptedException());
        for (Throwable ordinary :
                new Throwable[] {
                    new InterruptedIOException("timeout"),
                    new SocketTimeoutException("interrupted"),
                    new AsynchronousCloseException(),
                    suppressing,
                    new Error("InterruptedException")
                }) {
            assertFalse(JavaInterruptionDetector.isInterruption(ordinary));
            assertFalse(JavaInterruptionDetector.isInterruption(new RuntimeException(ordinary)));
        }
    }

    @Test
    void i3WhatIsNoThrowableIsOrdinary() {
        assertFalse(JavaInterruptionDetector.isInterruption(null));
        assertFalse(JavaInterruptionDetector.isInterruption("java.lang.InterruptedException"));
    }

    @Test
    void i3ACauseCycleEnds() {
        Exception first = new IOException();
        Exception second = new RuntimeException(first);
        first.initCause(second);
        assertFalse(JavaInterruptionDetector.isInterruption(first));
    }

    @Test
    void i3HostileExceptionsEndAsOrdinary() {
        assertFalse(JavaInterruptionDetector.isInterruption(new Throwing()));
        assertFalse(JavaInterruptionDetector.isInterruption(new Endless()));
        assertFalse(JavaInterruptionDetector.isInterruption(new Exception("", new Throwing())));
    }

    private static final class Throwing extends Exception {
        private static final long serialVersionUID = 1L;

        @Override
        public synchronized Throwable getCause() {
            throw new StackOverflowError();
        }

        @Override
        public String getMessage() {
            throw new IllegalStateException();
        }

        @Override
        public boolean equals(Object other) {
            throw new IllegalStateException();
        }

        @Override
        public int hashCode() {
            throw new IllegalStateException();
        }
    }

    private static final class Endless extends Exception {
        private static final long serialVersionUID = 1L;

        @Override
        public synchronized Throwable getCause() {
            return new Endless();
        }
    }
}
