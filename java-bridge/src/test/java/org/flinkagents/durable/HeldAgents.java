package org.flinkagents.durable;

import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashMap;
import java.util.Iterator;
import java.util.List;
import java.util.Map;
import java.util.Queue;
import java.util.Set;
import java.util.TreeMap;
import java.util.TreeSet;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.atomic.AtomicInteger;

/**
 * A small engine in Java for jobs on a MiniCluster: inputs wait while the test holds them, then
 * each is emitted as it came, behind those before it.
 */
final class HeldAgents implements PythonRuntime {
    /** What the test says to, and sees of, the engines of all subtasks. */
    static final class Control {
        static volatile boolean held;
        static volatile boolean failing;
        static final AtomicInteger PENDING = new AtomicInteger();
        static final AtomicInteger ENDED = new AtomicInteger();
        static final AtomicInteger OPENED = new AtomicInteger();
        static final AtomicInteger CHECKPOINTS = new AtomicInteger();
        static final Set<AgentHost> HOSTS = ConcurrentHashMap.newKeySet();

        private Control() {}

        static void reset(boolean hold) {
            held = hold;
            failing = false;
            for (AtomicInteger counter : List.of(PENDING, ENDED, OPENED, CHECKPOINTS)) {
                counter.set(0);
            }
            HOSTS.clear();
        }

        static String describe() {
            return String.format(
                    "pending %s, ended %s, opened %s, checkpoints %s",
                    PENDING, ENDED, OPENED, CHECKPOINTS);
        }

        static void release() {
            held = false;
            HOSTS.forEach(AgentHost::wake);
        }

        static void fail() {
            failing = true;
            HOSTS.forEach(AgentHost::wake);
        }
    }

    private final AgentHost host;
    private final Map<String, Object> settings;
    private final Queue<Object> inOrder = new ArrayDeque<>();
    private final Map<String, TreeMap<Long, byte[]>> pending = new HashMap<>();
    private final Map<String, Set<Long>> written = new HashMap<>();
    private final Set<String> dirty = new TreeSet<>();
    private long nextId;
    private int waiting;

    private HeldAgents(AgentHost host, Map<String, Object> settings) {
        this.host = host;
        this.settings = settings;
        Control.HOSTS.add(host);
        Control.OPENED.incrementAndGet();
    }

    static PythonRuntimeFactory factory() {
        return (task, context, host, settings) -> new HeldAgents(host, settings);
    }

    private static final class Input {
        private final String key;
        private final long id;
        private final Long timestamp;

        private Input(String key, long id, Long timestamp) {
            this.key = key;
            this.id = id;
            this.timestamp = timestamp;
        }
    }

    @Override
    public Object call(String method, Object... arguments) throws Exception {
        switch (method) {
            case "restore_key":
                restore((byte[]) arguments[0], (Object[]) arguments[2]);
                return null;
            case "start":
                host.wake();
                return emit();
            case "process":
                admit(
                        EncodedKeySelector.toKey((byte[]) arguments[0]),
                        nextId++,
                        (byte[]) arguments[2],
                        (Long) arguments[3]);
                host.wake();
                return FakePython.result(waiting, waiting, 0);
            case "watermark":
            case "watermark_status":
                inOrder.add(arguments[0]);
                return null;
            case "end_input":
                Control.ENDED.incrementAndGet();
                return null;
            case "drain":
                if (Control.failing) {
                    Control.failing = false;
                    throw new IllegalStateException("the test fails this attempt");
                }
                return emit();
            case "snapshot":
                return snapshot();
            case "completed":
                Control.CHECKPOINTS.incrementAndGet();
                return null;
            default:
                return null;
        }
    }

    private void restore(byte[] key, Object[] flat) {
        TreeMap<Long, byte[]> queued = new TreeMap<>();
        for (int i = 0; i < flat.length; i += 3) {
            if ((int) flat[i] == 2) {
                queued.put((Long) flat[i + 1], (byte[]) flat[i + 2]);
            }
        }
        String name = EncodedKeySelector.toKey(key);
        written.put(name, new TreeSet<>(queued.keySet()));
        queued.forEach((id, payload) -> admit(name, id, payload, null));
        nextId = Math.max(nextId, queued.lastKey() + 1);
    }

    private void admit(String key, long id, byte[] payload, Long timestamp) {
        pending.computeIfAbsent(key, k -> new TreeMap<>()).put(id, payload);
        inOrder.add(new Input(key, id, timestamp));
        dirty.add(key);
        waiting++;
        Control.PENDING.incrementAndGet();
    }

    private Object emit() {
        List<Object> items = new ArrayList<>();
        while (!Control.held && !inOrder.isEmpty() && items.size() < 20) {
            Object next = inOrder.remove();
            if (next instanceof Input) {
                Input input = (Input) next;
                items.add(pending.get(input.key).remove(input.id));
                items.add(input.timestamp);
                dirty.add(input.key);
                waiting--;
                Control.PENDING.decrementAndGet();
            } else {
                items.add(next);
            }
        }
        long more = !Control.held && !inOrder.isEmpty() ? 1 : 0;
        return FakePython.result(waiting, waiting, more, items.toArray());
    }

    private Object snapshot() {
        int groups = (int) settings.get("last_group") - (int) settings.get("first_group") + 1;
        byte[][] blobs = new byte[groups][0];
        List<Object> updates = new ArrayList<>();
        for (Iterator<String> keys = dirty.iterator(); keys.hasNext(); keys.remove()) {
            String key = keys.next();
            TreeMap<Long, byte[]> now = pending.getOrDefault(key, new TreeMap<>());
            Set<Long> before = written.computeIfAbsent(key, k -> new TreeSet<>());
            List<Object> flat = new ArrayList<>();
            flat.addAll(Arrays.asList(0L, null, now.isEmpty() ? null : new byte[] {1}));
            for (Long id : before) {
                if (!now.containsKey(id)) {
                    flat.addAll(Arrays.asList(2L, id, null));
                }
            }
            now.forEach((id, payload) -> flat.addAll(Arrays.asList(2L, id, payload)));
            before.clear();
            before.addAll(now.keySet());
            updates.add(EncodedKeySelector.toBytes(key));
            updates.add(flat);
        }
        return new Object[] {List.of((Object[]) blobs), updates};
    }

    @Override
    public void close() {
        Control.HOSTS.remove(host);
        Control.PENDING.addAndGet(-waiting);
    }
}
