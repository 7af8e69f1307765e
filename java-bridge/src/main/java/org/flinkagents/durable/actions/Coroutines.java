package org.flinkagents.durable.actions;

import java.util.concurrent.atomic.AtomicBoolean;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/** Chooses how actions wait: on continuations, or on threads where there are none. */
final class Coroutines {
    private static final Logger LOG = LoggerFactory.getLogger(Coroutines.class);

    private static final AtomicBoolean WARNED = new AtomicBoolean();

    private Coroutines() {}

    static Coroutine make(Runnable body) {
        return useContinuations() ? new ContinuationCoroutine(body) : new ThreadCoroutine(body);
    }

    static boolean useContinuations() {
        String problem = ContinuationCoroutine.problem();
        if (problem != null && WARNED.compareAndSet(false, true)) {
            LOG.warn(
                    "Java actions run on threads of their own, each of which is held while its"
                            + " action waits, because {}. On JDK 21 to 23 they need none",
                    problem);
        }
        return problem == null;
    }
}
