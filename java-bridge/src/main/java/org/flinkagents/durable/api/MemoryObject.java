package org.flinkagents.durable.api;

import java.util.List;
import java.util.Map;

/**
 * Memory of a key below one path. Paths are names joined by dots. {@code get} gives a copy, {@code
 * set} persists. An execution reads its own writes and those of executions that have completed; on
 * replay it reads what it read.
 */
public interface MemoryObject {

    /** The value at a path, a {@link MemoryObject} where there is an object, or null. */
    Object get(String path);

    /** The value at a path as a bean or another class, or null. */
    <T> T get(String path, Class<T> type);

    void set(String path, Object value);

    boolean isExist(String path);

    void remove(String path);

    MemoryObject newObject(String path, boolean overwrite);

    List<String> getFieldNames();

    /** Values by name; an object below this one is given as the text NestedObject. */
    Map<String, Object> getFields();
}
