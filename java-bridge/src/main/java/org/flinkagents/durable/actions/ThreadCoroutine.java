package org.flinkagents.durable.actions;

import java.util.concurrent.Executor;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.RejectedExecutionException;
import java.util.concurrent.SynchronousQueue;
import java.util.concurrent.ThreadPoolExecutor;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.concurrent.locks.LockSupport;
import org.flinkagents.durable.api.DurableExecutionException;

/**
 * On a thread of its own, which runs only while the task thread waits for it: strict hand-over, so
 * that user code never runs beside the engine. For JVMs without continuations.
 */
final class ThreadCoroutine extends Coroutine {
    private static final long IDLE_SECONDS = 10;
    private static final AtomicInteger NUMBER = new AtomicInteger();

    /** Starting a thread costs more than a hundred hand-overs. Daemons, as workers are. */
    private static final ExecutorService THREADS =
            new ThreadPoolExecutor(
                    0,
                    Integer.MAX_VALUE,
                    IDLE_SECONDS,
                    TimeUnit.SECONDS,
                    new SynchronousQueue<>(),
                    ThreadCoroutine::thread);

    private final Runnable body;
    private final Executor threads;
    private Thread caller;
    private volatile boolean bodysTurn;
    private volatile boolean interrupted;
    private volatile Thread thread;
    private boolean started;

    ThreadCoroutine(Runnable body) {
        this(body, THREADS);
    }

    ThreadCoroutine(Runnable body, Executor threads) {
        this.body = body;
        this.threads = threads;
    }

    private static Thread thread(Runnable work) {
        Thread thread = new Thread(work, "durable action " + NUMBER.incrementAndGet());
        thread.setDaemon(true);
        thread.setContextClassLoader(null); // the one that starts it must not be kept by it
        return thread;
    }

    @Override
    void resume() {
        caller = Thread.currentThread();
        bodysTurn = true;
        if (started) {
            LockSupport.unpark(thread);
        } else {
            begin();
        }
        boolean interruptedHere = false;
        while (bodysTurn) {
            LockSupport.park(this);
            if (Thread.interrupted()) {
                interruptedHere = true;
                passInterrupt();
            }
        }
        if (interruptedHere) {
            Thread.currentThread().interrupt();
        }
    }

    /** A thread that did not start would be waited for without end. Keeps S10. */
    private void begin() {
        try {
            threads.execute(this::runBody);
            started = true;
        } catch (OutOfMemoryError | RejectedExecutionException e) {
            bodysTurn = false;
            throw new DurableExecutionException(
                    "There is no thread for one more action: on this JVM each that waits holds one."
                            + " Remedy: JDK 21 or later, where none is needed, or a higher limit of"
                            + " threads for the task manager",
                    e);
        }
    }

    /** User code sees an interrupt of the task as it would on the task thread. */
    private void passInterrupt() {
        interrupted = true;
        Thread current = thread;
        if (current != null) {
            current.interrupt();
        }
    }

    private void runBody() {
        thread = Thread.currentThread();
        if (interrupted) {
            thread.interrupt();
        }
        try {
            body.run();
        } finally {
            thread.setContextClassLoader(null);
            Thread.interrupted();
            thread = null;
            handBack();
        }
    }

    private void handBack() {
        Thread waiting = caller;
        bodysTurn = false;
        LockSupport.unpark(waiting);
    }

    @Override
    boolean suspend() {
        boolean interruptedBefore = Thread.interrupted();
        interrupted = false;
        handBack();
        while (!bodysTurn) {
            LockSupport.park(this);
            interruptedBefore |= Thread.interrupted();
        }
        if (interruptedBefore) {
            Thread.currentThread().interrupt();
        }
        return true;
    }
}
