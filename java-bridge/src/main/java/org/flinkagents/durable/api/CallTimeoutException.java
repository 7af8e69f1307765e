package org.flinkagents.durable.api;

import java.util.concurrent.TimeoutException;

/** A durable call, or a batch of them, did not finish in its time. */
public class CallTimeoutException extends TimeoutException {
    private static final long serialVersionUID = 1L;

    public CallTimeoutException(String message) {
        super(message);
    }
}
