package org.flinkagents.durable;

import org.apache.flink.configuration.CheckpointingOptions;
import org.apache.flink.configuration.Configuration;
import org.apache.flink.runtime.checkpoint.CheckpointType;
import org.apache.flink.runtime.execution.Environment;
import org.apache.flink.runtime.jobgraph.JobType;
import org.apache.flink.runtime.state.AbstractKeyedStateBackend;
import org.apache.flink.runtime.state.KeyedStateBackend;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/** Refuses at start what would fail, or be wrong, later. */
final class FlinkRequirements {
    private static final Logger LOG = LoggerFactory.getLogger(FlinkRequirements.class);

    private FlinkRequirements() {}

    static void check(Environment environment, KeyedStateBackend<?> backend) {
        refuseBatch(environment);
        refuseHeapTimersOnRocksDb(backend);
        warnWithoutUnalignedCheckpoints(environment.getJobConfiguration());
    }

    /** Keeps K8: in BATCH, setting the current key clears the state of the one before. */
    private static void refuseBatch(Environment environment) {
        if (environment.getJobType() == JobType.BATCH) {
            throw new IllegalStateException(
                    "Durable agents do not run in BATCH execution: set"
                            + " execution.runtime-mode to STREAMING");
        }
    }

    /** Flink writes such timers where this operator writes its log positions. */
    private static void refuseHeapTimersOnRocksDb(KeyedStateBackend<?> backend) {
        if (backend instanceof AbstractKeyedStateBackend
                && ((AbstractKeyedStateBackend<?>) backend)
                        .requiresLegacySynchronousTimerSnapshots(CheckpointType.CHECKPOINT)) {
            throw new IllegalStateException(
                    "Durable agents do not work with RocksDB state and timers on the heap: set"
                            + " state.backend.rocksdb.timer-service.factory to ROCKSDB");
        }
    }

    /** Keeps K1. */
    private static void warnWithoutUnalignedCheckpoints(Configuration job) {
        if (CheckpointingOptions.isCheckpointingEnabled(job)
                && !CheckpointingOptions.isUnalignedCheckpointEnabled(job)) {
            LOG.warn(
                    "Unaligned checkpoints are off: under back-pressure and at the end of the input"
                            + " no checkpoint completes while agents wait for calls. Set"
                            + " execution.checkpointing.unaligned.enabled to true");
        }
    }
}
