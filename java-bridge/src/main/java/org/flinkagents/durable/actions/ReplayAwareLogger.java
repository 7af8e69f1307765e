package org.flinkagents.durable.actions;

import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Proxy;
import java.util.Set;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/** Keeps silent about what was said before the failure, and names action and key. */
final class ReplayAwareLogger {
    private static final Logger LOG = LoggerFactory.getLogger("org.flinkagents.durable.action");
    private static final Set<String> LEVELS = Set.of("trace", "debug", "info", "warn", "error");

    private ReplayAwareLogger() {}

    static Logger of(Execution execution, String key) {
        String prefix = "[key=" + key + " action=" + execution.action() + "] ";
        return (Logger)
                Proxy.newProxyInstance(
                        Logger.class.getClassLoader(),
                        new Class<?>[] {Logger.class},
                        (proxy, method, arguments) -> {
                            boolean logs = LEVELS.contains(method.getName());
                            if (execution.isReplaying()) {
                                if (logs) {
                                    return null;
                                }
                                if (method.getReturnType() == boolean.class) {
                                    return false;
                                }
                            }
                            if (logs) {
                                int text = arguments[0] instanceof String ? 0 : 1;
                                arguments[text] = prefix + arguments[text];
                            }
                            try {
                                return method.invoke(LOG, arguments);
                            } catch (InvocationTargetException e) {
                                throw e.getCause();
                            }
                        });
    }
}
