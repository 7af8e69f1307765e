package org.flinkagents.durable;

import java.util.Map;
import pemja.core.PythonInterpreter;

/**
 * Programs find the archives of their job relative to the working directory, which all interpreters
 * of a process share: as in PyFlink's own operators, the first to open enters the folder and the
 * last to close leaves it.
 */
final class WorkingDirectory {
    /** Set by PyFlink where a job has archives. */
    private static final String VARIABLE = "_PYTHON_WORKING_DIR";

    private static int users;

    private WorkingDirectory() {}

    static boolean isNeeded(Map<String, String> environment) {
        return environment.containsKey(VARIABLE);
    }

    static synchronized void enter(PythonInterpreter interpreter, Map<String, String> environment) {
        if (users++ == 0) {
            interpreter.exec(
                    "import os, pemja; pemja.__dict__['_left_directory'] = os.getcwd(); os.chdir("
                            + PythonSite.literal(environment.get(VARIABLE))
                            + ")");
        }
    }

    static synchronized void leave(PythonInterpreter interpreter) {
        if (--users == 0) {
            interpreter.exec("import os, pemja; os.chdir(pemja.__dict__['_left_directory'])");
        }
    }
}
