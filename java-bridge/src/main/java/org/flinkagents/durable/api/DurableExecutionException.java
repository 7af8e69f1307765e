package org.flinkagents.durable.api;

/** What the durable runtime refuses, with the reason. */
public class DurableExecutionException extends RuntimeException {
    private static final long serialVersionUID = 1L;

    public DurableExecutionException(String message) {
        super(message);
    }

    public DurableExecutionException(String message, Throwable cause) {
        super(message, cause);
    }
}
