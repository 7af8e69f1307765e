package org.flinkagents.durable;

import java.lang.reflect.Field;
import java.util.concurrent.RejectedExecutionException;
import org.apache.flink.api.common.operators.MailboxExecutor;
import org.apache.flink.streaming.runtime.io.DataInputStatus;
import org.apache.flink.streaming.runtime.io.StreamInputProcessor;
import org.apache.flink.streaming.runtime.tasks.StreamTask;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * Reads the barriers and channel ends that follow the last record, while the operator still waits
 * in {@code endInput}. Otherwise no checkpoint completes there once one subtask of a source has
 * finished and another has not: its end is never read. Keeps K1 and S9.
 *
 * <p>Flink has no interface for it, so that its input processor is taken by reflection; where that
 * fails, such checkpoints wait for the agents.
 */
final class RemainingInput {
    private static final Logger LOG = LoggerFactory.getLogger(RemainingInput.class);

    private final StreamInputProcessor input;
    private final MailboxExecutor mailbox;
    private boolean ended;

    private RemainingInput(StreamInputProcessor input, MailboxExecutor mailbox) {
        this.input = input;
        this.mailbox = mailbox;
        this.ended = input == null;
    }

    static RemainingInput of(StreamTask<?, ?> task, MailboxExecutor mailbox) {
        StreamInputProcessor input = null;
        try {
            Field field = StreamTask.class.getDeclaredField("inputProcessor");
            field.setAccessible(true);
            input = (StreamInputProcessor) field.get(task);
        } catch (ReflectiveOperationException | RuntimeException e) {
            LOG.warn("Checkpoints may wait for the agents at the end of the input", e);
        }
        return new RemainingInput(input, mailbox);
    }

    /** Reads what is there, and goes on when there is more. */
    void read() throws Exception {
        while (!ended && input.isAvailable()) {
            ended = input.processInput() == DataInputStatus.END_OF_INPUT;
        }
        if (!ended) {
            input.getAvailableFuture().thenRun(this::readLater);
        }
    }

    private void readLater() {
        try {
            mailbox.execute(this::read, "read barriers at the end of the input");
        } catch (RejectedExecutionException closed) {
            LOG.debug("Input after the mailbox was closed");
        }
    }

    /** The task reads its input itself again. */
    void stop() {
        ended = true;
    }
}
