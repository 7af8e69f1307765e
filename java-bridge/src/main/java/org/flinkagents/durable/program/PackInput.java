package org.flinkagents.durable.program;

import java.util.Arrays;
import java.util.LinkedHashMap;
import java.util.Map;
import org.apache.flink.api.common.functions.MapFunction;
import org.apache.flink.api.java.functions.KeySelector;
import org.apache.flink.types.Row;
import org.flinkagents.durable.actions.Packer;
import org.flinkagents.durable.api.DurableExecutionException;

/** A record with its key, as Python reads both. */
final class PackInput<T> implements MapFunction<T, byte[]> {
    private static final long serialVersionUID = 1L;

    private static final int SHOWN_CHARACTERS = 500;

    private final KeySelector<T, ?> selector;

    PackInput(KeySelector<T, ?> selector) {
        this.selector = selector;
    }

    @Override
    public byte[] map(T record) {
        try {
            return Packer.pack(Arrays.asList(plain(selector.getKey(record)), plain(record)));
        } catch (Exception e) {
            String text = String.valueOf(record);
            throw new DurableExecutionException(
                    "The key of a record, or the record itself, cannot go to an agent: "
                            + e.getMessage()
                            + ". The record: "
                            + text.substring(0, Math.min(text.length(), SHOWN_CHARACTERS)),
                    e);
        }
    }

    /** Jackson knows nothing of rows. */
    private static Object plain(Object value) {
        if (!(value instanceof Row)) {
            return value;
        }
        Row row = (Row) value;
        if (row.getFieldNames(true) == null) {
            Object[] fields = new Object[row.getArity()];
            Arrays.setAll(fields, i -> plain(row.getField(i)));
            return Arrays.asList(fields);
        }
        Map<String, Object> fields = new LinkedHashMap<>();
        for (String name : row.getFieldNames(true)) {
            fields.put(name, plain(row.getField(name)));
        }
        return fields;
    }
}
