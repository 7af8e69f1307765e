package org.flinkagents.durable.api;

/** A value has to be recorded or sent and has no form as JSON has it. */
public class DurableSerializationException extends DurableExecutionException {
    private static final long serialVersionUID = 1L;

    public DurableSerializationException(String message) {
        super(message);
    }

    public DurableSerializationException(String message, Throwable cause) {
        super(message, cause);
    }
}
