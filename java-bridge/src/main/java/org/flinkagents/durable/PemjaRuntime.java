package org.flinkagents.durable;

import java.io.IOException;
import org.apache.flink.python.env.embedded.EmbeddedPythonEnvironment;
import org.apache.flink.python.env.embedded.EmbeddedPythonEnvironmentManager;
import org.apache.flink.runtime.execution.Environment;
import org.apache.flink.streaming.api.operators.StreamingRuntimeContext;
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

    /** Opens agents: {@code open_operator(host, settings)} of a Python module. */
    static PythonRuntimeFactory factory(String module) {
        return (task, context, host, settings) ->
                open(task.getEnvironment(), context, module, "open_operator", host, settings);
    }

    /** Opens encoders: {@code open_encoder(settings)} of a Python module. There is no host. */
    static PythonRuntimeFactory encoders(String module) {
        return (task, context, host, settings) ->
                open(task.getEnvironment(), context, module, "open_encoder", settings);
    }

    private static PemjaRuntime open(
            Environment environment,
            StreamingRuntimeContext context,
            String module,
            String function,
            Object... arguments)
            throws Exception {
        PemjaRuntime runtime = new PemjaRuntime(PythonDependencies.manager(environment, context));
        try {
            runtime.open(module, function, arguments);
            return runtime;
        } catch (Throwable e) {
            // The interpreter stays open: threads may be inside.
            runtime.release();
            throw e;
        }
    }

    private void open(String module, String function, Object... arguments) throws Exception {
        environments.open();
        EmbeddedPythonEnvironment environment =
                (EmbeddedPythonEnvironment) environments.createEnvironment();
        PythonSite site = PythonSite.of(environment.getConfig().getPythonExec());
        PythonInterpreterConfig config = withPackages(environment.getConfig(), site);
        PythonStart.await(config);
        interpreter = new PythonInterpreter(config);
        interpreter.exec(site.activation());
        if (WorkingDirectory.isNeeded(environment.getEnv())) {
            WorkingDirectory.enter(interpreter, environment.getEnv());
            inWorkingDirectory = true;
        }
        interpreter.exec("import importlib");
        // invoke() takes what is before the first dot for the module, so it finds no submodules.
        PyObject imported = (PyObject) importModule(module, site);
        operator = (PyObject) imported.invokeMethod(function, arguments);
    }

    private Object importModule(String module, PythonSite site) throws IOException {
        try {
            return interpreter.invoke("importlib.import_module", module);
        } catch (Exception e) { // a checked one, that pemja does not declare
            throw new IOException(site.cannotImport(module), e);
        }
    }

    private static PythonInterpreterConfig withPackages(
            PythonInterpreterConfig config, PythonSite site) {
        PythonInterpreterConfig.PythonInterpreterConfigBuilder builder =
                PythonInterpreterConfig.newBuilder()
                        .setExcType(config.getExecType())
                        .setPythonExec(config.getPythonExec())
                        .setPythonHome(home(config, site))
                        .setWorkingDirectory(config.getWorkingDirectory());
        if (config.getPaths() != null) {
            builder.addPythonPaths(config.getPaths());
        }
        return builder.addPythonPaths(site.packages()).build();
    }

    /**
     * PyFlink takes the folder of an archive for a home. In that of a virtual environment the
     * interpreter finds no standard library and ends the whole TaskManager.
     */
    private static String home(PythonInterpreterConfig config, PythonSite site) {
        return config.getPythonHome() == null ? null : site.home();
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
