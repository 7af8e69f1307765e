package org.flinkagents.durable;

import static org.flinkagents.durable.JavaAgents.plan;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.Map;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.Test;

/** Figures of Java actions, without a store: {@code mvn test -Dtest=JavaActionsBench}. */
class JavaActionsBench {
    private static final int KEYS = 200;
    private static final int CALLS = 250;
    private static final int WAITING = 10_000;

    @Test
    void callsInASecond() throws Exception {
        for (int round = 0; round < 3; round++) {
            try (Harness harness = JavaAgents.open(plan("busy", null, Map.of()))) {
                long start = System.nanoTime();
                for (int key = 0; key < KEYS; key++) {
                    harness.input("k" + key, "{\"n\": " + CALLS + "}");
                }
                run(harness, KEYS);
                double seconds = (System.nanoTime() - start) / 1e9;
                harness.getOutput().clear();
                double crossing = crossing(harness);
                report(
                        "%,.0f durable calls a second, %.1f us each; a bare crossing takes %.1f us",
                        KEYS * CALLS / seconds, seconds * 1e6 / (KEYS * CALLS), crossing * 1e6);
            }
        }
    }

    private static double crossing(Harness harness) throws Exception {
        harness.input("k", "{\"crossings\": 20000}");
        return Double.parseDouble(JavaAgents.outputs(harness, 1).get(0));
    }

    @Test
    void actionsThatWait() throws Exception {
        for (int round = 0; round < 3; round++) {
            try (Harness harness = JavaAgents.open(plan("waiting", null, Map.of()))) {
                long start = System.nanoTime();
                for (int key = 0; key < WAITING; key++) {
                    JavaAgents.input(harness, "k" + key);
                }
                double admitted = (System.nanoTime() - start) / 1e9;
                run(harness, WAITING);
                double seconds = (System.nanoTime() - start) / 1e9;
                report(
                        "%d actions that wait 0.5 s: %.2f s, admitted in %.2f",
                        WAITING, seconds, admitted);
            }
        }
    }

    /** Mail by mail, as the task does. */
    private static void run(Harness harness, int outputs) throws Exception {
        long start = System.nanoTime();
        while (harness.getOutput().size() < outputs) {
            assertTrue(System.nanoTime() - start < TimeUnit.MINUTES.toNanos(2));
            harness.getTaskMailbox().take(-1).run();
        }
    }

    private static void report(String format, Object... values) {
        System.out.printf("FIGURE JDK %s: " + format + "%n", concat(values));
    }

    private static Object[] concat(Object[] values) {
        Object[] all = new Object[values.length + 1];
        all[0] = Runtime.version().feature();
        System.arraycopy(values, 0, all, 1, values.length);
        return all;
    }
}
