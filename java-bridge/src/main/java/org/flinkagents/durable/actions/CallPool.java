package org.flinkagents.durable.actions;

import java.util.Map;
import java.util.concurrent.Callable;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ConcurrentLinkedQueue;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.ThreadPoolExecutor;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import org.flinkagents.durable.JavaInterruptionDetector;
import org.flinkagents.durable.api.DurableSerializationException;

/**
 * The workers that run durable calls. Python admits calls, so that limits and concurrency are those
 * of all calls; outcomes wait here, already in the form in which they are recorded.
 */
final class CallPool {
    private static final int SUCCEEDED = 0;
    private static final int FAILED = 1;
    private static final int INTERRUPTED = 2;
    private static final long IDLE_SECONDS = 10;

    private final ConcurrentLinkedQueue<Completion> completions = new ConcurrentLinkedQueue<>();
    private final Map<Long, Throwable> interruptions = new ConcurrentHashMap<>();
    private final AtomicInteger threads = new AtomicInteger();
    private final ThreadPoolExecutor workers;
    private volatile ClassLoader loader;

    /** Tells the task that there are completions; null once it is closed. */
    private volatile Runnable wake;

    CallPool(int size, ClassLoader loader, Runnable wake) {
        this.loader = loader;
        this.wake = wake;
        this.workers =
                new ThreadPoolExecutor(
                        size,
                        size,
                        IDLE_SECONDS,
                        TimeUnit.SECONDS,
                        new LinkedBlockingQueue<>(),
                        this::worker);
        this.workers.allowCoreThreadTimeOut(true);
    }

    private Thread worker(Runnable work) {
        Thread thread = new Thread(work, "durable call " + threads.incrementAndGet());
        thread.setDaemon(true);
        return thread;
    }

    void start(long id, Callable<?> call) {
        workers.execute(() -> run(id, call));
    }

    private void run(long id, Callable<?> call) {
        Thread thread = Thread.currentThread();
        thread.setContextClassLoader(loader);
        Completion completion;
        try {
            completion = new Completion(id, SUCCEEDED, recorded(call.call()));
        } catch (Throwable e) {
            completion = failed(id, e);
        } finally {
            thread.setContextClassLoader(null);
            Thread.interrupted(); // of this call
        }
        Runnable current = wake;
        if (current != null) {
            completions.add(completion);
            current.run();
        }
    }

    /** Encoded here, so that what user code does to its result later changes nothing. */
    private static byte[] recorded(Object value) {
        try {
            return Packer.pack(value);
        } catch (DurableSerializationException e) {
            throw e;
        } catch (RuntimeException | StackOverflowError e) {
            throw new DurableSerializationException("The result cannot be recorded: " + e, e);
        }
    }

    private Completion failed(long id, Throwable error) {
        if (JavaInterruptionDetector.isInterruption(error)) {
            interruptions.put(id, error);
            return new Completion(id, INTERRUPTED, new byte[0]);
        }
        return new Completion(id, FAILED, Packer.pack(Failures.describe(error)));
    }

    /** Id, status and payload of at most so many calls that have ended, in one message. */
    byte[] take(int limit) {
        Packer out = new Packer();
        int count = 0;
        Completion completion;
        while (count < limit && (completion = completions.poll()) != null) {
            out.number(completion.id).number(completion.status).bytes(completion.payload);
            count++;
        }
        return new Packer().array(3 * count).packed(out).toBytes();
    }

    Throwable interruptionOf(long id) {
        return interruptions.remove(id);
    }

    /** Calls that still run are interrupted, and what they give is ignored. */
    void close() {
        wake = null;
        workers.shutdownNow();
        completions.clear();
        interruptions.clear();
        loader = null;
    }

    private static final class Completion {
        final long id;
        final int status;
        final byte[] payload;

        Completion(long id, int status, byte[] payload) {
            this.id = id;
            this.status = status;
            this.payload = payload;
        }
    }
}
