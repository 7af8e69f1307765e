package org.flinkagents.durable;

import java.util.HashMap;
import java.util.Map;
import org.apache.flink.configuration.ConfigOption;
import org.apache.flink.configuration.Configuration;
import org.apache.flink.python.PythonOptions;
import org.apache.flink.python.env.PythonDependencyInfo;
import org.apache.flink.python.env.embedded.EmbeddedPythonEnvironmentManager;
import org.apache.flink.python.util.PythonConfigUtil;
import org.apache.flink.runtime.execution.Environment;
import org.apache.flink.streaming.api.operators.StreamingRuntimeContext;

/**
 * The Python executable, files, archives and requirements of the job, as PyFlink's own operators
 * get them in thread mode. Keeps K9.
 */
final class PythonDependencies {
    private static final String THREAD_MODE = "thread";

    private PythonDependencies() {}

    static EmbeddedPythonEnvironmentManager manager(
            Environment environment, StreamingRuntimeContext context) throws Exception {
        Configuration python = configuration(environment);
        PythonDependencyInfo job =
                PythonDependencyInfo.create(python, context.getDistributedCache());
        // The job's other Python operators may run in process mode, this one never does.
        PythonDependencyInfo threaded =
                new PythonDependencyInfo(
                        job.getPythonFiles(),
                        job.getRequirementsFilePath().orElse(null),
                        job.getRequirementsCacheDir().orElse(null),
                        job.getArchives(),
                        job.getPythonExec(),
                        THREAD_MODE,
                        job.getPythonPath().orElse(null));
        return new EmbeddedPythonEnvironmentManager(
                threaded,
                environment.getTaskManagerInfo().getTmpDirectories(),
                systemEnvironment(python),
                context.getJobInfo().getJobId());
    }

    /**
     * PyFlink registers the files of a job under keys that follow from their paths, so that the
     * job's configuration suffices to find them here.
     */
    private static Configuration configuration(Environment environment) {
        Configuration job = new Configuration(environment.getJobConfiguration());
        Configuration taskManager = environment.getTaskManagerInfo().getConfiguration();
        useDefault(job, taskManager, PythonOptions.PYTHON_EXECUTABLE);
        useDefault(job, taskManager, PythonOptions.PYTHON_PATH);
        return PythonConfigUtil.extractPythonConfiguration(job);
    }

    private static void useDefault(
            Configuration job, Configuration taskManager, ConfigOption<String> option) {
        if (!job.contains(option) && taskManager.contains(option)) {
            job.set(option, taskManager.get(option));
        }
    }

    private static Map<String, String> systemEnvironment(Configuration python) {
        return python.get(PythonOptions.PYTHON_SYSTEMENV_ENABLED)
                ? new HashMap<>(System.getenv())
                : new HashMap<>();
    }
}
