package org.flinkagents.durable;

import java.util.ArrayList;
import java.util.List;

/**
 * Inputs on their way to Python. Each crossing takes the interpreter lock, for which the threads of
 * a job contend; while inputs come in fast some of them cross together.
 */
final class InputBatch {
    static final long LINGER_MILLIS = 1;

    private static final int FIELDS = 5;

    private final int limit;
    private final List<Object> fields = new ArrayList<>();
    private long lastTakenNanos;

    InputBatch(int limit) {
        this.limit = limit;
        lastTakenNanos = System.nanoTime();
    }

    /** Adds the arguments of one input; true: they should cross now. */
    boolean add(Object[] arguments) {
        for (Object argument : arguments) {
            fields.add(argument);
        }
        return fields.size() >= limit * FIELDS
                || System.nanoTime() - lastTakenNanos > LINGER_MILLIS * 1_000_000;
    }

    boolean isEmpty() {
        return fields.isEmpty();
    }

    boolean isSingle() {
        return fields.size() == FIELDS;
    }

    Object[] take() {
        Object[] flat = fields.toArray();
        fields.clear();
        lastTakenNanos = System.nanoTime();
        return flat;
    }
}
