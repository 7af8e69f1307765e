package org.flinkagents.durable;

import java.util.ArrayList;
import java.util.Iterator;
import java.util.List;
import java.util.stream.Stream;

/**
 * Walks over all keys again and again, some at a time, for Python to drop what has expired (P25).
 */
final class KeySweep implements AutoCloseable {
    /** Few enough that barriers and inputs wait no more than some milliseconds. */
    private static final int KEYS_AT_A_TIME = 500;

    private final AgentState state;
    private Stream<String> stream;
    private Iterator<String> keys;

    KeySweep(AgentState state) {
        this.state = state;
    }

    /**
     * The next keys as (encoded key, key group, state "sequence", ...); empty at the end of a walk.
     */
    Object[] next() throws Exception {
        if (keys == null) {
            stream = state.keysWithSequence();
            keys = stream.iterator();
        }
        List<Object> flat = new ArrayList<>();
        while (flat.size() < 3 * KEYS_AT_A_TIME && keys.hasNext()) {
            String key = keys.next();
            byte[] sequence = state.sequence(key);
            if (sequence != null) { // the walk sees keys as they were when it began
                flat.add(EncodedKeySelector.toBytes(key));
                flat.add(state.keyGroup(key));
                flat.add(sequence);
            }
        }
        if (flat.isEmpty()) {
            close();
        }
        return flat.toArray();
    }

    @Override
    public void close() {
        if (stream != null) {
            stream.close();
        }
        stream = null;
        keys = null;
    }
}
