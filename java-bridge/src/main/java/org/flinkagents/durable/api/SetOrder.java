package org.flinkagents.durable.api;

import java.io.IOException;
import java.util.ArrayList;
import java.util.Collection;
import java.util.EnumSet;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.SortedSet;
import java.util.TreeMap;
import org.apache.flink.shaded.jackson2.com.fasterxml.jackson.core.JsonGenerator;
import org.apache.flink.shaded.jackson2.com.fasterxml.jackson.databind.BeanDescription;
import org.apache.flink.shaded.jackson2.com.fasterxml.jackson.databind.BeanProperty;
import org.apache.flink.shaded.jackson2.com.fasterxml.jackson.databind.JavaType;
import org.apache.flink.shaded.jackson2.com.fasterxml.jackson.databind.JsonMappingException;
import org.apache.flink.shaded.jackson2.com.fasterxml.jackson.databind.JsonSerializer;
import org.apache.flink.shaded.jackson2.com.fasterxml.jackson.databind.ObjectMapper;
import org.apache.flink.shaded.jackson2.com.fasterxml.jackson.databind.SerializationConfig;
import org.apache.flink.shaded.jackson2.com.fasterxml.jackson.databind.SerializerProvider;
import org.apache.flink.shaded.jackson2.com.fasterxml.jackson.databind.jsontype.TypeSerializer;
import org.apache.flink.shaded.jackson2.com.fasterxml.jackson.databind.module.SimpleModule;
import org.apache.flink.shaded.jackson2.com.fasterxml.jackson.databind.ser.BeanSerializerModifier;
import org.apache.flink.shaded.jackson2.com.fasterxml.jackson.databind.ser.ContainerSerializer;
import org.apache.flink.shaded.jackson2.com.fasterxml.jackson.databind.ser.ContextualSerializer;
import org.apache.flink.shaded.jackson2.com.fasterxml.jackson.databind.type.CollectionType;

/**
 * Gives sets an order. That of {@code Set.of} is another one in each JVM, that of a hash set of
 * enums too, and calls, events and keys are told apart by what is written. Keeps D1 and K3.
 */
final class SetOrder {
    private SetOrder() {}

    /** The same for equal sets in every JVM; a set that has an order of its own keeps that. */
    static Collection<?> of(Set<?> set, ObjectMapper mapper) throws IOException {
        if (set.size() < 2
                || set instanceof SortedSet
                || set instanceof LinkedHashSet
                || set instanceof EnumSet) {
            return set;
        }
        Map<String, List<Object>> sorted = new TreeMap<>();
        for (Object item : set) {
            String text = mapper.writeValueAsString(item);
            sorted.computeIfAbsent(text, t -> new ArrayList<>(1)).add(item);
        }
        List<Object> items = new ArrayList<>(set.size());
        sorted.values().forEach(items::addAll);
        return items;
    }

    /** For the sets inside beans. */
    static SimpleModule module(ObjectMapper mapper) {
        return new SimpleModule("set order")
                .setSerializerModifier(
                        new BeanSerializerModifier() {
                            @Override
                            @SuppressWarnings("unchecked")
                            public JsonSerializer<?> modifyCollectionSerializer(
                                    SerializationConfig config,
                                    CollectionType type,
                                    BeanDescription bean,
                                    JsonSerializer<?> serializer) {
                                return Set.class.isAssignableFrom(type.getRawClass())
                                        ? new InBeans((JsonSerializer<Object>) serializer, mapper)
                                        : serializer;
                            }
                        });
    }

    /** Jackson's own serializer, which is given the items in their order. */
    private static final class InBeans extends ContainerSerializer<Object>
            implements ContextualSerializer {
        private static final long serialVersionUID = 1L;

        private final transient JsonSerializer<Object> inner;
        private final transient ObjectMapper mapper;

        InBeans(JsonSerializer<Object> inner, ObjectMapper mapper) {
            super(Object.class);
            this.inner = inner;
            this.mapper = mapper;
        }

        @Override
        @SuppressWarnings("unchecked")
        public JsonSerializer<?> createContextual(
                SerializerProvider provider, BeanProperty property) throws JsonMappingException {
            return new InBeans(
                    (JsonSerializer<Object>)
                            provider.handleSecondaryContextualization(inner, property),
                    mapper);
        }

        /** Jackson gives the types of items, where a bean asks for them, to containers alone. */
        @Override
        @SuppressWarnings("unchecked")
        protected ContainerSerializer<?> _withValueTypeSerializer(TypeSerializer type) {
            if (!(inner instanceof ContainerSerializer)) {
                return this;
            }
            ContainerSerializer<?> typed =
                    ((ContainerSerializer<?>) inner).withValueTypeSerializer(type);
            return new InBeans((JsonSerializer<Object>) (JsonSerializer<?>) typed, mapper);
        }

        @Override
        public JavaType getContentType() {
            return inner instanceof ContainerSerializer
                    ? ((ContainerSerializer<Object>) inner).getContentType()
                    : null;
        }

        @Override
        public JsonSerializer<?> getContentSerializer() {
            return inner instanceof ContainerSerializer
                    ? ((ContainerSerializer<Object>) inner).getContentSerializer()
                    : null;
        }

        @Override
        public boolean hasSingleElement(Object value) {
            return ((Set<?>) value).size() == 1;
        }

        @Override
        public boolean isEmpty(SerializerProvider provider, Object value) {
            return inner.isEmpty(provider, value);
        }

        @Override
        public void serialize(Object value, JsonGenerator out, SerializerProvider provider)
                throws IOException {
            inner.serialize(SetOrder.of((Set<?>) value, mapper), out, provider);
        }

        @Override
        public void serializeWithType(
                Object value, JsonGenerator out, SerializerProvider provider, TypeSerializer type)
                throws IOException {
            inner.serializeWithType(SetOrder.of((Set<?>) value, mapper), out, provider, type);
        }
    }
}
