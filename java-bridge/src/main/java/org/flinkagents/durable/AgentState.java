package org.flinkagents.durable;

import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.stream.Collectors;
import java.util.stream.Stream;
import org.apache.flink.api.common.state.KeyedStateStore;
import org.apache.flink.api.common.state.MapState;
import org.apache.flink.api.common.state.MapStateDescriptor;
import org.apache.flink.api.common.state.ValueState;
import org.apache.flink.api.common.state.ValueStateDescriptor;
import org.apache.flink.api.common.typeinfo.PrimitiveArrayTypeInfo;
import org.apache.flink.api.common.typeinfo.TypeInformation;
import org.apache.flink.api.common.typeinfo.Types;
import org.apache.flink.runtime.state.CheckpointableKeyedStateBackend;
import org.apache.flink.runtime.state.KeyGroupRange;
import org.apache.flink.runtime.state.KeyGroupRangeAssignment;
import org.apache.flink.runtime.state.VoidNamespace;

/**
 * The keyed state of the engine, as opaque bytes. Entries cross to Python as flat arrays of (state
 * number, key within the state or null, value); in an update a null value removes the entry.
 */
final class AgentState {
    private static final int ACTIVE = 0;
    private static final int JOURNAL = 1;
    private static final int QUEUED = 2;
    private static final int UNCLAIMED = 3;
    private static final int SEQUENCE = 4;
    private static final int MEMORY = 5;
    private static final int EARLY = 6;

    private static final String ACTIVE_NAME = "active";
    private static final String SEQUENCE_NAME = "sequence";
    private static final TypeInformation<byte[]> BYTES =
            PrimitiveArrayTypeInfo.BYTE_PRIMITIVE_ARRAY_TYPE_INFO;

    private final CheckpointableKeyedStateBackend<String> backend;
    private final int maxParallelism;

    private final ValueState<byte[]> active;
    private final MapState<Long, byte[]> journal;
    private final MapState<Long, byte[]> queued;
    private final MapState<Long, byte[]> unclaimed;
    private final ValueState<byte[]> sequence;
    private final MapState<String, byte[]> memory;
    private final MapState<String, byte[]> early;

    AgentState(
            CheckpointableKeyedStateBackend<String> backend,
            KeyedStateStore store,
            int maxParallelism) {
        this.backend = backend;
        this.maxParallelism = maxParallelism;
        active = store.getState(new ValueStateDescriptor<>(ACTIVE_NAME, BYTES));
        journal = store.getMapState(new MapStateDescriptor<>("journal", Types.LONG, BYTES));
        queued = store.getMapState(new MapStateDescriptor<>("queued", Types.LONG, BYTES));
        unclaimed = store.getMapState(new MapStateDescriptor<>("unclaimed", Types.LONG, BYTES));
        sequence = store.getState(new ValueStateDescriptor<>(SEQUENCE_NAME, BYTES));
        memory = store.getMapState(new MapStateDescriptor<>("memory", Types.STRING, BYTES));
        early = store.getMapState(new MapStateDescriptor<>("early", Types.STRING, BYTES));
    }

    KeyGroupRange keyGroups() {
        return backend.getKeyGroupRange();
    }

    int keyGroup(String key) {
        return KeyGroupRangeAssignment.assignToKeyGroup(key, maxParallelism);
    }

    /**
     * Keys with unfinished work. After a rescale a backend may still hold keys of other subtasks.
     */
    List<String> activeKeys() {
        try (Stream<String> keys = backend.getKeys(ACTIVE_NAME, VoidNamespace.INSTANCE)) {
            return keys.filter(key -> keyGroups().contains(keyGroup(key)))
                    .collect(Collectors.toList());
        }
    }

    /**
     * All keys that have a sequence number. The map of a backend that keeps objects must not change
     * under a walk, so that its keys, which are there anyway, are listed first.
     */
    Stream<String> keysWithSequence() {
        Stream<String> keys =
                backend.getKeys(SEQUENCE_NAME, VoidNamespace.INSTANCE)
                        .filter(key -> keyGroups().contains(keyGroup(key)));
        if (backend.isSafeToReuseKVState()) {
            return keys;
        }
        try (Stream<String> all = keys) {
            return all.collect(Collectors.toList()).stream();
        }
    }

    /** The sequence number of a key, or null. */
    byte[] sequence(String key) throws Exception {
        String current = enter(key);
        try {
            return sequence.value();
        } finally {
            leave(current);
        }
    }

    /**
     * Handed over with each input of the current key, so that Python need not ask for it: on its
     * way to Java it would give up the interpreter lock, and wait for it behind other threads.
     */
    byte[] currentSequence() throws Exception {
        return sequence.value();
    }

    /** Everything of a key but its memory; null if there is nothing. */
    Object[] load(String key) throws Exception {
        List<Object> flat = new ArrayList<>();
        String current = enter(key);
        try {
            addValue(flat, ACTIVE, active);
            addEntries(flat, JOURNAL, journal);
            addEntries(flat, QUEUED, queued);
            addEntries(flat, UNCLAIMED, unclaimed);
            addEntries(flat, EARLY, early);
            addValue(flat, SEQUENCE, sequence);
        } finally {
            leave(current);
        }
        return flat.isEmpty() ? null : flat.toArray();
    }

    /** The memory of a key as (path, value, ...); null if there is none. */
    Object[] loadMemory(String key) throws Exception {
        List<Object> flat = new ArrayList<>();
        String current = enter(key);
        try {
            for (Map.Entry<String, byte[]> entry : memory.entries()) {
                flat.add(entry.getKey());
                flat.add(entry.getValue());
            }
        } finally {
            leave(current);
        }
        return flat.isEmpty() ? null : flat.toArray();
    }

    /** Writes updates (encoded key, flat entries, ...). */
    void update(Object[] updates) throws Exception {
        String current = backend.getCurrentKey();
        try {
            for (int i = 0; i < updates.length; i += 2) {
                backend.setCurrentKey(EncodedKeySelector.toKey((byte[]) updates[i]));
                updateCurrentKey(PythonValues.array(updates[i + 1]));
            }
        } finally {
            leave(current);
        }
    }

    private void updateCurrentKey(Object[] flat) throws Exception {
        for (int i = 0; i < flat.length; i += 3) {
            int state = ((Number) flat[i]).intValue();
            Object subkey = flat[i + 1];
            byte[] value = (byte[]) flat[i + 2];
            switch (state) {
                case ACTIVE:
                    put(active, value);
                    break;
                case JOURNAL:
                    put(journal, (Long) subkey, value);
                    break;
                case QUEUED:
                    put(queued, (Long) subkey, value);
                    break;
                case UNCLAIMED:
                    put(unclaimed, (Long) subkey, value);
                    break;
                case SEQUENCE:
                    put(sequence, value);
                    break;
                case MEMORY:
                    if (subkey == null) {
                        memory.clear();
                    } else {
                        put(memory, (String) subkey, value);
                    }
                    break;
                case EARLY:
                    put(early, (String) subkey, value);
                    break;
                default:
                    throw new IllegalArgumentException("Unknown state number " + state);
            }
        }
    }

    /** Keeps K2: whoever runs next finds the key that was current before. */
    private String enter(String key) {
        String current = backend.getCurrentKey();
        backend.setCurrentKey(key);
        return current;
    }

    private void leave(String current) {
        if (current != null) {
            backend.setCurrentKey(current);
        }
    }

    private static void put(ValueState<byte[]> state, byte[] value) throws Exception {
        if (value == null) {
            state.clear();
        } else {
            state.update(value);
        }
    }

    private static <K> void put(MapState<K, byte[]> state, K key, byte[] value) throws Exception {
        if (value == null) {
            state.remove(key);
        } else {
            state.put(key, value);
        }
    }

    private static void addValue(List<Object> flat, int number, ValueState<byte[]> state)
            throws Exception {
        byte[] value = state.value();
        if (value != null) {
            flat.add(number);
            flat.add(null);
            flat.add(value);
        }
    }

    private static <K> void addEntries(List<Object> flat, int number, MapState<K, byte[]> state)
            throws Exception {
        for (Map.Entry<K, byte[]> entry : state.entries()) {
            flat.add(number);
            flat.add(entry.getKey());
            flat.add(entry.getValue());
        }
    }
}
