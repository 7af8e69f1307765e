package org.flinkagents.durable;

import java.io.DataInputStream;
import java.io.DataOutputStream;
import java.io.IOException;
import java.io.InputStream;
import java.util.Map;
import java.util.TreeMap;
import org.apache.flink.runtime.state.KeyGroupRange;
import org.apache.flink.runtime.state.KeyGroupStatePartitionStreamProvider;
import org.apache.flink.runtime.state.KeyedStateCheckpointOutputStream;

/** One blob for each key group in raw keyed state, made and read by Python. */
final class KeyGroupBlobs {
    private KeyGroupBlobs() {}

    /** Every group is started, also where its blob is empty: Flink wants the whole range. */
    static void write(KeyedStateCheckpointOutputStream out, KeyGroupRange groups, Object[] blobs)
            throws IOException {
        if (blobs.length != groups.getNumberOfKeyGroups()) {
            throw new IllegalStateException(
                    blobs.length + " blobs for " + groups.getNumberOfKeyGroups() + " key groups");
        }
        DataOutputStream data = new DataOutputStream(out);
        for (int i = 0; i < blobs.length; i++) {
            out.startNewKeyGroup(groups.getKeyGroupId(i));
            byte[] blob = (byte[]) blobs[i];
            data.writeInt(blob.length);
            data.write(blob);
        }
        data.flush();
    }

    /** A group that is missing here belonged to a subtask that had finished. */
    static Map<Integer, byte[]> read(Iterable<KeyGroupStatePartitionStreamProvider> inputs)
            throws IOException {
        Map<Integer, byte[]> blobs = new TreeMap<>();
        for (KeyGroupStatePartitionStreamProvider input : inputs) {
            try (InputStream stream = input.getStream()) {
                DataInputStream data = new DataInputStream(stream);
                byte[] blob = new byte[data.readInt()];
                data.readFully(blob);
                blobs.put(input.getKeyGroupId(), blob);
            }
        }
        return blobs;
    }
}
