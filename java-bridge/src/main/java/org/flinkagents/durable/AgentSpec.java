package org.flinkagents.durable;

import java.io.Serializable;
import java.util.Objects;

/** What {@code apply()} knows of an agent; travels with the job. */
public final class AgentSpec implements Serializable {
    private static final long serialVersionUID = 1L;

    final String uid;
    final byte[] plan;
    final long maxInFlight;
    final long closeTimeoutMillis;

    /** How many inputs may cross to Python together; 1: each by itself, at once. */
    final int inputBatch;

    /** Whether an action may emit dead letters, so that somebody has to read them (K14). */
    final boolean deadLetters;

    /** The object whose methods are the actions of its class, or null. */
    final Serializable javaAgent;

    AgentSpec(String uid, byte[] plan, long maxInFlight, long closeTimeoutMillis) {
        this(uid, plan, maxInFlight, closeTimeoutMillis, 1, false);
    }

    AgentSpec(
            String uid,
            byte[] plan,
            long maxInFlight,
            long closeTimeoutMillis,
            int inputBatch,
            boolean deadLetters) {
        this(uid, plan, maxInFlight, closeTimeoutMillis, inputBatch, deadLetters, null);
    }

    public AgentSpec(
            String uid,
            byte[] plan,
            long maxInFlight,
            long closeTimeoutMillis,
            int inputBatch,
            boolean deadLetters,
            Serializable javaAgent) {
        if (maxInFlight < 1) {
            throw new IllegalArgumentException("maxInFlight must be at least 1: " + maxInFlight);
        }
        this.uid = Objects.requireNonNull(uid, "uid");
        this.plan = plan.clone();
        this.maxInFlight = maxInFlight;
        this.closeTimeoutMillis = closeTimeoutMillis;
        this.inputBatch = inputBatch;
        this.deadLetters = deadLetters;
        this.javaAgent = javaAgent;
    }
}
