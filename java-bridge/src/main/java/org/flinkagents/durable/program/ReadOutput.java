package org.flinkagents.durable.program;

import org.apache.flink.api.common.functions.MapFunction;
import org.flinkagents.durable.actions.Unpacker;
import org.flinkagents.durable.api.Values;

/** An output as the class that the program asked for. */
final class ReadOutput<O> implements MapFunction<byte[], O> {
    private static final long serialVersionUID = 1L;

    private final Class<O> type;

    ReadOutput(Class<O> type) {
        this.type = type;
    }

    @Override
    public O map(byte[] packed) {
        return Values.convert(Unpacker.unpack(packed), type);
    }
}
