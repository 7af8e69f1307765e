package org.flinkagents.durable;

import java.util.List;

/** Values as they arrive from Python. */
final class PythonValues {
    private PythonValues() {}

    /** A tuple arrives as an array, a list as a java.util.List. */
    static Object[] array(Object sequence) {
        return sequence instanceof List ? ((List<?>) sequence).toArray() : (Object[]) sequence;
    }
}
