package org.flinkagents.durable.actions;

import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Method;
import java.lang.reflect.Modifier;
import java.util.List;
import org.flinkagents.durable.api.DurableExecutionException;
import org.flinkagents.durable.api.Values;

/** A static method that Python calls, on a worker. */
final class StaticMethod {
    private StaticMethod() {}

    static Object call(ClassLoader loader, String className, String name, List<Object> arguments)
            throws Exception {
        Class<?> type;
        try {
            type = Class.forName(className, true, loader);
        } catch (ClassNotFoundException e) {
            throw new DurableExecutionException(
                    "There is no class "
                            + className
                            + ". Is its jar with the job, or in Flink's lib?",
                    e);
        }
        for (Method method : type.getDeclaredMethods()) {
            if (method.getName().equals(name)
                    && Modifier.isStatic(method.getModifiers())
                    && method.getParameterCount() == arguments.size()) {
                return invoke(method, arguments);
            }
        }
        throw new DurableExecutionException(
                className
                        + " has no static method "
                        + name
                        + " of "
                        + arguments.size()
                        + " parameters");
    }

    private static Object invoke(Method method, List<Object> arguments) throws Exception {
        Object[] converted = new Object[arguments.size()];
        for (int i = 0; i < converted.length; i++) {
            converted[i] = Values.convert(arguments.get(i), method.getGenericParameterTypes()[i]);
        }
        method.setAccessible(true);
        try {
            return method.invoke(null, converted);
        } catch (InvocationTargetException e) {
            throw StaticMethod.<Exception>as(e.getCause());
        }
    }

    /** Whatever its class: a method may throw what is neither an exception nor an error. */
    @SuppressWarnings("unchecked")
    private static <E extends Throwable> E as(Throwable thrown) throws E {
        throw (E) thrown;
    }
}
