package org.flinkagents.durable;

import java.util.ArrayDeque;
import java.util.HashMap;
import java.util.Map;
import java.util.Queue;
import java.util.concurrent.RejectedExecutionException;
import java.util.concurrent.ScheduledFuture;
import java.util.concurrent.atomic.AtomicBoolean;
import org.apache.flink.api.common.TaskInfo;
import org.apache.flink.api.common.eventtime.TimestampAssigner;
import org.apache.flink.api.common.operators.MailboxExecutor;
import org.apache.flink.configuration.CheckpointingOptions;
import org.apache.flink.configuration.Configuration;
import org.apache.flink.configuration.DeploymentOptions;
import org.apache.flink.runtime.checkpoint.CheckpointOptions;
import org.apache.flink.runtime.checkpoint.SavepointType;
import org.apache.flink.runtime.checkpoint.SnapshotType;
import org.apache.flink.runtime.execution.Environment;
import org.apache.flink.runtime.state.CheckpointStreamFactory;
import org.apache.flink.runtime.state.CheckpointableKeyedStateBackend;
import org.apache.flink.runtime.state.KeyGroupRange;
import org.apache.flink.runtime.state.StateInitializationContext;
import org.apache.flink.runtime.state.StateSnapshotContext;
import org.apache.flink.streaming.api.operators.AbstractStreamOperator;
import org.apache.flink.streaming.api.operators.BoundedOneInput;
import org.apache.flink.streaming.api.operators.OneInputStreamOperator;
import org.apache.flink.streaming.api.operators.OperatorSnapshotFutures;
import org.apache.flink.streaming.api.operators.StreamOperatorParameters;
import org.apache.flink.streaming.api.watermark.Watermark;
import org.apache.flink.streaming.runtime.streamrecord.StreamRecord;
import org.apache.flink.streaming.runtime.watermarkstatus.WatermarkStatus;
import org.apache.flink.types.Row;
import org.apache.flink.util.Preconditions;
import org.apache.flink.util.function.ThrowingRunnable;

/**
 * Gives the Python engine what only Flink can give, and emits what the engine returns. It decides
 * nothing about agents.
 */
final class DurableAgentOperator extends AbstractStreamOperator<byte[]>
        implements OneInputStreamOperator<Row, byte[]>, BoundedOneInput {
    private static final long serialVersionUID = 1L;

    /** Lets checkpoints run while this operator yields (K1). */
    private static final int LOWEST_PRIORITY = -1;

    /** Bounds how long an input holds back aligned barriers, which cannot pass a yield (K1). */
    private static final long YIELD_LIMIT_MILLIS = 1_000;

    /** Between two steps of a walk over all keys, so that it takes a small part of the time. */
    private static final long SWEEP_PAUSE_MILLIS = 20;

    private static final int CHECKPOINT = 0;
    private static final int SAVEPOINT = 1;
    private static final int STOP_SAVEPOINT = 2;

    /** Arguments of {@code process}. */
    private static final int INPUT_WIDTH = 5;

    private static final long MORE_WORK = 1;
    private static final long WRITE_DIRTY_KEYS = 2;
    private static final int RESULT_HEADER = 3;

    private static final long NOT_STOPPED = -1;

    private final AgentSpec spec;
    private final PythonRuntimeFactory runtimes;
    private final AtomicBoolean drainPosted = new AtomicBoolean();
    private final Queue<ThrowingRunnable<Exception>> heldWhileStopped = new ArrayDeque<>();

    private transient MailboxExecutor mailbox;
    private transient AgentState state;
    private transient AgentMetrics agentMetrics;
    private transient AgentHost host;
    private transient PythonRuntime runtime;
    private transient Map<Integer, byte[]> restoredGroups;
    private transient boolean restored;
    private transient long restoredCheckpointId;

    /** As Python reported them last: inputs that count for back-pressure, all unfinished runs. */
    private transient long inFlight;

    private transient KeySweep sweep;
    private transient long sweepInterval;

    private transient long live;

    private transient InputBatch inputs;
    private transient boolean inputsAwaited;
    private transient boolean inPython;
    private transient boolean emitting;
    private transient boolean drainDeferred;
    private transient boolean finished;
    private transient int snapshotKind;
    private transient long stoppedBy;
    private transient boolean stopCompleted;

    DurableAgentOperator(
            StreamOperatorParameters<byte[]> parameters,
            AgentSpec spec,
            PythonRuntimeFactory runtimes) {
        super(parameters); // sets processing-time service and mailbox (K12)
        this.spec = spec;
        this.runtimes = runtimes;
    }

    // ---------------------------------------------------------------- life

    @Override
    protected boolean isUsingCustomRawKeyedState() {
        return true;
    }

    @Override
    public void initializeState(StateInitializationContext context) throws Exception {
        super.initializeState(context);
        restored = context.isRestored();
        restoredCheckpointId = context.getRestoredCheckpointId().orElse(-1);
        restoredGroups = KeyGroupBlobs.read(context.getRawKeyedStateInputs());
    }

    @Override
    public void open() throws Exception {
        super.open();
        Environment environment = getContainingTask().getEnvironment();
        FlinkRequirements.check(environment, getKeyedStateBackend());
        if (spec.deadLetters) {
            DeadLetters.checkConnected(spec.uid, getOperatorConfig(), getUserCodeClassloader());
        }
        stoppedBy = NOT_STOPPED;
        inputs = new InputBatch(spec.inputBatch, INPUT_WIDTH);
        mailbox = getContainingTask().getMailboxExecutorFactory().createExecutor(LOWEST_PRIORITY);
        agentMetrics = new AgentMetrics(getMetricGroup());
        state =
                new AgentState(
                        (CheckpointableKeyedStateBackend<String>)
                                this.<String>getKeyedStateBackend(),
                        getKeyedStateStore(),
                        getRuntimeContext().getTaskInfo().getMaxNumberOfParallelSubtasks());
        host = new AgentHost(this);
        runtime =
                runtimes.open(
                        getContainingTask(), getRuntimeContext(), host, settings(environment));
        for (Map.Entry<Integer, byte[]> group : restoredGroups.entrySet()) {
            python("restore_group", group.getKey(), group.getValue());
        }
        restoredGroups = null;
        for (String key : state.activeKeys()) {
            python(
                    "restore_key",
                    EncodedKeySelector.toBytes(key),
                    state.keyGroup(key),
                    state.load(key));
        }
        step("start");
        Object interval = python("sweep_interval");
        if (interval != null) {
            sweep = new KeySweep(state);
            sweepInterval = (Long) interval;
            sweepIn(sweepInterval);
        }
    }

    private Map<String, Object> settings(Environment environment) {
        TaskInfo task = getRuntimeContext().getTaskInfo();
        KeyGroupRange groups = state.keyGroups();
        Configuration job = environment.getJobConfiguration();
        Map<String, Object> settings = new HashMap<>();
        settings.put("job_id", environment.getJobID().toHexString());
        settings.put("job_name", getRuntimeContext().getJobInfo().getJobName());
        settings.put("uid", spec.uid);
        settings.put("subtask", task.getIndexOfThisSubtask());
        settings.put("parallelism", task.getNumberOfParallelSubtasks());
        settings.put("max_parallelism", task.getMaxNumberOfParallelSubtasks());
        settings.put("first_group", groups.getStartKeyGroup());
        settings.put("last_group", groups.getEndKeyGroup());
        settings.put("attempt", task.getAttemptNumber());
        settings.put("restored", restored);
        settings.put("restored_checkpoint_id", restoredCheckpointId);
        settings.put("plan", spec.plan);
        settings.put("close_timeout_millis", spec.closeTimeoutMillis);
        Configuration taskManager = environment.getTaskManagerInfo().getConfiguration();
        settings.put(
                "num_retained",
                job.getOptional(CheckpointingOptions.MAX_RETAINED_CHECKPOINTS)
                        .orElse(taskManager.get(CheckpointingOptions.MAX_RETAINED_CHECKPOINTS)));
        settings.put("store_properties", storeProperties(job));
        settings.put("local", "local".equals(job.get(DeploymentOptions.TARGET)));
        settings.put("unaligned", CheckpointingOptions.isUnalignedCheckpointEnabled(job));
        return settings;
    }

    /** Properties of store clients: they may be secrets, and so are not in the plan. */
    private static Map<String, Object> storeProperties(Configuration job) {
        Map<String, Object> properties = new HashMap<>(job.toMap());
        properties
                .keySet()
                .removeIf(key -> !key.matches("agents\\.store\\.\\w+\\.properties\\..+"));
        return properties;
    }

    @Override
    public void finish() throws Exception {
        python("finish");
        finished = true;
        super.finish();
    }

    @Override
    public void close() throws Exception {
        try {
            if (runtime != null) {
                runtime.close();
            }
        } finally {
            if (sweep != null) {
                sweep.close();
            }
            if (host != null) {
                host.release();
            }
            super.close();
        }
    }

    // ---------------------------------------------------------------- input

    @Override
    public void processElement(StreamRecord<Row> record) throws Exception {
        String key = (String) getCurrentKey();
        byte[] encoded = (byte[]) record.getValue().getField(0);
        byte[] awakened = AwakeableRows.resolutionIn(record.getValue());
        if (awakened != null) {
            awaken(key, encoded, awakened);
            return;
        }
        byte[] payload = (byte[]) record.getValue().getField(1);
        long time = record.getTimestamp();
        Long timestamp = time == TimestampAssigner.NO_TIMESTAMP ? null : Long.valueOf(time);
        byte[] sequence = state.currentSequence();
        Object[] arguments = {encoded, state.keyGroup(key), payload, timestamp, sequence};
        if (inputs.add(arguments)) {
            admitInputs();
        } else {
            admitInputsSoon();
        }
        awaitCapacity();
    }

    /** Passes the inputs of its key, whose run may wait for it, and is never held back by them. */
    private void awaken(String key, byte[] encoded, byte[] resolution) throws Exception {
        admitInputs();
        Object[] arguments = {encoded, state.keyGroup(key), resolution, state.currentSequence()};
        unlessStopped(() -> step("awaken", arguments));
    }

    private void admitInputs() throws Exception {
        if (inputs.isEmpty()) {
            return;
        }
        boolean single = inputs.isSingle();
        Object[] flat = inputs.take();
        unlessStopped(
                () -> {
                    if (single) {
                        step("process", flat);
                    } else {
                        step("process_batch", new Object[] {flat});
                    }
                });
    }

    private void admitInputsSoon() {
        if (!inputsAwaited) {
            inputsAwaited = true;
            long now = getProcessingTimeService().getCurrentProcessingTime();
            getProcessingTimeService()
                    .registerTimer(
                            now + InputBatch.LINGER_MILLIS,
                            time -> {
                                inputsAwaited = false;
                                if (inPython || emitting) {
                                    admitInputsSoon(); // a yield further down the chain
                                } else {
                                    admitInputs();
                                }
                            });
        }
    }

    /** The input is in the engine by now, so that a checkpoint in here has it. Keeps K1. */
    private void awaitCapacity() throws Exception {
        long capacity = host.capacity(spec.maxInFlight);
        if (inFlight < capacity) {
            return;
        }
        admitInputs();
        AtomicBoolean over = new AtomicBoolean();
        long limit = getProcessingTimeService().getCurrentProcessingTime() + YIELD_LIMIT_MILLIS;
        ScheduledFuture<?> timer =
                getProcessingTimeService().registerTimer(limit, time -> over.set(true));
        while (inFlight >= capacity && !over.get()) {
            mailbox.yield();
        }
        timer.cancel(false);
    }

    /** Never overtakes the inputs before it. Keeps S8 and K4. */
    @Override
    public void processWatermark(Watermark mark) throws Exception {
        admitInputs();
        unlessStopped(
                () -> {
                    if (live == 0) {
                        output.emitWatermark(mark);
                    } else {
                        step("watermark", mark.getTimestamp());
                    }
                });
    }

    @Override
    public void processWatermarkStatus(WatermarkStatus status) throws Exception {
        admitInputs();
        unlessStopped(
                () -> {
                    if (live == 0) {
                        output.emitWatermarkStatus(status);
                    } else {
                        step("watermark_status", status.isActive());
                    }
                });
    }

    @Override
    public void endInput() throws Exception {
        admitInputs();
        step("end_input");
        if (live == 0) {
            return;
        }
        RemainingInput remaining = RemainingInput.of(getContainingTask(), mailbox);
        remaining.read();
        while (live > 0 && !stopCompleted) {
            mailbox.yield();
        }
        remaining.stop();
    }

    // ---------------------------------------------------------------- steps of the engine

    /** Any thread; one mail for however many wake-ups. Keeps K11. */
    void wake() {
        if (drainPosted.compareAndSet(false, true)) {
            try {
                mailbox.execute(this::drain, "drain durable agents");
            } catch (RejectedExecutionException closed) {
                LOG.debug("Wake-up after the mailbox was closed");
            }
        }
    }

    private void drain() throws Exception {
        drainPosted.set(false);
        if (inPython || emitting) {
            drainDeferred =
                    true; // a yield further down the chain; posted again when this step ends
        } else if (!isStopped() && !finished) {
            step("drain");
        }
    }

    private void step(String method, Object... arguments) throws Exception {
        Object result = python(method, arguments);
        if (result != null) {
            apply(PythonValues.array(result));
        }
    }

    /** The task thread is never twice in Python. Keeps K2. */
    private Object python(String method, Object... arguments) throws Exception {
        Preconditions.checkState(!inPython, "Python was entered from inside a Python call");
        inPython = true;
        try {
            Object result = runtime.call(method, arguments);
            host.rethrow();
            return result;
        } catch (Exception e) {
            host.rethrow();
            throw e;
        } finally {
            inPython = false;
            postDeferredDrain();
        }
    }

    private void apply(Object[] result) throws Exception {
        inFlight = (Long) result[0];
        live = (Long) result[1];
        long flags = (Long) result[2];
        emit(result);
        if ((flags & WRITE_DIRTY_KEYS) != 0) {
            state.update(PythonValues.array(python("flush"))); // K6: little is left for a snapshot
        }
        if ((flags & MORE_WORK) != 0) {
            wake();
        }
    }

    private void emit(Object[] result) {
        emitting = true;
        for (int i = RESULT_HEADER; i < result.length; i++) {
            Object item = result[i];
            if (item instanceof byte[]) {
                output.collect(record((byte[]) item, (Long) result[++i]));
            } else if (item instanceof Object[]) {
                emitDeadLetter((Object[]) item);
            } else if (item instanceof Long) {
                output.emitWatermark(new Watermark((Long) item));
            } else {
                output.emitWatermarkStatus(
                        (Boolean) item ? WatermarkStatus.ACTIVE : WatermarkStatus.IDLE);
            }
        }
        emitting = false;
        postDeferredDrain();
    }

    private void emitDeadLetter(Object[] pair) {
        output.collect(DeadLetters.TAG, record((byte[]) pair[0], (Long) pair[1]));
    }

    private static StreamRecord<byte[]> record(byte[] value, Long timestamp) {
        return timestamp == null ? new StreamRecord<>(value) : new StreamRecord<>(value, timestamp);
    }

    private void postDeferredDrain() {
        if (drainDeferred) {
            drainDeferred = false;
            wake();
        }
    }

    Object javaAgent() {
        return spec.javaAgent;
    }

    AgentState state() {
        return state;
    }

    AgentMetrics agentMetrics() {
        return agentMetrics;
    }

    // ---------------------------------------------------------------- expiry

    private void sweepIn(long millis) {
        long now = getProcessingTimeService().getCurrentProcessingTime();
        getProcessingTimeService().registerTimer(now + millis, time -> sweepSomeKeys());
    }

    /**
     * Drops what has expired of some keys; between two such steps everything else goes on. Keeps
     * P25.
     */
    private void sweepSomeKeys() throws Exception {
        if (finished) {
            return;
        }
        if (inPython || emitting || isStopped()) {
            sweepIn(SWEEP_PAUSE_MILLIS); // a yield further down the chain
            return;
        }
        Object[] keys = sweep.next();
        if (keys.length > 0) {
            state.update(PythonValues.array(python("forget", new Object[] {keys})));
        }
        sweepIn(keys.length > 0 ? SWEEP_PAUSE_MILLIS : sweepInterval);
    }

    // ---------------------------------------------------------------- snapshots

    @Override
    public OperatorSnapshotFutures snapshotState(
            long checkpointId,
            long timestamp,
            CheckpointOptions options,
            CheckpointStreamFactory factory)
            throws Exception {
        snapshotKind = kind(options.getCheckpointType());
        OperatorSnapshotFutures futures =
                super.snapshotState(checkpointId, timestamp, options, factory);
        if (snapshotKind == STOP_SAVEPOINT) {
            stoppedBy = checkpointId;
        }
        return futures;
    }

    private static int kind(SnapshotType type) {
        if (!type.isSavepoint()) {
            return CHECKPOINT;
        }
        return type instanceof SavepointType && ((SavepointType) type).isSynchronous()
                ? STOP_SAVEPOINT
                : SAVEPOINT;
    }

    /** Steps nothing and emits nothing: the barrier has gone. Keeps K6. */
    @Override
    public void snapshotState(StateSnapshotContext context) throws Exception {
        Preconditions.checkState(!emitting, "A snapshot while outputs are being emitted");
        super.snapshotState(context);
        Object answer = python("snapshot", context.getCheckpointId(), snapshotKind);
        if (answer instanceof String) {
            throw new IllegalStateException((String) answer); // the text of a Python failure
        }
        Object[] result = PythonValues.array(answer);
        state.update(PythonValues.array(result[1]));
        KeyGroupBlobs.write(
                context.getRawKeyedOperatorStateOutput(),
                state.keyGroups(),
                PythonValues.array(result[0]));
    }

    @Override
    public void notifyCheckpointComplete(long checkpointId) throws Exception {
        super.notifyCheckpointComplete(checkpointId);
        python("completed", checkpointId);
        stopCompleted |= checkpointId == stoppedBy;
    }

    @Override
    public void notifyCheckpointAborted(long checkpointId) throws Exception {
        super.notifyCheckpointAborted(checkpointId);
        python("aborted", checkpointId);
        if (checkpointId == stoppedBy) {
            resume();
        }
    }

    /** A later snapshot says that the stop was aborted, also where its notification was lost. */
    @Override
    public void prepareSnapshotPreBarrier(long checkpointId) throws Exception {
        super.prepareSnapshotPreBarrier(checkpointId);
        admitInputs();
        if (isStopped()) {
            python("aborted", stoppedBy);
            resume();
        }
    }

    private boolean isStopped() {
        return stoppedBy != NOT_STOPPED;
    }

    /** After the savepoint of a stop nothing starts and nothing is emitted. Keeps K7. */
    private void unlessStopped(ThrowingRunnable<Exception> action) throws Exception {
        if (isStopped()) {
            heldWhileStopped.add(action);
        } else {
            action.run();
        }
    }

    private void resume() throws Exception {
        stoppedBy = NOT_STOPPED;
        while (!heldWhileStopped.isEmpty()) {
            heldWhileStopped.remove().run();
        }
        wake();
    }
}
