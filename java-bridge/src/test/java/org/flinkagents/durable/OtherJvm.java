package org.flinkagents.durable;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.File;
import java.lang.management.ManagementFactory;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.concurrent.TimeUnit;

/** Runs the main method of a test in a JVM of its own, set up as this one. */
final class OtherJvm {
    private OtherJvm() {}

    /** What it printed; fails unless it ends by itself and without an error. */
    static String run(Class<?> main, String... arguments) throws Exception {
        return run(Map.of(), main, arguments);
    }

    /** The same, with more in its environment. */
    static String run(Map<String, String> environment, Class<?> main, String... arguments)
            throws Exception {
        List<String> command = new ArrayList<>();
        command.add(Path.of(System.getProperty("java.home"), "bin", "java").toString());
        command.addAll(ManagementFactory.getRuntimeMXBean().getInputArguments());
        command.add("-Dpython.executable=" + PemjaRuntimeTest.PYTHON);
        command.addAll(List.of("-cp", System.getProperty("java.class.path")));
        command.add(main.getName());
        command.addAll(List.of(arguments));
        File log = File.createTempFile("other-jvm", ".log");
        try {
            ProcessBuilder builder = new ProcessBuilder(command);
            builder.environment().putAll(environment);
            Process process = builder.redirectErrorStream(true).redirectOutput(log).start();
            boolean ended;
            try {
                ended = process.waitFor(120, TimeUnit.SECONDS);
            } finally {
                process.destroyForcibly();
            }
            String text = Files.readString(log.toPath());
            assertTrue(ended, text);
            assertEquals(0, process.exitValue(), text);
            return text;
        } finally {
            Files.delete(log.toPath());
        }
    }
}
