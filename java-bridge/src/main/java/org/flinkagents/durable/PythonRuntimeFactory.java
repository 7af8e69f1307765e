package org.flinkagents.durable;

import java.io.Serializable;
import java.util.Map;
import org.apache.flink.streaming.api.operators.StreamingRuntimeContext;
import org.apache.flink.streaming.runtime.tasks.StreamTask;

/** Opens the Python half of an operator on the task thread. */
@FunctionalInterface
interface PythonRuntimeFactory extends Serializable {

    PythonRuntime open(
            StreamTask<?, ?> task,
            StreamingRuntimeContext context,
            AgentHost host,
            Map<String, Object> settings)
            throws Exception;
}
