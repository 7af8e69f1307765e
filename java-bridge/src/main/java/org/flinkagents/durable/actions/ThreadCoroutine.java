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

    /** Between refusals of a body that swallows them, so that it takes no processor from others. */
    private static final long PAUSE_NANOS = TimeUnit.MILLISECONDS.toNanos(1);

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
    private volatile Thread thread;
    private boolean interrupted;
    private boolean started;
    private boolean left;

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

    /**
     * User code sees an interrupt of the task as it would on the task thread. Under the lock, so
     * that it never comes when the thread has gone on to another body.
     */
    private synchronized void passInterrupt() {
        if (bodysTurn) {
            interrupted = true;
            if (thread != null) {
                thread.interrupt();
            }
        }
    }

    private void runBody() {
        begun(Thread.currentThread());
        try {
            body.run();
        } finally {
            Thread.currentThread().setContextClassLoader(null);
            handBack(true);
        }
    }

    private synchronized void begun(Thread current) {
        thread = current;
        if (interrupted) {
            current.interrupt();
        }
    }

    /** Gives whether the body was interrupted in its turn. */
    private boolean handBack(boolean ends) {
        Thread waiting;
        boolean wasInterrupted;
        synchronized (this) {
            wasInterrupted = Thread.interrupted();
            interrupted = false;
            waiting = caller;
            bodysTurn = false;
            if (ends) {
                thread = null;
            }
        }
        LockSupport.unpark(waiting);
        return wasInterrupted;
    }

    /** A thread cannot be ended; that it is refused again and again lets most bodies end. */
    @Override
    void leave() {
        if (left) {
            LockSupport.parkNanos(this, PAUSE_NANOS);
        } else {
            left = true;
            handBack(false);
        }
    }

    @Override
    boolean suspend() {
        boolean interruptedBefore = handBack(false);
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
