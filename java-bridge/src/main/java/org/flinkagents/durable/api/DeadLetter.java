package org.flinkagents.durable.api;

import java.io.Serializable;

/**
 * An execution of an action that ended with an exception under dead-letter: one letter for each. To
 * try again, send the input into the agent once more.
 */
public final class DeadLetter implements Serializable {
    private static final long serialVersionUID = 1L;

    private final Object key;
    private final Object input;
    private final String action;
    private final String error;
    private final String traceback;
    private final String runId;

    public DeadLetter(
            Object key, Object input, String action, String error, String traceback, String runId) {
        this.key = key;
        this.input = input;
        this.action = action;
        this.error = error;
        this.traceback = traceback;
        this.runId = runId;
    }

    public Object getKey() {
        return key;
    }

    /** The input of the run, as a plain value. */
    public Object getInput() {
        return input;
    }

    /** The input of the run, as a bean or another class. */
    public <T> T getInput(Class<T> type) {
        return Values.convert(input, type);
    }

    public String getAction() {
        return action;
    }

    /** {@code <class>: <message>}, without credentials. */
    public String getError() {
        return error;
    }

    public String getTraceback() {
        return traceback;
    }

    public String getRunId() {
        return runId;
    }

    @Override
    public String toString() {
        return "DeadLetter(" + key + ", " + input + ", " + action + ", " + error + ")";
    }
}
