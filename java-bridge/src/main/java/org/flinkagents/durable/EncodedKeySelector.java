package org.flinkagents.durable;

import java.nio.charset.StandardCharsets;
import org.apache.flink.api.java.functions.KeySelector;
import org.apache.flink.types.Row;

/**
 * The key of a row (encoded key, payload) as Flink sees it: one character a byte, since arrays do
 * not hash by content and strings do. Keeps K3.
 */
final class EncodedKeySelector implements KeySelector<Row, String> {
    private static final long serialVersionUID = 1L;

    @Override
    public String getKey(Row row) {
        return toKey((byte[]) row.getField(0));
    }

    static String toKey(byte[] encoded) {
        return new String(encoded, StandardCharsets.ISO_8859_1);
    }

    static byte[] toBytes(String key) {
        return key.getBytes(StandardCharsets.ISO_8859_1);
    }
}
