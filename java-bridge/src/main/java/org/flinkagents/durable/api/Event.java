package org.flinkagents.durable.api;

import java.util.LinkedHashMap;
import java.util.Map;
import java.util.Objects;
import java.util.UUID;

/**
 * Something that happened, with a type that actions are triggered by and attributes. Attributes are
 * values as JSON has them, and {@code byte[]}; beans become maps when the event is sent. What is
 * set after the event was sent has no effect on the sent one.
 */
public class Event {
    private final String type;
    private final Map<String, Object> attributes;
    private UUID id;
    private Long sourceTimestamp;

    public Event(String type, Map<String, ?> attributes) {
        this.type = Objects.requireNonNull(type, "type");
        this.attributes = new LinkedHashMap<>(attributes);
    }

    public Event(String type) {
        this(type, Map.of());
    }

    public final String getType() {
        return type;
    }

    public final Map<String, Object> getAttributes() {
        return attributes;
    }

    /** The attribute of this name, or null. */
    public final Object getAttr(String name) {
        return attributes.get(name);
    }

    /** The attribute of this name as a bean or another class, or null. */
    public final <T> T getAttr(String name, Class<T> type) {
        return Values.convert(attributes.get(name), type);
    }

    public final void setAttr(String name, Object value) {
        attributes.put(name, value);
    }

    /** The id of an event that triggered an action; null of one that has not been sent. */
    public final UUID getId() {
        return id;
    }

    /** Event time in milliseconds, or null. */
    public final Long getSourceTimestamp() {
        return sourceTimestamp;
    }

    /** An event as an action gets it. */
    public static Event received(
            String type, Map<String, Object> attributes, UUID id, Long sourceTimestamp) {
        Event event;
        if (type.equals(InputEvent.EVENT_TYPE)) {
            event = new InputEvent(attributes.get("input"));
        } else if (type.equals(OutputEvent.EVENT_TYPE)) {
            event = new OutputEvent(attributes.get("output"));
        } else {
            event = new Event(type, attributes);
        }
        event.id = id;
        event.sourceTimestamp = sourceTimestamp;
        return event;
    }

    @Override
    public String toString() {
        return getClass().getSimpleName() + "(" + type + ", " + attributes + ")";
    }
}
