package org.flinkagents.durable.actions;

import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Method;
import java.lang.reflect.Modifier;
import org.flinkagents.durable.api.DurableExecutionException;
import org.flinkagents.durable.api.Event;
import org.flinkagents.durable.api.RunnerContext;

/** A method {@code (Event, RunnerContext)}: static, of the agent, or of an object of its class. */
final class ActionMethod {
    private final Method method;
    private final Object target;

    private ActionMethod(Method method, Object target) {
        this.method = method;
        this.target = target;
    }

    static ActionMethod find(Object agent, ClassLoader loader, String className, String name) {
        Class<?> type;
        try {
            // Initialised here: an initialiser under a continuation would pin it.
            type = Class.forName(className, true, loader);
        } catch (ClassNotFoundException | LinkageError e) {
            throw new DurableExecutionException(
                    "There is no class "
                            + className
                            + " for an action. Is its jar with the job, or in Flink's lib?",
                    e);
        }
        Method method = find(type, name);
        method.setAccessible(true);
        return new ActionMethod(
                method, Modifier.isStatic(method.getModifiers()) ? null : target(agent, type));
    }

    private static Method find(Class<?> type, String name) {
        for (Class<?> c = type; c != null; c = c.getSuperclass()) {
            for (Method method : c.getDeclaredMethods()) {
                if (method.getName().equals(name) && isAction(method)) {
                    return method;
                }
            }
        }
        throw new DurableExecutionException(
                type.getName() + " has no method " + name + "(Event, RunnerContext)");
    }

    static boolean isAction(Method method) {
        Class<?>[] parameters = method.getParameterTypes();
        return parameters.length == 2
                && Event.class.isAssignableFrom(parameters[0])
                && parameters[1] == RunnerContext.class
                && !method.isBridge();
    }

    private static Object target(Object agent, Class<?> type) {
        return agent != null && agent.getClass() == type ? agent : instance(type);
    }

    private static Object instance(Class<?> type) {
        try {
            var constructor = type.getDeclaredConstructor();
            constructor.setAccessible(true);
            return constructor.newInstance();
        } catch (ReflectiveOperationException e) {
            throw new DurableExecutionException(
                    type.getName()
                            + " has no constructor without parameters that works: give it one, or"
                            + " make its actions static",
                    e);
        }
    }

    void invoke(Event event, RunnerContext context) throws Throwable {
        try {
            method.invoke(target, event, context);
        } catch (InvocationTargetException e) {
            throw e.getCause();
        }
    }
}
