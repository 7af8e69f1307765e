package org.flinkagents.durable.actions;

import java.lang.invoke.MethodHandle;
import java.lang.invoke.MethodHandles;
import java.lang.invoke.MethodType;
import java.lang.reflect.Method;

/**
 * On the continuation that JDK 21 to 23 have under their virtual threads: it runs on the task
 * thread itself, and one that waits costs some hundred bytes.
 */
final class ContinuationCoroutine extends Coroutine {
    private static final String PACKAGE = "jdk.internal.vm";

    /**
     * Since monitors do not pin any more, the JVM dies when such a continuation goes on: seen each
     * time on 25 in tests that pass on 21.
     */
    private static final int FIRST_UNSAFE = 24;

    private static final MethodHandle MAKE;
    private static final MethodHandle RUN;
    private static final MethodHandle YIELD;

    /** Why there are no continuations here, or null. */
    private static final String PROBLEM;

    static {
        MethodHandle make = null;
        MethodHandle run = null;
        MethodHandle yield = null;

        String problem = null;
        try {
            Class<?> scopes = Class.forName(PACKAGE + ".ContinuationScope");
            Class<?> continuations = Class.forName(PACKAGE + ".Continuation");
            if (Runtime.version().feature() >= FIRST_UNSAFE) {
                throw new IllegalStateException(
                        "from JDK " + FIRST_UNSAFE + " on they crash a task that holds monitors");
            }
            export();
            MethodHandles.Lookup lookup =
                    MethodHandles.lookup(); // exported to unnamed modules alone
            Object scope =
                    lookup.findConstructor(scopes, MethodType.methodType(void.class, String.class))
                            .invoke("durable action");
            make =
                    lookup.findConstructor(
                                    continuations,
                                    MethodType.methodType(void.class, scopes, Runnable.class))
                            .bindTo(scope)
                            .asType(MethodType.methodType(Object.class, Runnable.class));
            run =
                    lookup.findVirtual(continuations, "run", MethodType.methodType(void.class))
                            .asType(MethodType.methodType(void.class, Object.class));
            yield =
                    lookup.findStatic(
                                    continuations,
                                    "yield",
                                    MethodType.methodType(boolean.class, scopes))
                            .bindTo(scope);
            probe(make, run, yield);
        } catch (ClassNotFoundException e) {
            problem = "this JVM is older than 21 (" + Runtime.version() + ")";
        } catch (Throwable e) {
            problem = "this JVM does not give access to its continuations: " + e;
        }
        MAKE = make;
        RUN = run;
        YIELD = yield;
        PROBLEM = problem;
    }

    private final Object continuation;

    ContinuationCoroutine(Runnable body) {
        try {
            continuation = (Object) MAKE.invokeExact(body);
        } catch (Throwable e) {
            throw rethrow(e);
        }
    }

    /** Why there are no continuations here, or null. */
    static String problem() {
        return PROBLEM;
    }

    /** Flink's own options open {@code java.lang}, and with it this method of its Module. */
    private static void export() throws ReflectiveOperationException {
        Method export = Module.class.getDeclaredMethod("implAddExportsToAllUnnamed", String.class);
        export.setAccessible(true);
        export.invoke(Object.class.getModule(), PACKAGE);
    }

    /** Some virtual machines have the class and cannot use it. */
    private static void probe(MethodHandle make, MethodHandle run, MethodHandle yield)
            throws Throwable {
        int[] steps = new int[1];
        Runnable body =
                () -> {
                    steps[0]++;
                    try {
                        boolean unused = (boolean) yield.invokeExact();
                    } catch (Throwable e) {
                        throw rethrow(e);
                    }
                    steps[0]++;
                };
        Object continuation = (Object) make.invokeExact(body);
        run.invokeExact(continuation);
        run.invokeExact(continuation);
        if (steps[0] != 2) {
            throw new IllegalStateException("a continuation did not go on");
        }
    }

    @Override
    void resume() {
        try {
            RUN.invokeExact(continuation);
        } catch (Throwable e) {
            throw rethrow(e);
        }
    }

    /** A frame that belongs to this thread pins: one of Python, and on 21 a synchronized one. */
    @Override
    boolean suspend() {
        try {
            boolean unused = (boolean) YIELD.invokeExact();
            return true;
        } catch (IllegalStateException pinned) {
            return false;
        } catch (Throwable e) {
            throw rethrow(e);
        }
    }

    /** For good: what is left of it is collected. */
    @Override
    void leave() {
        suspend();
    }

    private static RuntimeException rethrow(Throwable e) {
        if (e instanceof Error) {
            throw (Error) e;
        }
        return e instanceof RuntimeException ? (RuntimeException) e : new IllegalStateException(e);
    }
}
