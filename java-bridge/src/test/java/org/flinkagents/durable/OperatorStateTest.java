package org.flinkagents.durable;

import static org.flinkagents.durable.FakePython.result;
import static org.flinkagents.durable.Harness.bytes;
import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeMap;
import java.util.TreeSet;
import org.apache.flink.core.execution.SavepointFormatType;
import org.apache.flink.runtime.checkpoint.CheckpointType;
import org.apache.flink.runtime.checkpoint.OperatorSubtaskState;
import org.apache.flink.runtime.checkpoint.SavepointType;
import org.apache.flink.runtime.checkpoint.SnapshotType;
import org.apache.flink.runtime.state.KeyGroupRangeAssignment;
import org.apache.flink.state.rocksdb.EmbeddedRocksDBStateBackend;
import org.apache.flink.streaming.util.AbstractStreamOperatorTestHarness;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

/** Keyed state, raw keyed state, snapshots and restores. */
class OperatorStateTest {
    private static final SnapshotType SAVEPOINT =
            SavepointType.savepoint(SavepointFormatType.CANONICAL);
    private static final SnapshotType STOP = SavepointType.suspend(SavepointFormatType.CANONICAL);

    /** Keys whose bytes are not text, or look alike. */
    private static final byte[][] KEYS = {
        {}, {0}, {(byte) 0xff, (byte) 0x80}, bytes("1"), bytes("a_b/c\n"), new byte[10_000]
    };

    @Test
    void k7TheKindOfASnapshotReachesPython() throws Exception {
        FakePython python = new FakePython();
        try (Harness harness = open(python, false)) {
            harness.snapshot(1, CheckpointType.CHECKPOINT);
            assertArrayEquals(new Object[] {1L, 0}, python.argumentsOf("snapshot"));
            harness.snapshot(2, SAVEPOINT);
            assertArrayEquals(new Object[] {2L, 1}, python.argumentsOf("snapshot"));
            harness.snapshot(3, STOP);
            assertArrayEquals(new Object[] {3L, 2}, python.argumentsOf("snapshot"));
            harness.agents().notifyCheckpointComplete(3);
            assertEquals(3L, python.argumentsOf("completed")[0]);
        }
    }

    @Test
    void k7AfterTheSavepointOfAStopNothingStartsOrIsEmittedUntilItIsAborted() throws Exception {
        FakePython python = new FakePython();
        python.on("process", a -> result(0, 0, 0, a[2], a[3]));
        python.answer("drain", result(0, 0, 0, bytes("drained"), null));
        try (Harness harness = open(python, false)) {
            harness.snapshot(3, STOP);
            harness.input("k", "v", 1);
            harness.processWatermark(2);
            python.host.wake();
            harness.runMails();
            assertEquals(List.of(), harness.emitted());
            assertEquals(0, python.count("process") + python.count("drain"));
            harness.agents().notifyCheckpointAborted(2);
            assertEquals(List.of(), harness.emitted());
            harness.agents().notifyCheckpointAborted(3);
            harness.runMails();
            assertEquals(List.of("v@1", "watermark 2", "drained"), harness.emitted());
        }
    }

    @Test
    void k7ALaterSnapshotTellsThatTheStopWasAborted() throws Exception {
        FakePython python = new FakePython();
        python.on("process", a -> result(0, 0, 0, a[2], a[3]));
        try (Harness harness = open(python, false)) {
            harness.snapshot(3, STOP);
            harness.input("k", "v", 1);
            harness.prepareSnapshotPreBarrier(4);
            assertEquals(3L, python.argumentsOf("aborted")[0]);
            assertEquals(List.of("v@1"), harness.emitted());
        }
    }

    @Test
    void k6DirtyKeysAreWrittenEarlyWhenPythonAsks() throws Exception {
        FakePython python = new FakePython();
        byte[] key = bytes("k");
        python.answer("process", result(0, 0, 2));
        python.answer("flush", List.of(key, Arrays.asList(4L, null, bytes("9"))));
        try (Harness harness = open(python, false)) {
            harness.input("k", "v");
            assertEquals(1, python.count("flush"));
            python.on("process", a -> assertState(python.host.loadKey(key), 4, null, bytes("9")));
            harness.input("other", "v");
        }
    }

    @Test
    void k2LoadingAKeyLeavesTheCurrentKeyAsItWas() throws Exception {
        FakePython python = new FakePython();
        try (Harness harness = open(python, false)) {
            python.on(
                    "process",
                    a -> {
                        assertNull(python.host.loadKey(bytes("other")));
                        assertNull(python.host.loadMemory(bytes("other")));
                        assertEquals("k", harness.getOperator().getCurrentKey());
                        return null;
                    });
            harness.input("k", "v");
            assertEquals(1, python.count("process"));
        }
    }

    @ParameterizedTest
    @ValueSource(booleans = {false, true})
    void stateOfEveryKindComesBackAfterARestore(boolean rocksDb) throws Exception {
        for (byte[] key : KEYS) {
            FakePython first = new FakePython();
            List<Object> flat = new ArrayList<>();
            add(flat, 0, null, "active");
            add(flat, 1, 1L, "j1");
            add(flat, 1, Long.MAX_VALUE, "j2");
            add(flat, 2, 7L, "q");
            add(flat, 3, 8L, "u");
            add(flat, 4, null, "s");
            add(flat, 5, "a.b", "m");
            add(flat, 6, "awk_1", "r");
            withSnapshot(first, List.of(key, flat));
            OperatorSubtaskState snapshot;
            try (Harness harness = open(first, rocksDb)) {
                snapshot = harness.snapshot(1, CheckpointType.CHECKPOINT);
            }
            FakePython second = new FakePython();
            try (Harness harness = restored(second, snapshot, rocksDb)) {
                Object[] restored = second.argumentsOf("restore_key");
                assertArrayEquals(key, (byte[]) restored[0]);
                assertEquals(
                        KeyGroupRangeAssignment.assignToKeyGroup(
                                EncodedKeySelector.toKey(key), Harness.MAX_PARALLELISM),
                        restored[1]);
                assertState(
                        restored[2],
                        0,
                        null,
                        bytes("active"),
                        1,
                        1L,
                        bytes("j1"),
                        1,
                        Long.MAX_VALUE,
                        bytes("j2"),
                        2,
                        7L,
                        bytes("q"),
                        3,
                        8L,
                        bytes("u"),
                        4,
                        null,
                        bytes("s"),
                        6,
                        "awk_1",
                        bytes("r"));
                assertArrayEquals(new Object[] {"a.b", bytes("m")}, second.host.loadMemory(key));
                List<Object> removed = new ArrayList<>();
                for (int i = 0; i < flat.size(); i += 3) {
                    add(removed, (Long) flat.get(i), flat.get(i + 1), null);
                }
                withSnapshot(second, List.of(key, removed));
                harness.snapshot(2, CheckpointType.CHECKPOINT);
                assertNull(second.host.loadKey(key));
                assertNull(second.host.loadMemory(key));
            }
        }
    }

    @ParameterizedTest
    @ValueSource(booleans = {false, true})
    void s5GroupsAndActiveKeysFollowARescale(boolean rocksDb) throws Exception {
        List<OperatorSubtaskState> parts = new ArrayList<>();
        for (int subtask = 0; subtask < 2; subtask++) {
            FakePython python = new FakePython();
            Harness harness = new Harness(python.factory(), 10, 2, subtask);
            open(harness, rocksDb);
            List<Object> updates = new ArrayList<>();
            int first = (int) python.settings.get("first_group");
            int last = (int) python.settings.get("last_group");
            for (int i = 0; i < 100; i++) {
                String key = "key" + i;
                int group = KeyGroupRangeAssignment.assignToKeyGroup(key, Harness.MAX_PARALLELISM);
                if (group >= first && group <= last) {
                    List<Object> flat = new ArrayList<>();
                    add(flat, i % 2 == 0 ? 0 : 4, null, "x");
                    updates.add(bytes(key));
                    updates.add(flat);
                }
            }
            withSnapshot(python, updates);
            parts.add(harness.snapshot(1, SAVEPOINT));
            harness.close();
        }
        OperatorSubtaskState all =
                AbstractStreamOperatorTestHarness.repackageState(
                        parts.toArray(new OperatorSubtaskState[0]));
        Map<Integer, String> groups = new TreeMap<>();
        List<String> keys = new ArrayList<>();
        for (int subtask = 0; subtask < 3; subtask++) {
            FakePython python = new FakePython();
            Harness harness = new Harness(python.factory(), 10, 3, subtask);
            if (rocksDb) {
                harness.setStateBackend(new EmbeddedRocksDBStateBackend());
            }
            harness.initializeState(
                    AbstractStreamOperatorTestHarness.repartitionOperatorState(
                            all, Harness.MAX_PARALLELISM, 2, 3, subtask));
            harness.open();
            assertTrue((boolean) python.settings.get("restored"));
            for (int i = 0; i < python.calls.size(); i++) {
                Object[] arguments = python.arguments.get(i);
                if (python.calls.get(i).equals("restore_group")) {
                    groups.put((Integer) arguments[0], text(arguments[1]));
                } else if (python.calls.get(i).equals("restore_key")) {
                    keys.add(text(arguments[0]));
                }
            }
            assertEquals("start", python.calls.get(python.calls.size() - 2));
            harness.close();
        }
        assertEquals(Harness.MAX_PARALLELISM, groups.size());
        groups.forEach((group, blob) -> assertEquals("blob of " + group, blob));
        assertEquals(50, keys.size());
        assertEquals(50, keys.stream().distinct().count());
    }

    @Test
    void aFirstStartRestoresNothing() throws Exception {
        FakePython python = new FakePython();
        try (Harness harness = open(python, false)) {
            assertEquals(List.of("start", "sweep_interval"), python.calls);
            assertFalse((boolean) python.settings.get("restored"));
            assertEquals(-1L, python.settings.get("restored_checkpoint_id"));
            assertEquals(Harness.MAX_PARALLELISM, python.settings.get("max_parallelism"));
            assertArrayEquals(bytes("plan"), (byte[]) python.settings.get("plan"));
            assertEquals(0, harness.getOutput().size());
        }
    }

    @Test
    void aSnapshotWithAMissingGroupIsRefused() throws Exception {
        FakePython python = new FakePython();
        python.answer("snapshot", new Object[] {List.of(new byte[0]), List.of()});
        try (Harness harness = open(python, false)) {
            assertThrows(Exception.class, () -> harness.snapshot(1, CheckpointType.CHECKPOINT));
        }
    }

    @Test
    void aFailureOfPythonInASnapshotIsSaid() throws Exception {
        FakePython python = new FakePython();
        python.answer("snapshot", "Traceback: the store is gone");
        try (Harness harness = open(python, false)) {
            Throwable failure =
                    assertThrows(
                            Exception.class, () -> harness.snapshot(1, CheckpointType.CHECKPOINT));
            while (failure.getCause() != null) {
                failure = failure.getCause();
            }
            assertEquals("Traceback: the store is gone", failure.getMessage());
        }
    }

    @Test
    void rocksDbWithTimersOnTheHeapIsRefusedAtStart() throws Exception {
        EmbeddedRocksDBStateBackend backend = new EmbeddedRocksDBStateBackend();
        backend.setPriorityQueueStateType(EmbeddedRocksDBStateBackend.PriorityQueueStateType.HEAP);
        Harness harness = new Harness(new FakePython());
        harness.setStateBackend(backend);
        Exception refusal = assertThrows(IllegalStateException.class, harness::open);
        assertTrue(refusal.getMessage().contains("timer-service.factory"), refusal.getMessage());
        harness.getOperator().close();
    }

    @ParameterizedTest
    @ValueSource(booleans = {false, true})
    void p25AWalkOverAllKeysLetsPythonForgetThem(boolean rocksDb) throws Exception {
        int count = 1_200; // more than in one step
        FakePython python = new FakePython();
        python.answer("sweep_interval", 1_000L);
        python.answer("process", result(0, 0, 2));
        python.on(
                "flush",
                a -> {
                    byte[] key = (byte[]) python.argumentsOf("process")[0];
                    return List.of(
                            key,
                            Arrays.<Object>asList(
                                    4L, null, bytes("7"), 5L, "a", key, 5L, "b", bytes("x")));
                });
        Set<String> seen = new TreeSet<>();
        python.on(
                "forget",
                a -> {
                    Object[] keys = (Object[]) a[0];
                    List<Object> updates = new ArrayList<>();
                    for (int i = 0; i < keys.length; i += 3) {
                        String key = new String((byte[]) keys[i], StandardCharsets.UTF_8);
                        assertArrayEquals(bytes("7"), (byte[]) keys[i + 2]);
                        assertTrue(seen.add(key));
                        if (!key.equals("k0")) {
                            updates.add(keys[i]);
                            updates.add(Arrays.<Object>asList(5L, null, null, 4L, null, null));
                        }
                    }
                    return updates;
                });
        try (Harness harness = open(python, rocksDb)) {
            for (int i = 0; i < count; i++) {
                harness.input("k" + i, "v");
            }
            harness.setProcessingTime(999);
            assertEquals(0, python.count("forget"));
            for (int time = 1_000; time <= 1_100; time += 20) {
                harness.setProcessingTime(time);
            }
            assertEquals(count, seen.size());
            assertEquals(3, python.count("forget"));
            assertNull(python.host.loadMemory(bytes("k1")));
            assertNull(python.host.loadKey(bytes("k1")));
            assertEquals(4, python.host.loadMemory(bytes("k0")).length);
            seen.clear();
            harness.setProcessingTime(4_000); // the next walk finds what is left
            assertEquals(Set.of("k0"), seen);
        }
    }

    private static Harness open(FakePython python, boolean rocksDb) throws Exception {
        return open(new Harness(python), rocksDb);
    }

    private static Harness open(Harness harness, boolean rocksDb) throws Exception {
        if (rocksDb) {
            harness.setStateBackend(new EmbeddedRocksDBStateBackend());
        }
        harness.open();
        return harness;
    }

    private static Harness restored(
            FakePython python, OperatorSubtaskState snapshot, boolean rocksDb) throws Exception {
        Harness harness = new Harness(python);
        if (rocksDb) {
            harness.setStateBackend(new EmbeddedRocksDBStateBackend());
        }
        harness.initializeState(snapshot);
        harness.open();
        return harness;
    }

    private static void withSnapshot(FakePython python, List<?> updates) {
        python.on(
                "snapshot",
                a -> {
                    List<byte[]> blobs = new ArrayList<>();
                    int last = (int) python.settings.get("last_group");
                    for (int g = (int) python.settings.get("first_group"); g <= last; g++) {
                        blobs.add(bytes("blob of " + g));
                    }
                    return new Object[] {blobs, updates};
                });
    }

    private static void add(List<Object> flat, long state, Object subkey, String value) {
        flat.add(state);
        flat.add(subkey);
        flat.add(value == null ? null : bytes(value));
    }

    /** Entries of a map state come in any order. */
    private static Object assertState(Object actual, Object... expected) {
        assertEquals(entries(expected), entries((Object[]) actual));
        return null;
    }

    private static Set<String> entries(Object[] flat) {
        Set<String> entries = new TreeSet<>();
        for (int i = 0; i < flat.length; i += 3) {
            entries.add(flat[i] + " " + flat[i + 1] + " " + text(flat[i + 2]));
        }
        return entries;
    }

    private static String text(Object value) {
        return new String((byte[]) value, StandardCharsets.UTF_8);
    }
}
