package org.flinkagents.durable;

import static org.flinkagents.durable.Harness.bytes;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.lang.reflect.Field;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CompletionException;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;

@Timeout(60)
class AgentHostTest {
    private final FakePython python = new FakePython();

    @Test
    void aSignalBeforeTheWaitIsNotLostAndSignalsDoNotPileUp() throws Exception {
        try (Harness harness = open()) {
            python.host.signal();
            python.host.signal();
            assertTrue(python.host.awaitSignal(60_000));
            assertFalse(python.host.awaitSignal(0));
            Thread signaller = new Thread(python.host::signal);
            signaller.start();
            assertTrue(python.host.awaitSignal(60_000));
            signaller.join();
            assertEquals(0, harness.getOutput().size());
        }
    }

    @Test
    void k5AnInterruptEndsAWait() throws Exception {
        try (Harness harness = open()) {
            Thread.currentThread().interrupt();
            assertThrows(InterruptedException.class, () -> python.host.awaitSignal(60_000));
            assertThrows(InterruptedException.class, python.host::rethrow);
            assertEquals(0, harness.getOutput().size());
        }
    }

    @Test
    void k11AfterCloseTheHostHoldsNoOperatorAndWakeUpsAreSwallowed() throws Exception {
        Harness harness = open();
        harness.close();
        assertTrue(python.closed);
        python.host.wake();
        python.host.signal();
        assertThrows(IllegalStateException.class, () -> python.host.loadKey(bytes("k")));
        assertThrows(IllegalStateException.class, () -> python.host.updateMetrics(new Object[0]));
        for (Field field : AgentHost.class.getDeclaredFields()) {
            field.setAccessible(true);
            assertFalse(field.get(python.host) instanceof DurableAgentOperator, field.getName());
        }
    }

    @Test
    void k11AWakeUpAfterTheMailboxWasClosedIsSwallowed() throws Exception {
        Harness harness = open();
        harness.getTaskMailbox().close();
        python.host.wake();
        assertEquals(0, python.count("drain"));
    }

    @Test
    void stateIsReadOnTheTaskThreadOnly() throws Exception {
        try (Harness harness = open()) {
            assertNull(python.host.loadKey(bytes("k")));
            CompletableFuture<Object[]> other =
                    CompletableFuture.supplyAsync(
                            () -> {
                                try {
                                    return python.host.loadKey(bytes("k"));
                                } catch (Exception e) {
                                    throw new CompletionException(e);
                                }
                            });
            assertThrows(CompletionException.class, other::join);
            python.host.rethrow(); // the failure of another thread is not the operator's
            assertEquals(0, harness.getOutput().size());
        }
    }

    @Test
    void i1TheDetectorIsReachableFromPython() throws Exception {
        try (Harness harness = open()) {
            assertTrue(python.host.isInterruption(new Exception(new InterruptedException())));
            assertFalse(python.host.isInterruption(new Exception()));
            assertEquals(0, harness.getOutput().size());
        }
    }

    private Harness open() throws Exception {
        Harness harness = new Harness(python);
        harness.open();
        return harness;
    }
}
