package org.flinkagents.durable.actions;

import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.IOException;
import java.io.InputStream;
import java.lang.ref.WeakReference;
import java.util.Map;
import java.util.UUID;
import java.util.concurrent.TimeUnit;
import java.util.function.BooleanSupplier;
import org.flinkagents.durable.api.DurableCallable;
import org.flinkagents.durable.api.Event;
import org.flinkagents.durable.api.RunnerContext;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;

/** What is left of actions that wait when their task closes: nothing. */
@Timeout(120)
class SuspendedActionsTest {
    private static final int ACTIONS = 10_000;
    private static final int WORKERS = 128;
    private static final long CLOSE_NANOS = TimeUnit.SECONDS.toNanos(10);

    /** Of the job: its loader must be collected with it. */
    public static final class Waiting {
        public static void wait(Event event, RunnerContext ctx) throws Exception {
            ctx.await(ctx.durableExecuteAsync(DurableCallable.of("call", String.class, () -> "")));
        }
    }

    private static final class UserLoader extends ClassLoader {
        UserLoader() {
            super(SuspendedActionsTest.class.getClassLoader());
        }

        @Override
        protected Class<?> loadClass(String name, boolean resolve) throws ClassNotFoundException {
            if (!name.equals(Waiting.class.getName())) {
                return super.loadClass(name, resolve);
            }
            Class<?> loaded = findLoadedClass(name);
            return loaded != null ? loaded : define(name);
        }

        private Class<?> define(String name) throws ClassNotFoundException {
            String file = name.replace('.', '/') + ".class";
            try (InputStream in = getParent().getResourceAsStream(file)) {
                byte[] code = in.readAllBytes();
                return defineClass(name, code, 0, code.length);
            } catch (IOException e) {
                throw new ClassNotFoundException(name, e);
            }
        }
    }

    @Test
    void s10L6AndK11TenThousandThatWaitEndWithTheirTaskAndLeaveNoClassLoader() throws Exception {
        WeakReference<ClassLoader> loader = closedInTime();
        until(
                () -> {
                    System.gc();
                    return loader.get() == null;
                });
    }

    private static WeakReference<ClassLoader> closedInTime() {
        ClassLoader loader = new UserLoader();
        JavaActions actions = new JavaActions(null, WORKERS, loader, () -> {});
        long count = actions.capacity(ACTIONS);
        for (long handle = 1; handle <= count; handle++) {
            byte[] commands = actions.start(handle, start());
            assertTrue(commands.length > 1, "it waits");
        }
        long begun = System.nanoTime();
        actions.close();
        assertTrue(System.nanoTime() - begun < CLOSE_NANOS);
        return new WeakReference<>(loader);
    }

    private static byte[] start() {
        Packer message = new Packer().array(12).bool(false);
        message.text(Waiting.class.getName()).text("wait").text("act");
        message.text("_input_event").value(Map.of()).text(new UUID(1, 2).toString()).nil();
        return message.text("k").text("00").number(7).value(Map.of()).toBytes();
    }

    private static void until(BooleanSupplier condition) throws InterruptedException {
        long begun = System.nanoTime();
        while (!condition.getAsBoolean()) {
            assertTrue(System.nanoTime() - begun < TimeUnit.SECONDS.toNanos(30), "not in time");
            TimeUnit.MILLISECONDS.sleep(10);
        }
    }
}
