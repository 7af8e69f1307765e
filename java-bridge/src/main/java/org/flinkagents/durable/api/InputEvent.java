package org.flinkagents.durable.api;

import java.util.Collections;

/** The event that an input of the stream causes. */
public final class InputEvent extends Event {
    public static final String EVENT_TYPE = "_input_event";

    public InputEvent(Object input) {
        super(EVENT_TYPE, Collections.singletonMap("input", input));
    }

    /** The input record: a text, a number, a map, a list, ... */
    public Object getInput() {
        return getAttr("input");
    }

    /** The input record as a bean or another class. */
    public <T> T getInput(Class<T> type) {
        return getAttr("input", type);
    }
}
