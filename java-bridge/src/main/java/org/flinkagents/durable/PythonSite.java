package org.flinkagents.durable;

import java.io.IOException;
import java.io.InputStream;
import java.nio.charset.StandardCharsets;
import java.util.List;
import java.util.stream.Collectors;

/**
 * The installation behind a Python executable. An embedded interpreter finds a virtual environment
 * only if it comes first on PATH, so that it is told here.
 */
final class PythonSite {
    private static final String QUERY = resource("site_query.py");
    private static final String ACTIVATE = resource("site_activate.py");

    private final String executable;
    private final String prefix;
    private final String home;
    private final List<String> packages;

    private PythonSite(List<String> answer) {
        executable = answer.get(0);
        prefix = answer.get(1);
        home = answer.get(2);
        packages = answer.subList(3, answer.size());
    }

    static PythonSite of(String executable) throws IOException, InterruptedException {
        String answer;
        int status;
        try {
            Process process =
                    new ProcessBuilder(executable, "-c", QUERY).redirectErrorStream(true).start();
            process.getOutputStream().close();
            answer = new String(process.getInputStream().readAllBytes(), StandardCharsets.UTF_8);
            status = process.waitFor();
        } catch (IOException e) {
            throw new IOException(remedy(executable), e);
        }
        if (status != 0) {
            throw new IOException(remedy(executable) + ". It said: " + answer.trim());
        }
        return new PythonSite(answer.lines().collect(Collectors.toList()));
    }

    private static String remedy(String executable) {
        return "The Python executable '"
                + executable
                + "' cannot run durable agents. Remedy: "
                + executable
                + " -m pip install flink-agents-durable, on every machine of the cluster; or name"
                + " another Python by python.executable; or send one with the job: -pyarch"
                + " environment.tar.gz -pyexec environment.tar.gz/bin/python";
    }

    /** For an installation that lacks the module, or something that the module needs. */
    String cannotImport(String module) {
        return remedy(executable) + ". It could not import " + module;
    }

    /** Where its standard library is. A virtual environment has none, and its base has. */
    String home() {
        return home;
    }

    String[] packages() {
        return packages.toArray(new String[0]);
    }

    /** What an interpreter with {@link #packages()} on its path has to execute. */
    String activation() {
        return String.format(
                "executable, prefix, paths = %s, %s, [%s]%n%s",
                literal(executable),
                literal(prefix),
                packages.stream().map(PythonSite::literal).collect(Collectors.joining(", ")),
                ACTIVATE);
    }

    static String literal(String text) {
        return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'";
    }

    private static String resource(String name) {
        try (InputStream in = PythonSite.class.getResourceAsStream(name)) {
            return new String(in.readAllBytes(), StandardCharsets.UTF_8);
        } catch (IOException e) {
            throw new IllegalStateException(name + " is missing in the jar", e);
        }
    }
}
