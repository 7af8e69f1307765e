package org.flinkagents.durable.actions;

import java.lang.reflect.Constructor;
import java.lang.reflect.Field;
import java.lang.reflect.Method;
import java.lang.reflect.Modifier;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.Objects;
import org.flinkagents.durable.api.CallTimeoutException;
import org.flinkagents.durable.api.DurableExecutionException;
import org.flinkagents.durable.api.DurableSerializationException;
import org.flinkagents.durable.api.RecordTooLargeException;
import org.flinkagents.durable.api.RecordedCallException;

/**
 * Throwables as plain data, and throwables again. No Java serialisation: what is recorded is the
 * class, the message, the plain fields and the causes, so that a record holds no object graph and
 * runs nothing of its own when it is read.
 */
final class Failures {
    /** Bounds a chain whose causes form a ring. */
    static final int MAX_CAUSES = 16;

    private static final int MAX_FRAMES = 64;
    private static final int MAX_FIELDS = 32;
    private static final int MAX_MESSAGE = 16_384;
    private static final int MAX_TEXT = 2_048;

    private Failures() {}

    // ---------------------------------------------------------------- to plain data

    /** Never throws, whatever the throwable does. Its causes follow it in a list. Keeps X7. */
    static Map<String, Object> describe(Throwable error) {
        try {
            return describeWithCauses(error);
        } catch (Throwable hostile) { // without a description nobody would hear of its end
            return barely(error);
        }
    }

    private static Map<String, Object> barely(Throwable error) {
        Map<String, Object> plain = new LinkedHashMap<>();
        plain.put("class", error.getClass().getName());
        plain.put("message", "(it cannot be described)");
        plain.put("fields", Map.of());
        plain.put("own", false);
        plain.put("lineage", lineage(error.getClass()));
        plain.put("stack", List.of());
        plain.put("causes", List.of());
        return plain;
    }

    private static Map<String, Object> describeWithCauses(Throwable error) {
        Map<String, Object> plain = describeAlone(error, MAX_MESSAGE);
        plain.put("lineage", lineage(error.getClass()));
        plain.put("stack", stack(error));
        List<Map<String, Object>> causes = new ArrayList<>();
        Throwable cause = cause(error);
        while (cause != null && causes.size() < MAX_CAUSES) {
            causes.add(describeAlone(cause, MAX_TEXT));
            cause = cause(cause);
        }
        plain.put("causes", causes);
        return plain;
    }

    private static Map<String, Object> describeAlone(Throwable error, int maxMessage) {
        Map<String, Object> plain = new LinkedHashMap<>();
        plain.put("class", error.getClass().getName());
        plain.put("message", cut(message(error), maxMessage));
        Fields fields = new Fields(error);
        plain.put("fields", fields.plain);
        plain.put("own", fields.complete && isRebuilt(error, plain));
        return plain;
    }

    private static String cut(String text, int length) {
        return text == null || text.length() <= length ? text : text.substring(0, length);
    }

    private static String message(Throwable error) {
        try {
            return error.getMessage();
        } catch (Throwable hostile) {
            return "(getMessage() threw " + hostile.getClass().getName() + ")";
        }
    }

    /** Null if it has none, or does not say. */
    static Throwable cause(Throwable error) {
        try {
            Throwable cause = error.getCause();
            return cause == error ? null : cause;
        } catch (Throwable hostile) {
            return null;
        }
    }

    private static List<String> lineage(Class<?> type) {
        List<String> names = new ArrayList<>();
        for (Class<?> c = type; c != Object.class && c != null; c = c.getSuperclass()) {
            names.add(c.getName());
        }
        return names;
    }

    private static List<String> stack(Throwable error) {
        List<String> frames = new ArrayList<>();
        try {
            for (StackTraceElement frame : error.getStackTrace()) {
                if (frames.size() == MAX_FRAMES) {
                    break;
                }
                frames.add(frame.toString());
            }
        } catch (Throwable hostile) {
            return frames;
        }
        return frames;
    }

    private static boolean isRebuilt(Throwable error, Map<String, Object> plain) {
        try {
            Throwable again = rebuildOwn(plain, error.getClass(), null);
            return again != null
                    && Objects.equals(again.getMessage(), plain.get("message"))
                    && new Fields(again).plain.equals(plain.get("fields"));
        } catch (Throwable hostile) {
            return false;
        }
    }

    // ---------------------------------------------------------------- from plain data

    /** As its own class if that gives it back, else what stands for it. */
    @SuppressWarnings("unchecked")
    static Throwable rebuild(Map<String, Object> plain, ClassLoader loader) {
        Object python = plain.get("python");
        if (python != null) {
            return fromPython((String) python, (String) plain.get("message"));
        }
        Throwable cause = null;
        List<Object> causes = (List<Object>) plain.get("causes");
        for (int i = causes.size() - 1; i >= 0; i--) {
            cause = rebuildAlone((Map<String, Object>) causes.get(i), loader, cause);
        }
        Throwable error = rebuildAlone(plain, loader, cause);
        error.setStackTrace(frames(plain.get("stack")));
        return error;
    }

    private static Throwable rebuildAlone(
            Map<String, Object> plain, ClassLoader loader, Throwable cause) {
        Throwable error = null;
        if (Boolean.TRUE.equals(plain.get("own"))) {
            try {
                Class<?> type = Class.forName((String) plain.get("class"), false, loader);
                error = rebuildOwn(plain, type, cause);
            } catch (ReflectiveOperationException | LinkageError | RuntimeException gone) {
                error = null; // another version of the job: it is stood in for
            }
        }
        if (error == null) {
            error =
                    new RecordedCallException(
                            (String) plain.get("class"),
                            (String) plain.get("message"),
                            fields(plain),
                            cause);
            error.setStackTrace(new StackTraceElement[0]);
        }
        return error;
    }

    private static Throwable fromPython(String name, String message) {
        switch (name) {
            case "CallTimeoutError":
                return new CallTimeoutException(message);
            case "DurableSerializationError":
                return new DurableSerializationException(message);
            case "RecordTooLargeError":
                return new RecordTooLargeException(message);
            case "ValueError":
            case "TypeError":
                return new IllegalArgumentException(message);
            default:
                return new DurableExecutionException(name + ": " + message);
        }
    }

    @SuppressWarnings("unchecked")
    private static Map<String, Object> fields(Map<String, Object> plain) {
        return (Map<String, Object>) plain.get("fields");
    }

    /** Null if it has no constructor that fits. */
    private static Throwable rebuildOwn(Map<String, Object> plain, Class<?> type, Throwable cause)
            throws ReflectiveOperationException {
        if (!Throwable.class.isAssignableFrom(type)) {
            return null;
        }
        String message = (String) plain.get("message");
        Throwable error = construct(type, message);
        if (error == null) {
            return null;
        }
        new Fields(error).set(fields(plain));
        if (!Objects.equals(error.getMessage(), message)) {
            return null;
        }
        if (cause != null && error.getCause() == null) {
            try {
                error.initCause(cause);
            } catch (IllegalStateException fixed) {
                return null;
            }
        }
        return error;
    }

    private static Throwable construct(Class<?> type, String message)
            throws ReflectiveOperationException {
        if (message == null) {
            Throwable error = construct(type, new Class<?>[0]);
            if (error != null) {
                return error;
            }
        }
        return construct(type, new Class<?>[] {String.class}, message);
    }

    /** Null if there is none, or none that may be called. */
    private static Throwable construct(Class<?> type, Class<?>[] parameters, Object... arguments)
            throws ReflectiveOperationException {
        try {
            Constructor<?> constructor = type.getDeclaredConstructor(parameters);
            if (!Modifier.isPublic(type.getModifiers() & constructor.getModifiers())) {
                constructor.setAccessible(true);
            }
            return (Throwable) constructor.newInstance(arguments);
        } catch (NoSuchMethodException | RuntimeException none) {
            return null;
        }
    }

    private static StackTraceElement[] frames(Object stack) {
        if (stack == null) {
            return new StackTraceElement[0];
        }
        List<StackTraceElement> frames = new ArrayList<>();
        for (Object frame : (List<?>) stack) {
            frames.add(frame((String) frame));
        }
        return frames.toArray(new StackTraceElement[0]);
    }

    /** From {@code loader/module/package.Class.method(File.java:12)}. */
    private static StackTraceElement frame(String text) {
        int open = text.indexOf('(');
        String path = open < 0 ? text : text.substring(0, open);
        String source = open < 0 ? "" : text.substring(open + 1, text.length() - 1);
        String method = path.substring(path.lastIndexOf('.') + 1);
        String type = path.substring(path.lastIndexOf('/') + 1);
        type = type.contains(".") ? type.substring(0, type.lastIndexOf('.')) : type;
        int colon = source.lastIndexOf(':');
        int line = -1;
        if (colon > 0 && source.substring(colon + 1).matches("\\d{1,9}")) {
            line = Integer.parseInt(source.substring(colon + 1));
            source = source.substring(0, colon);
        }
        if (source.equals("Native Method")) {
            return new StackTraceElement(type, method, null, -2);
        }
        return new StackTraceElement(type, method, source, line);
    }

    // ---------------------------------------------------------------- fields

    /** What a throwable holds beside what every throwable has. */
    private static final class Fields {
        final Map<String, Object> plain = new LinkedHashMap<>();
        private final Map<String, Field> accessible = new LinkedHashMap<>();
        private final Throwable error;

        /** Whether {@link #plain} is all of it. */
        boolean complete = true;

        Fields(Throwable error) {
            this.error = error;
            try {
                readAll();
            } catch (LinkageError gone) { // a class of one of its fields is not there
                complete = false;
            }
        }

        private void readAll() {
            for (Class<?> c = error.getClass();
                    c != Throwable.class && c != null;
                    c = c.getSuperclass()) {
                for (Field field : c.getDeclaredFields()) {
                    if (!Modifier.isStatic(field.getModifiers()) && plain.size() < MAX_FIELDS) {
                        read(c, field);
                    }
                }
            }
        }

        private void read(Class<?> owner, Field field) {
            Object value;
            try {
                field.setAccessible(true);
                value = field.get(error);
                accessible.put(field.getName(), field);
            } catch (ReflectiveOperationException | RuntimeException closed) {
                value = property(owner, field.getName());
            }
            if (isPlain(value)) {
                plain.put(field.getName(), wide(value));
            } else {
                complete = false;
            }
        }

        /** A closed field, such as one of the JDK, by its getter. */
        private Object property(Class<?> owner, String field) {
            String lower = field.toLowerCase(Locale.ROOT);
            for (Method method : owner.getMethods()) {
                String name = method.getName().toLowerCase(Locale.ROOT);
                if (method.getParameterCount() == 0
                        && method.getDeclaringClass() == owner
                        && (name.equals("get" + lower) || name.equals("is" + lower))) {
                    try {
                        complete = false; // it can be read, not set
                        return method.invoke(error);
                    } catch (ReflectiveOperationException | RuntimeException hostile) {
                        return this;
                    }
                }
            }
            return this; // not plain
        }

        private static boolean isPlain(Object value) {
            return value == null
                    || value instanceof String
                    || value instanceof Boolean
                    || value instanceof Integer
                    || value instanceof Long
                    || value instanceof Short
                    || value instanceof Byte
                    || value instanceof Double
                    || value instanceof Float
                    || value instanceof Enum;
        }

        private static Object wide(Object value) {
            if (value instanceof String) {
                return cut((String) value, MAX_TEXT);
            }
            if (value instanceof Enum) {
                return ((Enum<?>) value).name();
            }
            if (value instanceof Integer || value instanceof Short || value instanceof Byte) {
                return ((Number) value).longValue();
            }
            return value instanceof Float ? (Object) ((Float) value).doubleValue() : value;
        }

        void set(Map<String, Object> values) throws ReflectiveOperationException {
            for (Map.Entry<String, Field> entry : accessible.entrySet()) {
                Object value = values.get(entry.getKey());
                Field field = entry.getValue();
                if (value != null || !field.getType().isPrimitive()) {
                    field.set(error, narrow(field.getType(), value));
                }
            }
        }

        @SuppressWarnings({"unchecked", "rawtypes"})
        private static Object narrow(Class<?> type, Object value) {
            if (type.isEnum() && value != null) {
                return Enum.valueOf((Class) type, (String) value);
            }
            if (!(value instanceof Number)) {
                return value;
            }
            Number number = (Number) value;
            if (type == int.class || type == Integer.class) {
                return number.intValue();
            }
            if (type == short.class || type == Short.class) {
                return number.shortValue();
            }
            if (type == byte.class || type == Byte.class) {
                return number.byteValue();
            }
            return type == float.class || type == Float.class
                    ? (Object) number.floatValue()
                    : value;
        }
    }
}
