package org.flinkagents.durable.program;

import java.util.List;
import org.apache.flink.api.common.functions.MapFunction;
import org.flinkagents.durable.actions.Unpacker;
import org.flinkagents.durable.api.DeadLetter;

/** A dead letter as Python's side packed it. */
final class ReadDeadLetter implements MapFunction<byte[], DeadLetter> {
    private static final long serialVersionUID = 1L;

    @Override
    public DeadLetter map(byte[] packed) {
        List<?> fields = (List<?>) Unpacker.unpack(packed);
        return new DeadLetter(
                fields.get(0),
                fields.get(1),
                (String) fields.get(2),
                (String) fields.get(3),
                (String) fields.get(4),
                (String) fields.get(5));
    }
}
