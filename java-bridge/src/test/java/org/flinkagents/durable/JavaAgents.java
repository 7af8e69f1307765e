package org.flinkagents.durable;

import static org.flinkagents.durable.Harness.bytes;

import java.io.File;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.file.Path;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.TimeUnit;
import java.util.function.BooleanSupplier;
import java.util.stream.Collectors;
import org.apache.flink.configuration.Configuration;
import org.apache.flink.python.PythonOptions;
import org.apache.flink.runtime.checkpoint.OperatorSubtaskState;
import org.apache.flink.shaded.jackson2.com.fasterxml.jackson.databind.ObjectMapper;
import org.apache.flink.streaming.runtime.streamrecord.StreamRecord;
import org.apache.flink.types.Row;

/** Operators with actions of {@link JavaTestActions}; the Python side is java_agents.py. */
final class JavaAgents {
    static final String PATH =
            new File("src/test/resources/python").getAbsolutePath()
                    + File.pathSeparator
                    + new File("..").getAbsolutePath();
    private static final long DEADLINE_NANOS = TimeUnit.SECONDS.toNanos(60);
    private static final ObjectMapper JSON = new ObjectMapper();

    static volatile Thread taskThread;

    private JavaAgents() {}

    /** The plan of an agent with one action for inputs, with a log in this folder, or without. */
    static byte[] plan(String method, Path folder, Map<String, ?> more) {
        return plan(List.of(onInput(JavaTestActions.class, method)), storedIn(folder), more);
    }

    /** The action that inputs trigger. */
    static List<String> onInput(Class<?> owner, String method) {
        return List.of("act", "_input_event", owner.getName(), method);
    }

    /** Options for a log in this folder; without one there is none. */
    static Map<String, Object> storedIn(Path folder) {
        return folder == null
                ? Map.of()
                : Map.of(
                        "agents.store.type", "sqlite",
                        "agents.store.sqlite.path", folder.toString(),
                        "agents.job-id", "java");
    }

    static byte[] plan(List<?> actions, Map<String, ?> options, Map<String, ?> more) {
        Map<String, Object> plan = new HashMap<>(more);
        Map<String, Object> all = new HashMap<>(options);
        Object added = plan.get("options");
        if (added != null) {
            ((Map<?, ?>) added).forEach((key, value) -> all.put((String) key, value));
        }
        plan.put("actions", actions);
        plan.put("options", all);
        try {
            return JSON.writeValueAsBytes(plan);
        } catch (IOException e) {
            throw new UncheckedIOException(e);
        }
    }

    static Harness open(byte[] plan) throws Exception {
        return open(plan, null);
    }

    static Harness open(byte[] plan, OperatorSubtaskState state) throws Exception {
        return open(plan, state, 1, 0);
    }

    static Harness open(byte[] plan, OperatorSubtaskState state, int subtasks, int subtask)
            throws Exception {
        AgentSpec spec = new AgentSpec("uid", plan, 1_000, 1_000);
        Harness harness = new Harness(spec, PemjaRuntime.factory("java_agents"), subtasks, subtask);
        configure(harness.getEnvironment().getJobConfiguration());
        if (state != null) {
            harness.initializeState(state);
        }
        harness.open();
        return harness;
    }

    static void configure(Configuration job) {
        job.set(PythonOptions.PYTHON_EXECUTABLE, PemjaRuntimeTest.PYTHON);
        job.set(PythonOptions.PYTHON_PATH, PATH);
    }

    /** Runs mails until there are so many outputs. */
    static List<String> outputs(Harness harness, int count) throws Exception {
        until(harness, () -> harness.getOutput().size() >= count);
        return harness.emitted();
    }

    static void until(Harness harness, BooleanSupplier condition) throws Exception {
        long start = System.nanoTime();
        while (!condition.getAsBoolean()) {
            if (System.nanoTime() - start > DEADLINE_NANOS) {
                throw new AssertionError(
                        "Not in time; emitted " + harness.emitted() + ", made " + made());
            }
            harness.getTaskMailbox()
                    .tryTake(-1)
                    .ifPresent(
                            mail -> {
                                try {
                                    mail.run();
                                } catch (Exception e) {
                                    throw new IllegalStateException(e);
                                }
                            });
            TimeUnit.MICROSECONDS.sleep(200);
        }
    }

    static List<String> made() {
        synchronized (JavaTestActions.MADE) {
            return List.copyOf(JavaTestActions.MADE);
        }
    }

    static void input(Harness harness, String key) throws Exception {
        harness.input(key, "{\"n\": 1}");
    }

    static void process(Harness harness, String key, byte[] json) throws Exception {
        harness.processElement(new StreamRecord<>(Row.of(bytes(key), json)));
    }

    static List<String> sorted(List<String> texts) {
        return texts.stream().sorted().collect(Collectors.toList());
    }

    static byte[] text(String text) {
        return bytes(text);
    }
}
