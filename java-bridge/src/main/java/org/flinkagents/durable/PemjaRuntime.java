package org.flinkagents.durable;

import java.util.Map;
import org.apache.flink.python.env.embedded.EmbeddedPythonEnvironment;
import org.apache.flink.python.env.embedded.EmbeddedPythonEnvironmentManager;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;
import pemja.core.PythonInterpreter;
import pemja.core.PythonInterpreterConfig;
import pemja.core.object.PyObject;

/** The Python operator inside the TaskManager's own process, through pemja. */
final class PemjaRuntime implements PythonRuntime {
    private static final Logger LOG = LoggerFactory.getLogger(PemjaRuntime.class);

    private final EmbeddedPythonEnvironmentManager environments;
    private PythonInterpreter interpreter;
    private boolean inWorkingDirectory;
    private PyObject operator;

    private PemjaRuntime(EmbeddedPythonEnvironmentManager environments) {
        this.environments = environments;
    }

    static PythonRuntimeFactory factory(String module) {
        return (task, context, host, settings) -> {
            PemjaRuntime runtime =
                    new PemjaRuntime(PythonDependencies.manager(task.getEnvironment(), context));
            try {
                runtime.open(module, host, settings);
                return runtime;
            } catch (Throwable e) {
                // The interpreter stays open: threads may be inside.
                runtime.release();
                throw e;
            }
        };
    }

    private void open(String module, AgentHost host, Map<String, Object> settings)
            throws Exception {
        environments.open();
        EmbeddedPythonEnvironment environment =
                (EmbeddedPythonEnvironment) environments.createEnvironment();
        PythonInterpreterConfig config = environment.getConfig();
        PythonSite site = PythonSite.of(config.getPythonExec());
        interpreter = new PythonInterpreter(withPackages(config, site));
        interpreter.exec(site.activation());
        if (WorkingDirectory.isNeeded(environment.getEnv())) {
            WorkingDirectory.enter(interpreter, environment.getEnv());
            inWorkingDirectory = true;
        }
        interpreter.exec("import importlib");
        // invoke() takes what is before the first dot for the module, so it finds no submodules.
        PyObject imported = (PyObject) interpreter.invoke("importlib.import_module", module);
        operator = (PyObject) imported.invokeMethod("open_operator", host, settings);
    }

    private static PythonInterpreterConfig withPackages(
            PythonInterpreterConfig config, PythonSite site) {
        PythonInterpreterConfig.PythonInterpreterConfigBuilder builder =
                PythonInterpreterConfig.newBuilder()
                        .setExcType(config.getExecType())
                        .setPythonExec(config.getPythonExec())
                        .setPythonHome(config.getPythonHome())
                        .setWorkingDirectory(config.getWorkingDirectory());
        if (config.getPaths() != null) {
            builder.addPythonPaths(config.getPaths());
        }
        return builder.addPythonPaths(site.packages()).build();
    }

    @Override
    public Object call(String method, Object... arguments) {
        return operator.invokeMethod(method, arguments);
    }

    @Override
    public void close() throws Exception {
        boolean empty = false;
        try {
            empty = Boolean.TRUE.equals(call("close"));
        } finally {
            release();
        }
        if (empty) {
            operator.close();
            interpreter.close();
        } else {
            LOG.warn(
                    "Calls of durable agents did not end in time; their threads are abandoned and"
                            + " their interpreter stays open");
        }
    }

    private void release() throws Exception {
        try {
            if (inWorkingDirectory) {
                WorkingDirectory.leave(interpreter);
            }
        } finally {
            environments.close();
        }
    }
}
