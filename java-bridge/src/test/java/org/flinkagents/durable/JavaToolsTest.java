package org.flinkagents.durable;

import static org.flinkagents.durable.JavaAgents.input;
import static org.flinkagents.durable.JavaAgents.made;
import static org.flinkagents.durable.JavaAgents.open;
import static org.flinkagents.durable.JavaAgents.outputs;
import static org.flinkagents.durable.JavaAgents.plan;
import static org.flinkagents.durable.JavaAgents.sorted;
import static org.flinkagents.durable.JavaAgents.until;
import static org.junit.jupiter.api.Assertions.assertEquals;

import java.nio.file.Path;
import java.util.List;
import java.util.Map;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.io.TempDir;

/** Durable calls across the languages. */
@Timeout(180)
class JavaToolsTest {
    @TempDir private Path folder;

    @BeforeEach
    @AfterEach
    void reset() {
        JavaTestActions.reset();
    }

    @Test
    void aJavaActionCallsToolsOfPython() throws Exception {
        String expected =
                "[{\"point\": {\"x\": 1, \"y\": 2}, \"total\": 6}, 6, \"java!\", \"refused\"]";
        twice(plan("tools", folder, Map.of()), expected, List.of("held", "java"));
    }

    @Test
    void aPythonActionCallsJava() throws Exception {
        String expected =
                "[3, 23, [\"java.lang.IllegalArgumentException: why\","
                        + " \"java.lang.IllegalArgumentException\"], 34, {\"bytes\": \"b'\\\\x01'\","
                        + " \"norm\": 7}, \"python?\"]";
        Map<String, Object> options =
                Map.of(
                        "agents.store.type", "sqlite",
                        "agents.store.sqlite.path", folder.toString(),
                        "agents.job-id", "java");
        twice(
                plan(List.of(), options, Map.of("use_java", true)),
                expected,
                List.of("add", "add", "add", "held", "norm", "refuse"));
    }

    /** The second attempt replays all but the last call, which the first one did not end. */
    private static void twice(byte[] plan, String expected, List<String> calls) throws Exception {
        JavaTestActions.hold("held");
        try (Harness harness = open(plan)) {
            input(harness, "k");
            assertEquals(List.of(expected), outputs(harness, 1));
            until(harness, () -> made().contains("held"));
            assertEquals(calls, sorted(made()));
        }
        JavaTestActions.reset();
        try (Harness harness = open(plan)) {
            input(harness, "k");
            assertEquals(List.of(expected, "\"end\""), outputs(harness, 2));
            assertEquals(List.of("held"), made());
        }
    }
}
