package org.flinkagents.durable;

import static org.flinkagents.durable.JavaAgents.input;
import static org.flinkagents.durable.JavaAgents.made;
import static org.flinkagents.durable.JavaAgents.open;
import static org.flinkagents.durable.JavaAgents.outputs;
import static org.flinkagents.durable.JavaAgents.plan;
import static org.flinkagents.durable.JavaAgents.sorted;
import static org.flinkagents.durable.JavaAgents.until;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.nio.file.Path;
import java.util.List;
import java.util.Map;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.io.TempDir;

/** Actions written in Java, in an operator with a real interpreter. */
@Timeout(180)
class JavaActionsTest {
    @TempDir private Path folder;

    @BeforeEach
    @AfterEach
    void reset() {
        JavaTestActions.reset();
    }

    @Test
    void f2ACallRunsAndItsValueComesBackAsItsClass() throws Exception {
        try (Harness harness = open(plan("bean", null, Map.of()))) {
            input(harness, "k");
            assertEquals(List.of("[\"tea\", 3, 3, -1]"), outputs(harness, 1));
        }
    }

    @Test
    void l1AndL2WhatWasFinishedIsNotCalledAgain() throws Exception {
        JavaTestActions.hold("kc");
        try (Harness harness = open(plan("steps", folder, Map.of()))) {
            input(harness, "k");
            outputs(harness, 2);
            until(harness, () -> made().contains("kc"));
        }
        JavaTestActions.reset();
        try (Harness harness = open(plan("steps", folder, Map.of()))) {
            input(harness, "k");
            assertEquals(List.of("\"ka!\"", "\"kb!\"", "\"kc!\""), outputs(harness, 3));
            assertEquals(List.of("kc"), made());
        }
    }

    @Test
    void l3ManyKeysWaitAtOnce() throws Exception {
        JavaTestActions.hold("xa");
        try (Harness harness = open(plan("steps", null, Map.of()))) {
            input(harness, "x");
            input(harness, "y");
            assertEquals(List.of("\"ya!\"", "\"yb!\"", "\"yc!\""), outputs(harness, 3));
            JavaTestActions.hold("xa").countDown();
            assertEquals(6, outputs(harness, 6).size());
        }
    }

    @Test
    void f1ToF6FuturesAreColdAndABatchComesInOrder() throws Exception {
        String expected = "[\"one!\", \"two!\", \"one!\", \"three!\", true, true, \"four!\"]";
        for (int attempt = 0; attempt < 2; attempt++) {
            try (Harness harness = open(plan("futures", folder, Map.of()))) {
                input(harness, "k");
                assertEquals(List.of(expected), outputs(harness, 1));
            }
            assertEquals(
                    attempt == 0 ? List.of("four", "one", "three", "two") : List.of(),
                    sorted(made()));
            JavaTestActions.reset();
        }
    }

    @Test
    void whatAnActionFindsAroundIt() throws Exception {
        try (Harness harness = open(plan("surroundings", null, Map.of()))) {
            input(harness, "k");
            List<String> out = outputs(harness, 2);
            assertEquals(
                    "{\"config\": {\"config_value\": 7}, \"fields\": {\"a\": \"NestedObject\"},"
                            + " \"input\": {\"n\": 1}, \"key\": \"k\", \"loader\": true, \"memory\":"
                            + " [1, 2], \"refused\": \"'a' is an object in memory; remove it, or"
                            + " set a field below it\", \"sensory\": true, \"workers\": 128}",
                    out.get(0));
            assertEquals(
                    "{\"python\": {\"count\": 1, \"item\": \"tea\", \"picture\":"
                            + " \"b'\\\\x00\\\\x01\\\\xff'\"}, \"type\": \"dict\"}",
                    out.get(1));
        }
    }

    @Test
    void d5TimeRandomNumbersAndIdsAreTheSameOnReplay() throws Exception {
        JavaTestActions.hold("held");
        String first;
        try (Harness harness = open(plan("same", folder, Map.of()))) {
            input(harness, "k");
            first = outputs(harness, 1).get(0);
            until(harness, () -> made().contains("held"));
        }
        JavaTestActions.reset();
        try (Harness harness = open(plan("same", folder, Map.of()))) {
            input(harness, "k");
            assertEquals(List.of(first, "\"end\""), outputs(harness, 2));
            assertEquals(List.of("held"), made());
        }
    }

    @Test
    void aPinnedFrameWaitsInPlaceAndReplays() throws Exception {
        JavaTestActions.hold("held");
        List<String> expected = List.of("\"inside\"", "[\"p1!\", \"p2!\", \"p3!\", 1, \"p4!\"]");
        try (Harness harness = open(plan("pinned", folder, Map.of()))) {
            input(harness, "k");
            assertEquals(expected, outputs(harness, 2));
            until(harness, () -> made().contains("held"));
        }
        JavaTestActions.reset();
        try (Harness harness = open(plan("pinned", folder, Map.of()))) {
            input(harness, "k");
            assertEquals(expected, outputs(harness, 3).subList(0, 2));
            assertEquals(List.of("held"), made());
        }
    }

    @Test
    void eventsCrossBetweenPythonAndJava() throws Exception {
        byte[] plan =
                plan(
                        List.of(
                                List.of(
                                        "answer",
                                        "to_java",
                                        JavaTestActions.class.getName(),
                                        "answer")),
                        Map.of(),
                        Map.of("greet", true));
        try (Harness harness = open(plan)) {
            input(harness, "k");
            String seen = outputs(harness, 1).get(0);
            assertTrue(seen.contains("\"bytes\": [0, -1]"), seen);
            assertTrue(seen.contains("\"pair\": [1, 2]"), seen);
            assertTrue(seen.contains("\"id\": true"), seen);
        }
    }

    @Test
    void p13AnActionThatMovesFromPythonToJavaIsAMismatchThatIsNamed() throws Exception {
        Map<String, Object> options =
                Map.of(
                        "agents.store.type", "sqlite",
                        "agents.store.sqlite.path", folder.toString(),
                        "agents.mismatch-policy", "fail",
                        "agents.job-id", "java");
        try (Harness harness = open(plan(List.of(), options, Map.of("python", true)))) {
            input(harness, "k");
            assertEquals(List.of("\"a?\""), outputs(harness, 1));
        }
        try (Harness harness = open(plan("steps", folder, Map.of("options", options)))) {
            Throwable end =
                    assertThrows(
                            Throwable.class,
                            () -> {
                                input(harness, "k");
                                outputs(harness, 1);
                            });
            String text = end + "" + end.getCause();
            assertTrue(text.contains("java_agents.remote"), text);
            assertTrue(text.contains("java:call"), text);
            assertEquals(List.of(), made());
        }
    }

    /** Where each action holds a thread, inputs behind as many as workers wait for their ends. */
    @Test
    void theFallbackIsBoundedByTheWorkers() throws Exception {
        List.of("x", "y").forEach(key -> JavaTestActions.hold(key + "a"));
        Thread opener =
                new Thread(
                        () -> {
                            while (!made().contains("ya")) {
                                Thread.onSpinWait();
                            }
                            List.of("x", "y")
                                    .forEach(k -> JavaTestActions.hold(k + "a").countDown());
                        });
        opener.setDaemon(true);
        opener.start();
        Map<String, Object> few = Map.of("options", Map.of("agents.call.workers", 2));
        try (Harness harness = open(plan("steps", null, few))) {
            input(harness, "x");
            input(harness, "y");
            if (Runtime.version().feature() < 21 || Runtime.version().feature() >= 24) {
                assertTrue(harness.emitted().size() >= 3, "one of them has ended");
            }
            assertEquals(6, outputs(harness, 6).size());
        }
        opener.join();
    }
}
