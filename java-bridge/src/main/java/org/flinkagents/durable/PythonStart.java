package org.flinkagents.durable;

import org.slf4j.Logger;
import org.slf4j.LoggerFactory;
import pemja.core.PythonInterpreter;
import pemja.core.PythonInterpreterConfig;

/**
 * The first start of Python in this process, on a thread that nobody interrupts. A task that is
 * cancelled while it waits in pemja for the start would leave the interruption there: pemja 0.5.7
 * keeps it, and no later task of the TaskManager could start Python any more.
 */
final class PythonStart {
    private static final Logger LOG = LoggerFactory.getLogger(PythonStart.class);

    private static volatile boolean done;

    private PythonStart() {}

    /** Waits until Python runs. If the wait is interrupted, the start goes on without it. */
    static void await(PythonInterpreterConfig config) throws InterruptedException {
        if (done) {
            return;
        }
        Thread starter = new Thread(() -> start(config), "durable-python-start");
        starter.setDaemon(true);
        starter.start();
        starter.join();
    }

    private static void start(PythonInterpreterConfig config) {
        try {
            new PythonInterpreter(config).close();
            done = true;
        } catch (Throwable e) { // whoever waits for it tries again, and reports what it meets
            LOG.debug("Python did not start", e);
        }
    }
}
