package org.flinkagents.durable.api;

/** A record is larger than the action state store takes. */
public class RecordTooLargeException extends DurableExecutionException {
    private static final long serialVersionUID = 1L;

    public RecordTooLargeException(String message) {
        super(message);
    }
}
