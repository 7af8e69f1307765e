package org.flinkagents.durable.actions;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.IOException;
import java.io.InputStream;
import java.time.Duration;
import java.time.temporal.ChronoUnit;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.UUID;
import java.util.concurrent.Semaphore;
import java.util.concurrent.TimeUnit;
import org.flinkagents.durable.api.CallOptions;
import org.flinkagents.durable.api.DurableCallable;
import org.flinkagents.durable.api.DurableExecutionException;
import org.flinkagents.durable.api.Event;
import org.flinkagents.durable.api.Outcome;
import org.flinkagents.durable.api.OutputEvent;
import org.flinkagents.durable.api.RunnerContext;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

/** What user code does in the middle of a command, or throws, never garbles or loses a message. */
@Timeout(60)
public class HostileUserCodeTest {
    private static final long CALL = 1;
    private static final long SEND = 4;
    private static final long FAIL = 7;

    private final JavaActions actions =
            new JavaActions(null, 1, HostileUserCodeTest.class.getClassLoader(), () -> {});

    @AfterEach
    void close() {
        actions.close();
    }

    private List<List<Object>> start(String method) {
        Packer message = new Packer().array(12).bool(false);
        message.text(HostileUserCodeTest.class.getName()).text(method).text("act");
        message.text("_input_event").value(Map.of()).text(new UUID(1, 2).toString()).nil();
        message.text("k").text("00").number(7).value(Map.of());
        return commands(actions.start(1, message.toBytes()));
    }

    @SuppressWarnings("unchecked")
    private static List<List<Object>> commands(byte[] packed) {
        return (List<List<Object>>)
                (Object) new ArrayList<>((List<Object>) Unpacker.unpack(packed));
    }

    // ---------------------------------------------------------------- commands that cannot be
    // written

    private static final Duration FOREVER = ChronoUnit.FOREVER.getDuration();

    private interface Refused {
        void run() throws Exception;
    }

    /** After a refused command everything is as if it had never been tried. */
    private static void refused(RunnerContext ctx, Class<? extends Throwable> type, Refused code)
            throws Exception {
        assertThrows(type, code::run);
        ctx.sendEvent(new OutputEvent("on"));
        ctx.await(ctx.durableExecuteAsync(call()));
    }

    private static DurableCallable<String> call() {
        return DurableCallable.of("call", String.class, () -> "done", 1);
    }

    public static void gauge(Event event, RunnerContext ctx) throws Exception {
        List<Object> ring = new ArrayList<>();
        ring.add(ring);
        refused(ctx, RuntimeException.class, () -> ctx.getActionMetricGroup().gauge("g", ring));
    }

    public static void sleep(Event event, RunnerContext ctx) throws Exception {
        refused(ctx, ArithmeticException.class, () -> ctx.sleep(FOREVER));
    }

    public static void batch(Event event, RunnerContext ctx) throws Exception {
        var future = ctx.durableExecuteAsync(call());
        refused(ctx, ArithmeticException.class, () -> ctx.gather(FOREVER, future));
    }

    public static void timeout(Event event, RunnerContext ctx) throws Exception {
        CallOptions options = CallOptions.DEFAULT.withTimeout(FOREVER);
        var future = ctx.durableExecuteAsync(call(), options);
        refused(ctx, ArithmeticException.class, () -> ctx.await(future));
    }

    public static void synchronous(Event event, RunnerContext ctx) throws Exception {
        CallOptions options = CallOptions.DEFAULT.withTimeout(FOREVER);
        refused(ctx, ArithmeticException.class, () -> ctx.durableExecute(call(), options));
    }

    public static void arguments(Event event, RunnerContext ctx) throws Exception {
        var future =
                ctx.durableExecuteAsync(
                        new Arguments() {
                            @Override
                            public List<?> arguments() {
                                throw new NoClassDefFoundError("gone");
                            }
                        });
        refused(ctx, NoClassDefFoundError.class, () -> ctx.await(future));
    }

    public static void event(Event event, RunnerContext ctx) throws Exception {
        Object bean =
                new Object() {
                    @SuppressWarnings("unused")
                    public String getName() {
                        throw new NoClassDefFoundError("gone");
                    }
                };
        refused(ctx, Throwable.class, () -> ctx.sendEvent(new OutputEvent(bean)));
    }

    @ParameterizedTest
    @ValueSource(
            strings = {"gauge", "sleep", "batch", "timeout", "synchronous", "arguments", "event"})
    void d6ACommandThatIsRefusedLeavesNothingBehind(String method) {
        List<List<Object>> commands = start(method);
        assertEquals(2, commands.size(), commands.toString());
        assertEquals(SEND, commands.get(0).get(0));
        assertEquals(List.of(CALL, 0L), commands.get(1).subList(0, 2), "D6: no slot is lost");
    }

    private abstract static class Arguments implements DurableCallable<String> {
        @Override
        public String getId() {
            return "call";
        }

        @Override
        public Class<String> getResultClass() {
            return String.class;
        }

        @Override
        public String call() {
            return "done";
        }
    }

    /** The arguments of a call are made by code that works with the context. */
    public static void nested(Event event, RunnerContext ctx) throws Exception {
        ctx.await(
                ctx.durableExecuteAsync(
                        new Arguments() {
                            @Override
                            public List<?> arguments() {
                                ctx.sendEvent(new OutputEvent("inner"));
                                return List.of("argument");
                            }
                        }));
    }

    @Test
    void argumentsThatUseTheContextDoNotCutIntoTheirCommand() {
        List<List<Object>> commands = start("nested");
        assertEquals(2, commands.size(), commands.toString());
        assertEquals(SEND, commands.get(0).get(0));
        assertEquals(CALL, commands.get(1).get(0));
        assertEquals(List.of("argument"), commands.get(1).get(4));
    }

    // ---------------------------------------------------------------- throwables

    /** A throwable whose every method throws. */
    public static final class Hostile extends RuntimeException {
        private static final long serialVersionUID = 1L;

        @Override
        public String getMessage() {
            throw new StackOverflowError();
        }

        @Override
        public synchronized Throwable getCause() {
            throw new IllegalStateException("hostile");
        }

        @Override
        public StackTraceElement[] getStackTrace() {
            throw new IllegalStateException("hostile");
        }

        @Override
        public String toString() {
            throw new IllegalStateException("hostile");
        }
    }

    /** Of a library whose other half is not there. */
    public static final class Halved extends RuntimeException {
        private static final long serialVersionUID = 1L;

        public transient Missing missing;
    }

    public static final class Missing {}

    /** Finds {@link Halved} and not {@link Missing}. */
    private static final class HalfLoader extends ClassLoader {
        HalfLoader() {
            super(HostileUserCodeTest.class.getClassLoader());
        }

        @Override
        protected Class<?> loadClass(String name, boolean resolve) throws ClassNotFoundException {
            if (name.equals(Missing.class.getName())) {
                throw new ClassNotFoundException(name);
            }
            if (!name.equals(Halved.class.getName())) {
                return super.loadClass(name, resolve);
            }
            String file = name.replace('.', '/') + ".class";
            try (InputStream in = getParent().getResourceAsStream(file)) {
                byte[] code = in.readAllBytes();
                return defineClass(name, code, 0, code.length);
            } catch (IOException e) {
                throw new ClassNotFoundException(name, e);
            }
        }
    }

    private static RuntimeException make(String kind) throws Exception {
        if (kind.equals("Hostile")) {
            return new Hostile();
        }
        Class<?> type = new HalfLoader().loadClass(Halved.class.getName());
        return (RuntimeException) type.getDeclaredConstructor().newInstance();
    }

    public static void throwsHostile(Event event, RunnerContext ctx) throws Exception {
        throw make("Hostile");
    }

    public static void throwsHalved(Event event, RunnerContext ctx) throws Exception {
        throw make("Halved");
    }

    @ParameterizedTest
    @ValueSource(strings = {"Hostile", "Halved"})
    void i3AnActionEndsWhateverItThrows(String kind) {
        List<List<Object>> commands = start("throws" + kind);
        assertEquals(1, commands.size());
        assertEquals(FAIL, commands.get(0).get(0));
        assertTrue(commands.get(0).get(1).toString().contains("$" + kind), commands.toString());
    }

    @ParameterizedTest
    @ValueSource(strings = {"Hostile", "Halved"})
    void x7ACallEndsWhateverItThrows(String kind) throws Exception {
        Semaphore ended = new Semaphore(0);
        CallPool pool = new CallPool(1, getClass().getClassLoader(), ended::release);
        try {
            RuntimeException thrown = make(kind);
            pool.start(
                    5,
                    () -> {
                        throw thrown;
                    });
            assertTrue(ended.tryAcquire(10, TimeUnit.SECONDS), "nobody hears of the call's end");
            List<?> taken = (List<?>) Unpacker.unpack(pool.take(10));
            assertEquals(List.of(5L, 1L), taken.subList(0, 2));
            Map<?, ?> plain = (Map<?, ?>) Unpacker.unpack((byte[]) taken.get(2));
            assertTrue(plain.get("class").toString().endsWith("$" + kind));
            for (String name : List.of("lineage", "fields", "own", "stack", "causes")) {
                assertTrue(plain.containsKey(name), name);
            }
        } finally {
            pool.close();
        }
    }

    /** Neither an exception nor an error. */
    public static final class Bare extends Throwable {
        private static final long serialVersionUID = 1L;

        public Bare(String message) {
            super(message);
        }
    }

    static Object throwsBare(String message) throws Throwable {
        throw new Bare(message);
    }

    @Test
    void x9AStaticMethodThrowsWhateverItThrows() throws Exception {
        Semaphore ended = new Semaphore(0);
        JavaActions actions = new JavaActions(null, 1, getClass().getClassLoader(), ended::release);
        try {
            Packer calls =
                    new Packer().array(4).number(5).text(HostileUserCodeTest.class.getName());
            actions.startCalls(calls.text("throwsBare").value(List.of("why")).toBytes());
            assertTrue(ended.tryAcquire(10, TimeUnit.SECONDS));
            List<?> taken = (List<?>) Unpacker.unpack(actions.takeCompletions(10));
            Map<?, ?> plain = (Map<?, ?>) Unpacker.unpack((byte[]) taken.get(2));
            assertEquals(Bare.class.getName(), plain.get("class"));
            assertEquals("why", plain.get("message"));
        } finally {
            actions.close();
        }
    }

    @Test
    void f7AnOutcomeThrowsWhateverItsCallThrew() {
        assertThrows(Bare.class, () -> Outcome.failure(new Bare("why")).getValue());
    }

    // ---------------------------------------------------------------- threads

    @Test
    void s10WithoutAThreadAnActionFailsAndIsNotWaitedFor() {
        ThreadCoroutine coroutine =
                new ThreadCoroutine(
                        () -> {},
                        work -> {
                            throw new OutOfMemoryError("unable to create native thread");
                        });
        for (int i = 0; i < 2; i++) {
            var error = assertThrows(DurableExecutionException.class, coroutine::resume);
            assertTrue(error.getMessage().contains("JDK 21"), error.getMessage());
        }
    }

    private static final Semaphore SWALLOWED = new Semaphore(0);

    /** Goes on for a while whatever it is told. */
    public static void swallowing(Event event, RunnerContext ctx) {
        for (int i = 0; i < 1_000; i++) {
            try {
                ctx.await(ctx.durableExecuteAsync(call()));
            } catch (Throwable e) {
                assertTrue(e instanceof AbandonedError, e::toString);
            }
        }
        SWALLOWED.release();
    }

    @Test
    void s10AndL6AnActionThatSwallowsItsEndHoldsNeitherTheTaskNorAThread() throws Exception {
        start("swallowing");
        actions.close();
        if (!Coroutines.useContinuations()) { // which are collected where they stand
            assertTrue(SWALLOWED.tryAcquire(30, TimeUnit.SECONDS), "its thread is parked for good");
        }
    }
}
