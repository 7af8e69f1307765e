package org.flinkagents.durable;

import java.util.Map;
import org.apache.flink.python.env.embedded.EmbeddedPythonEnvironment;
import org.apache.flink.python.env.embedded.EmbeddedPythonEnvironmentManager;
import org.apache.flink.streaming.api.operators.StreamingRuntimeContext;
import org.apache.flink.streaming.runtime.tasks.StreamTask;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;
import pemja.core.PythonInterpreter;
import pemja.core.PythonInterpreterConfig;
import pemja.core.object.PyObject;

/** The Python operator inside the TaskManager's own process, through pemja. */
final class PemjaRuntime implements PythonRuntime {
    private static final Logger LOG = LoggerFactory.getLogger(PemjaRuntime.class);

    private final EmbeddedPythonEnvironmentManager environments;
    private final PythonInterpreter interpreter;
    private final PyObject operator;

    private PemjaRuntime(
            EmbeddedPythonEnvironmentManager environments,
            PythonInterpreter interpreter,
            PyObject operator) {
        this.environments = environments;
        this.interpreter = interpreter;
        this.operator = operator;
    }

    static PythonRuntimeFactory factory(String module) {
        return (task, context, host, settings) -> open(module, task, context, host, settings);
    }

    private static PemjaRuntime open(
            String module,
            StreamTask<?, ?> task,
            StreamingRuntimeContext context,
            AgentHost host,
            Map<String, Object> settings)
            throws Exception {
        EmbeddedPythonEnvironmentManager environments =
                PythonDependencies.manager(task.getEnvironment(), context);
        try {
            environments.open();
            EmbeddedPythonEnvironment environment =
                    (EmbeddedPythonEnvironment) environments.createEnvironment();
            PythonInterpreterConfig config = environment.getConfig();
            PythonSite site = PythonSite.of(config.getPythonExec());
            PythonInterpreter interpreter = new PythonInterpreter(withPackages(config, site));
            // After a failure from here on it is not closed: threads may be inside.
            interpreter.exec(site.activation());
            interpreter.exec("import importlib");
            // invoke() takes what is before the first dot for the module, so it finds no
            // submodules.
            PyObject imported = (PyObject) interpreter.invoke("importlib.import_module", module);
            PyObject operator = (PyObject) imported.invokeMethod("open_operator", host, settings);
            return new PemjaRuntime(environments, interpreter, operator);
        } catch (Throwable e) {
            environments.close();
            throw e;
        }
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
        try {
            if (Boolean.TRUE.equals(call("close"))) {
                operator.close();
                interpreter.close();
            } else {
                LOG.warn(
                        "Calls of durable agents did not end in time; their threads are abandoned"
                                + " and their interpreter stays open");
            }
        } finally {
            environments.close();
        }
    }
}
