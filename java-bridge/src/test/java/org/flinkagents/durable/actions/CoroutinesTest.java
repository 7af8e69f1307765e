package org.flinkagents.durable.actions;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNotNull;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertSame;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.ArrayList;
import java.util.List;
import java.util.Queue;
import java.util.concurrent.ConcurrentLinkedQueue;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.atomic.AtomicReference;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;

/** How an action waits: on each JVM that the suite runs on, the way that is meant for it. */
@Timeout(60)
class CoroutinesTest {
    private static final int VERSION = Runtime.version().feature();
    private static final boolean HAS_CONTINUATIONS = VERSION >= 21 && VERSION < 24;

    /** Under Flink's stock options; else every other test here would silently be one of threads. */
    @Test
    void continuationsAreUsedOnJdk21To23AndThreadsElsewhere() {
        if (HAS_CONTINUATIONS) {
            assertNull(ContinuationCoroutine.problem());
        } else {
            assertNotNull(ContinuationCoroutine.problem());
        }
        assertEquals(HAS_CONTINUATIONS, Coroutines.useContinuations());
        AtomicReference<Thread> body = new AtomicReference<>();
        Coroutines.make(() -> body.set(Thread.currentThread())).resume();
        assertEquals(HAS_CONTINUATIONS, body.get() == Thread.currentThread());
    }

    @Test
    void aBodySuspendsAndGoesOn() {
        check(Coroutines::make);
        check(ThreadCoroutine::new);
    }

    private interface Maker {
        Coroutine make(Runnable body);
    }

    private static void check(Maker maker) {
        List<String> seen = new ArrayList<>();
        Coroutine[] self = new Coroutine[1];
        self[0] =
                maker.make(
                        () -> {
                            seen.add("begun");
                            assertTrue(self[0].suspend());
                            seen.add("resumed");
                        });
        self[0].resume();
        assertEquals(List.of("begun"), seen);
        self[0].resume();
        assertEquals(List.of("begun", "resumed"), seen);
    }

    /** On 21 a monitor pins, later it does not; a thread is never pinned. */
    @Test
    void aMonitorPinsOnJdk21Alone() {
        boolean[] suspended = new boolean[1];
        Coroutine[] self = new Coroutine[1];
        self[0] =
                Coroutines.make(
                        () -> {
                            synchronized (new Object()) {
                                suspended[0] = self[0].suspend();
                            }
                        });
        self[0].resume();
        if (HAS_CONTINUATIONS) {
            assertFalse(suspended[0]);
        } else {
            self[0].resume();
            assertTrue(suspended[0]);
        }
    }

    @Test
    void anInterruptOfTheTaskReachesTheBody() {
        List<Boolean> seen = new ArrayList<>();
        Coroutine coroutine = new ThreadCoroutine(() -> seen.add(slept()));
        Thread.currentThread().interrupt();
        coroutine.resume();
        assertSame(Boolean.FALSE, seen.get(0));
        assertTrue(Thread.interrupted(), "the task keeps its flag");
    }

    private static boolean slept() {
        try {
            Thread.sleep(30_000);
            return true;
        } catch (InterruptedException e) {
            return false;
        }
    }

    /**
     * The thread of the bodies, which holds back an interrupt until it cannot be stopped any more.
     */
    private static final class Reluctant extends Thread {
        final Queue<Runnable> work = new ConcurrentLinkedQueue<>();
        final CountDownLatch interrupting = new CountDownLatch(1);
        volatile boolean idle;

        /** Two bodies, one after the other; without blocking, which would look at the flag. */
        @Override
        public void run() {
            for (int bodies = 0; bodies < 2; bodies++) {
                Runnable next;
                while ((next = work.poll()) == null) {
                    Thread.onSpinWait();
                }
                next.run();
                idle = true;
            }
        }

        @Override
        public void interrupt() {
            interrupting.countDown();
            while (!idle && getState() != State.BLOCKED) {
                Thread.onSpinWait();
            }
            super.interrupt();
        }
    }

    @Test
    void i2AnInterruptThatComesAtTheEndOfABodyIsNotThatOfTheNextOne() {
        Reluctant thread = new Reluctant();
        thread.setDaemon(true);
        thread.start();
        Thread task = Thread.currentThread();
        new ThreadCoroutine(
                        () -> {
                            task.interrupt();
                            awaited(thread.interrupting);
                        },
                        thread.work::add)
                .resume();
        assertTrue(Thread.interrupted(), "the task keeps its flag");
        List<Boolean> seen = new ArrayList<>();
        new ThreadCoroutine(
                        () -> seen.add(Thread.currentThread().isInterrupted()), thread.work::add)
                .resume();
        assertEquals(List.of(false), seen);
    }

    private static void awaited(CountDownLatch latch) {
        while (latch.getCount() > 0) {
            Thread.onSpinWait();
        }
    }
}
