package org.flinkagents.durable.actions;

import org.junit.jupiter.api.Test;

/** What it costs to suspend an action and to resume it: {@code mvn test -Dtest=CoroutinesBench}. */
class CoroutinesBench {
    private static final int TIMES = 200_000;

    @Test
    void suspendAndResume() {
        for (int round = 0; round < 5; round++) {
            Coroutine[] self = new Coroutine[1];
            self[0] =
                    Coroutines.make(
                            () -> {
                                for (int time = 0; time < TIMES; time++) {
                                    self[0].suspend();
                                }
                            });
            self[0].resume();
            long start = System.nanoTime();
            for (int time = 0; time < TIMES; time++) {
                self[0].resume();
            }
            System.out.printf(
                    "FIGURE JDK %d: %.2f us to suspend and to resume%n",
                    Runtime.version().feature(), (System.nanoTime() - start) / 1e3 / TIMES);
        }
    }
}
