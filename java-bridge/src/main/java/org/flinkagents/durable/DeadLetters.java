package org.flinkagents.durable;

import java.util.stream.Stream;
import org.apache.flink.api.common.typeinfo.PrimitiveArrayTypeInfo;
import org.apache.flink.streaming.api.graph.NonChainedOutput;
import org.apache.flink.streaming.api.graph.StreamConfig;
import org.apache.flink.streaming.api.graph.StreamEdge;
import org.apache.flink.util.OutputTag;

/** The side output of inputs that were given up, and its consumer. Keeps K14. */
final class DeadLetters {
    static final OutputTag<byte[]> TAG =
            new OutputTag<>("dead-letters", PrimitiveArrayTypeInfo.BYTE_PRIMITIVE_ARRAY_TYPE_INFO);

    private DeadLetters() {}

    /** Flink drops what goes to a side output that nothing is connected to. */
    static void checkConnected(String uid, StreamConfig operator, ClassLoader loader) {
        Stream<Object> tags =
                Stream.concat(
                        operator.getChainedOutputs(loader).stream().map(StreamEdge::getOutputTag),
                        operator.getOperatorNonChainedOutputs(loader).stream()
                                .map(NonChainedOutput::getOutputTag));
        if (tags.noneMatch(TAG::equals)) {
            throw notRead(uid);
        }
    }

    static IllegalStateException notRead(String uid) {
        return new IllegalStateException(
                "Agent "
                        + uid
                        + " emits dead letters (agents.action-failure or on_failure is"
                        + " dead-letter) and nothing reads them, so that they would be lost: give"
                        + " the stream of dead_letters() a sink");
    }
}
