package org.flinkagents.durable.actions;

import java.util.List;
import java.util.Map;
import org.flinkagents.durable.api.DurableCallable;

/** A call of a tool, which the engine finds by its name and runs itself. */
final class ToolCall<T> implements DurableCallable<T> {
    private final String tool;
    private final Map<String, ?> arguments;
    private final Class<T> resultClass;

    ToolCall(String tool, Map<String, ?> arguments, Class<T> resultClass) {
        this.tool = tool;
        this.arguments = arguments;
        this.resultClass = resultClass;
    }

    @Override
    public String getId() {
        return "tool." + tool;
    }

    @Override
    public Class<T> getResultClass() {
        return resultClass;
    }

    @Override
    public List<?> arguments() {
        return List.of(tool, arguments);
    }

    @Override
    public T call() {
        throw new IllegalStateException("The engine runs the tool " + tool);
    }
}
