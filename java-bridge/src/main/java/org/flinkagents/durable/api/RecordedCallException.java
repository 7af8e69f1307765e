package org.flinkagents.durable.api;

import java.util.Map;

/**
 * Stands for a recorded exception that cannot be rebuilt as its own class. Its text is {@code
 * <class>: <message>}; its causes are those of the original, as far as they can be had.
 */
public class RecordedCallException extends RuntimeException {
    private static final long serialVersionUID = 1L;

    private final String recordedClass;
    private final transient Map<String, Object> fields;

    public RecordedCallException(
            String recordedClass, String message, Map<String, Object> fields, Throwable cause) {
        super(message == null ? recordedClass : recordedClass + ": " + message, cause);
        this.recordedClass = recordedClass;
        this.fields = fields;
    }

    /** The name of the original's class. */
    public String getRecordedClass() {
        return recordedClass;
    }

    /** The plain fields of the original, such as a status code. */
    public Map<String, Object> getFields() {
        return fields == null ? Map.of() : fields;
    }

    @Override
    public String toString() {
        return getMessage();
    }
}
