package org.flinkagents.durable;

import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;

/** A Python half that answers as a test says, and remembers what it was asked. */
final class FakePython implements PythonRuntime {
    static final int FIRST_GROUP = 0;

    final List<String> calls = new ArrayList<>();
    final List<Object[]> arguments = new ArrayList<>();
    private final Map<String, Method> methods = new HashMap<>();
    AgentHost host;
    Map<String, Object> settings;
    boolean closed;

    FakePython() {
        on(
                "snapshot",
                arguments -> {
                    int groups =
                            (int) settings.get("last_group")
                                    - (int) settings.get("first_group")
                                    + 1;
                    Object[] blobs = new Object[groups];
                    java.util.Arrays.fill(blobs, new byte[0]);
                    return new Object[] {List.of(blobs), List.of()};
                });
    }

    @FunctionalInterface
    interface Method {
        Object call(Object[] arguments) throws Exception;
    }

    FakePython on(String method, Method answer) {
        methods.put(method, answer);
        return this;
    }

    FakePython answer(String method, Object result) {
        return on(method, arguments -> result);
    }

    PythonRuntimeFactory factory() {
        return (task, context, host, settings) -> {
            this.host = host;
            this.settings = settings;
            return this;
        };
    }

    @Override
    public Object call(String method, Object... arguments) throws Exception {
        calls.add(method);
        this.arguments.add(arguments);
        Method answer = methods.get(method);
        return answer == null ? null : answer.call(arguments);
    }

    @Override
    public void close() {
        closed = true;
    }

    /** The arguments of the only or last call of a method. */
    Object[] argumentsOf(String method) {
        return arguments.get(calls.lastIndexOf(method));
    }

    long count(String method) {
        return calls.stream().filter(method::equals).count();
    }

    /** A result as the Python operator returns it. */
    static Object[] result(long inFlight, long live, long flags, Object... items) {
        Object[] result = new Object[3 + items.length];
        result[0] = inFlight;
        result[1] = live;
        result[2] = flags;
        System.arraycopy(items, 0, result, 3, items.length);
        return result;
    }
}
