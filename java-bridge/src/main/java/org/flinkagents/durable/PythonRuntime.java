package org.flinkagents.durable;

/** The Python half of one operator. All methods are called on the task thread. */
interface PythonRuntime {

    /**
     * Calls a method of the Python operator. {@code None} is null, {@code int} Long, {@code bytes}
     * byte[], a tuple Object[], a list a java.util.List.
     */
    Object call(String method, Object... arguments) throws Exception;

    /**
     * Stops what runs in Python, in bounded time. What is still running then keeps its interpreter:
     * closing one with a call inside crashes the JVM.
     */
    void close() throws Exception;
}
