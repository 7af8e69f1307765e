package org.flinkagents.durable.api;

import java.io.IOException;
import java.lang.reflect.Type;
import java.math.BigDecimal;
import java.math.BigInteger;
import java.util.Collection;
import java.util.List;
import java.util.Map;
import java.util.Set;
import org.apache.flink.shaded.jackson2.com.fasterxml.jackson.databind.DeserializationFeature;
import org.apache.flink.shaded.jackson2.com.fasterxml.jackson.databind.JavaType;
import org.apache.flink.shaded.jackson2.com.fasterxml.jackson.databind.ObjectMapper;
import org.apache.flink.shaded.jackson2.com.fasterxml.jackson.databind.SerializationFeature;
import org.apache.flink.shaded.jackson2.com.fasterxml.jackson.datatype.jdk8.Jdk8Module;
import org.apache.flink.shaded.jackson2.com.fasterxml.jackson.datatype.jsr310.JavaTimeModule;

/**
 * Values of user code as plain ones, and back: null, Boolean, Long, Double, String, byte[], lists
 * and maps of texts to them. Beans go through Flink's own Jackson.
 */
public final class Values {
    private static final ObjectMapper MAPPER =
            new ObjectMapper()
                    .registerModule(new Jdk8Module())
                    .registerModule(new JavaTimeModule())
                    .disable(SerializationFeature.WRITE_DATES_AS_TIMESTAMPS)
                    .disable(SerializationFeature.WRITE_DURATIONS_AS_TIMESTAMPS)
                    .disable(DeserializationFeature.FAIL_ON_UNKNOWN_PROPERTIES);

    static {
        MAPPER.registerModule(SetOrder.module(MAPPER));
    }

    private Values() {}

    /** The items of a set in an order that does not depend on the JVM. */
    public static Collection<?> ordered(Set<?> set) {
        try {
            return SetOrder.of(set, MAPPER);
        } catch (IOException | StackOverflowError e) {
            throw new DurableSerializationException(
                    "A set has an item without a form as JSON has it: " + e.getMessage(), e);
        }
    }

    /**
     * A bean and the like as maps, lists and scalars; what Jackson knows nothing of is an error.
     */
    public static Object plain(Object value) {
        if (value instanceof BigInteger || value instanceof BigDecimal) {
            return value.toString();
        }
        try {
            return MAPPER.convertValue(value, Object.class);
        } catch (IllegalArgumentException | StackOverflowError e) {
            throw new DurableSerializationException(
                    "A value of "
                            + value.getClass().getName()
                            + " has no form as JSON has it: "
                            + e.getMessage(),
                    e);
        }
    }

    /** A plain value as the class that user code asks for. */
    public static <T> T convert(Object plain, Class<T> type) {
        return type.cast(convert(plain, (Type) type));
    }

    /** A plain value as the type that user code asks for. */
    public static Object convert(Object plain, Type type) {
        if (plain == null || type == Object.class || isIt(plain, type)) {
            return plain;
        }
        try {
            JavaType target = MAPPER.constructType(type);
            return MAPPER.convertValue(plain, target);
        } catch (IllegalArgumentException e) {
            throw new DurableSerializationException(
                    "A recorded value is no " + type.getTypeName() + ": " + e.getMessage(), e);
        }
    }

    private static boolean isIt(Object plain, Type type) {
        if (type == String.class || type == Long.class || type == Double.class) {
            return plain.getClass() == type;
        }
        if (type == Integer.class && plain instanceof Long) {
            return false;
        }
        return type instanceof Class
                && ((Class<?>) type).isInstance(plain)
                && (plain instanceof List
                        || plain instanceof Map
                        || plain instanceof byte[]
                        || plain instanceof Boolean);
    }
}
