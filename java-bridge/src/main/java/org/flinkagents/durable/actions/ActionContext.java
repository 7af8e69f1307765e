package org.flinkagents.durable.actions;

import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.time.Instant;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Random;
import java.util.UUID;
import org.flinkagents.durable.api.CallOptions;
import org.flinkagents.durable.api.DurableCallable;
import org.flinkagents.durable.api.DurableExecutionException;
import org.flinkagents.durable.api.DurableFuture;
import org.flinkagents.durable.api.Event;
import org.flinkagents.durable.api.MemoryObject;
import org.flinkagents.durable.api.MetricGroup;
import org.flinkagents.durable.api.Outcome;
import org.flinkagents.durable.api.RunnerContext;
import org.flinkagents.durable.api.Values;
import org.slf4j.Logger;

/**
 * One execution of an action, as user code sees it. It waits for one thing at a time, so that an
 * answer needs no address; slots are taken in the order of first awaits.
 */
final class ActionContext extends RunnerContext {
    private final Execution execution;
    private final Map<String, Object> config;
    private final Object key;
    private final String runId;
    private final long id;
    private Random random;
    private int uuids;

    /** Takes what it was started with: key, run id, its own id, configuration. */
    ActionContext(Execution execution, Unpacker message) {
        this.execution = execution;
        this.key = message.value();
        this.runId = message.text();
        this.id = message.number();
        this.config = message.map();
    }

    // ---- durable calls

    @Override
    public <T> DurableFuture<T> durableExecuteAsync(
            DurableCallable<T> callable, CallOptions options) {
        execution.check("ctx.durableExecuteAsync");
        return execution.future(callable, options);
    }

    @Override
    public <T> DurableFuture<T> callToolAsync(
            String tool, Map<String, ?> arguments, Class<T> resultClass) {
        execution.check("ctx.callToolAsync");
        return execution.future(new ToolCall<>(tool, arguments, resultClass), CallOptions.DEFAULT);
    }

    @Override
    public <T> T durableExecute(DurableCallable<T> callable, CallOptions options) throws Exception {
        execution.check("ctx.durableExecute");
        FutureImpl<T> future = execution.future(callable, options);
        execution.executeInPlace(future);
        return valueOf(future);
    }

    @Override
    public <T> T await(DurableFuture<T> future) throws Exception {
        execution.check("ctx.await");
        FutureImpl<T> own = own(future);
        if (!own.isDone()) {
            execution.await(own);
        }
        return valueOf(own);
    }

    @Override
    public <T> List<Outcome<T>> gatherAll(
            Duration timeout, List<? extends DurableFuture<? extends T>> futures) throws Exception {
        execution.check("ctx.gather");
        List<FutureImpl<?>> batch = new ArrayList<>();
        for (DurableFuture<?> future : futures) {
            FutureImpl<?> own = own(future);
            if (!own.isCold() || batch.contains(own)) {
                throw new IllegalArgumentException(
                        "ctx.gather: argument "
                                + (batch.size() + 1)
                                + ", "
                                + own
                                + (own.isCold() ? ", is given twice" : ", was awaited already")
                                + "; nothing was reserved");
            }
            batch.add(own);
        }
        if (!batch.isEmpty()) {
            execution.gather(batch, timeout);
        }
        List<Outcome<T>> outcomes = new ArrayList<>();
        for (FutureImpl<?> future : batch) {
            outcomes.add(outcomeOf(future));
        }
        return outcomes;
    }

    @SuppressWarnings("unchecked")
    private static <T> Outcome<T> outcomeOf(FutureImpl<?> future) {
        return (Outcome<T>) future.outcome();
    }

    private static <T> T valueOf(FutureImpl<T> future) throws Exception {
        Outcome<T> outcome = future.outcome();
        return outcome.getValue();
    }

    private <T> FutureImpl<T> own(DurableFuture<T> future) {
        if (!(future instanceof FutureImpl) || ((FutureImpl<T>) future).owner != this) {
            throw new IllegalArgumentException(
                    future + " belongs to another action execution; nothing was reserved");
        }
        return (FutureImpl<T>) future;
    }

    @Override
    public void sleep(Duration duration) throws InterruptedException {
        execution.check("ctx.sleep");
        if (!duration.isNegative() && !duration.isZero()) {
            execution.sleep(duration);
        }
    }

    // ---- events and memory

    @Override
    public void sendEvent(Event event) {
        execution.check("ctx.sendEvent");
        execution.send(event);
    }

    @Override
    public MemoryObject getShortTermMemory() {
        return new Memory(execution, "short", "");
    }

    @Override
    public MemoryObject getSensoryMemory() {
        return new Memory(execution, "sensory", "");
    }

    // ---- what replays the same

    @Override
    public Object getKey() {
        return key;
    }

    @Override
    public String getRunId() {
        return runId;
    }

    @Override
    public Instant now() {
        execution.check("ctx.now");
        return Instant.ofEpochMilli((Long) execution.ask("now"));
    }

    @Override
    public Random random() {
        execution.check("ctx.random");
        if (random == null) {
            random = new Random(id);
        }
        return random;
    }

    @Override
    public UUID uuid() {
        execution.check("ctx.uuid");
        String name = "uuid " + Long.toHexString(id) + " " + ++uuids;
        return UUID.nameUUIDFromBytes(name.getBytes(StandardCharsets.UTF_8));
    }

    // ---- surroundings

    @Override
    public Map<String, Object> getActionConfig() {
        return config;
    }

    @Override
    public Object getConfigValue(String name) {
        execution.check("ctx.getConfigValue");
        return execution.ask("config", name);
    }

    @Override
    public MetricGroup getAgentMetricGroup() {
        return new Metrics(execution, false, List.of());
    }

    @Override
    public MetricGroup getActionMetricGroup() {
        return new Metrics(execution, true, List.of());
    }

    @Override
    public Logger getLogger() {
        return ReplayAwareLogger.of(execution, String.valueOf(key));
    }

    /**
     * Memory below one path; every access is answered at once, so that errors come at their place.
     */
    private static final class Memory implements MemoryObject {
        private static final String OBJECT = "\0object";

        private final Execution execution;
        private final String scope;
        private final String prefix;

        Memory(Execution execution, String scope, String prefix) {
            this.execution = execution;
            this.scope = scope;
            this.prefix = prefix;
        }

        private Object ask(String operation, Object... more) {
            execution.check("memory");
            Object[] question = new Object[3 + more.length];
            question[0] = scope;
            question[1] = operation;
            question[2] = prefix;
            System.arraycopy(more, 0, question, 3, more.length);
            return execution.ask("memory", question);
        }

        private Memory below(String path) {
            return new Memory(execution, scope, prefix + path + ".");
        }

        @Override
        public Object get(String path) {
            Object value = ask("get", path);
            return OBJECT.equals(value) ? below(path) : value;
        }

        @Override
        public <T> T get(String path, Class<T> type) {
            Object value = get(path);
            if (value instanceof Memory) {
                throw new DurableExecutionException(path + " is an object in memory, no value");
            }
            return Values.convert(value, type);
        }

        @Override
        public void set(String path, Object value) {
            ask("set", path, value);
        }

        @Override
        public boolean isExist(String path) {
            return (Boolean) ask("is_exist", path);
        }

        @Override
        public void remove(String path) {
            ask("remove", path);
        }

        @Override
        public MemoryObject newObject(String path, boolean overwrite) {
            ask("new_object", path, overwrite);
            return below(path);
        }

        @Override
        @SuppressWarnings("unchecked")
        public List<String> getFieldNames() {
            return (List<String>) ask("get_field_names");
        }

        @Override
        @SuppressWarnings("unchecked")
        public Map<String, Object> getFields() {
            return (Map<String, Object>) ask("get_fields");
        }
    }

    /** Updates cross with the commands of their step. */
    private static final class Metrics implements MetricGroup {
        private final Execution execution;
        private final boolean ofAction;
        private final List<String> path;

        Metrics(Execution execution, boolean ofAction, List<String> path) {
            this.execution = execution;
            this.ofAction = ofAction;
            this.path = path;
        }

        @Override
        public MetricGroup getSubGroup(String name) {
            List<String> below = new ArrayList<>(path);
            below.add(name);
            return new Metrics(execution, ofAction, below);
        }

        @Override
        public void count(String counter, long n) {
            update("counter", counter, n);
        }

        @Override
        public void mark(String meter, long n) {
            update("meter", meter, n);
        }

        @Override
        public void gauge(String gauge, Object value) {
            update("gauge", gauge, value);
        }

        @Override
        public void histogram(String histogram, long value) {
            update("histogram", histogram, value);
        }

        private void update(String kind, String name, Object value) {
            execution.check("a metric");
            execution.metric(ofAction, path, kind, name, value);
        }
    }
}
