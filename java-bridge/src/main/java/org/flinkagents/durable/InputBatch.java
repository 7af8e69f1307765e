package org.flinkagents.durable;

import java.util.ArrayList;
import java.util.List;

/**
 * Inputs on their way to Python. Each crossing takes the interpreter lock, for which the threads of
 * a job contend; while inputs come in fast some of them cross together.
 */
final class InputBatch {
    static final long LINGER_MILLIS = 1;

    private final int limit;
    private final int width;
    private final List<Object> fields = new ArrayList<>();
    private long lastTakenNanos;

    /**
     * @param width the number of arguments of an input
     */
    InputBatch(int limit, int width) {
        this.limit = limit;
        this.width = width;
        lastTakenNanos = System.nanoTime();
    }

    /** Adds the arguments of one input; true: they should cross now. */
    boolean add(Object[] arguments) {
        for (Object argument : arguments) {
            fields.add(argument);
        }
        return fields.size() >= limit * width
                || System.nanoTime() - lastTakenNanos > LINGER_MILLIS * 1_000_000;
    }

    boolean isEmpty() {
        return fields.isEmpty();
    }

    boolean isSingle() {
        return fields.size() == width;
    }

    Object[] take() {
        Object[] flat = fields.toArray();
        fields.clear();
        lastTakenNanos = System.nanoTime();
        return flat;
    }
}
