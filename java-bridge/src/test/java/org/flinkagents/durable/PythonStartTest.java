package org.flinkagents.durable;

import static org.junit.jupiter.api.Assertions.assertEquals;

import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Arrays;
import java.util.Map;
import java.util.concurrent.Callable;
import java.util.concurrent.FutureTask;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.io.TempDir;
import pemja.core.PythonInterpreter;
import pemja.core.PythonInterpreterConfig;

/** Each in a JVM of its own, because Python starts once in a JVM. */
@Timeout(180)
public class PythonStartTest {
    private static final String KEPT = "java.lang.InterruptedException";

    @TempDir private Path folder;

    /** S10: a task is cancelled while Python starts for the first time; the next one starts it. */
    @Test
    void s10AfterAnInterruptedStartTheNextTaskStartsPython() throws Exception {
        assertEquals("interrupted, then 42", inAnotherJvm("await"));
    }

    /** The fault of pemja itself. Once it is gone this fails, and PythonStart is not needed. */
    @Test
    void pemjaKeepsAnInterruptionOfItsFirstStart() throws Exception {
        assertEquals(KEPT + ", then " + KEPT, inAnotherJvm("pemja"));
    }

    private String inAnotherJvm(String mode) throws Exception {
        // Every start of Python takes 0.3 s more, so that the interruption comes in the middle.
        Files.writeString(folder.resolve("sitecustomize.py"), "import time; time.sleep(0.3)");
        Map<String, String> slow = Map.of("PYTHONPATH", folder.toString());
        String text =
                OtherJvm.run(slow, PythonStartTest.class, mode, PemjaRuntimeTest.PYTHON).strip();
        return text.substring(text.lastIndexOf('\n') + 1);
    }

    /** The other JVM: a start that is interrupted, and one that is not. */
    public static void main(String[] arguments) throws Exception {
        PythonInterpreterConfig config =
                PythonInterpreterConfig.newBuilder()
                        .setExcType(PythonInterpreterConfig.ExecType.MULTI_THREAD)
                        .setPythonExec(arguments[1])
                        .addPythonPaths(PythonSite.of(arguments[1]).packages())
                        .build();
        FutureTask<String> first =
                new FutureTask<>(arguments[0].equals("await") ? awaiting(config) : asking(config));
        Thread task = new Thread(first);
        task.start();
        while (!first.isDone() && !waitsForTheStart(task)) {
            Thread.onSpinWait();
        }
        task.interrupt();
        System.out.println(first.get() + ", then " + asking(config).call());
        Runtime.getRuntime().halt(0);
    }

    private static boolean waitsForTheStart(Thread task) {
        return task.getState() == Thread.State.WAITING
                && Arrays.stream(task.getStackTrace())
                        .anyMatch(
                                frame ->
                                        frame.getClassName().endsWith("$MainInterpreter")
                                                || frame.getClassName().endsWith(".PythonStart"))
                && Arrays.stream(task.getStackTrace())
                        .noneMatch(frame -> frame.getMethodName().equals("loadPython"));
    }

    private static Callable<String> awaiting(PythonInterpreterConfig config) {
        return () -> {
            try {
                PythonStart.await(config);
                return "not interrupted";
            } catch (InterruptedException e) {
                return "interrupted";
            }
        };
    }

    private static Callable<String> asking(PythonInterpreterConfig config) {
        return () -> {
            try (PythonInterpreter interpreter = new PythonInterpreter(config)) {
                interpreter.exec("answer = str(6 * 7)");
                return interpreter.get("answer", String.class);
            } catch (Error e) {
                return e.getCause().toString();
            }
        };
    }
}
