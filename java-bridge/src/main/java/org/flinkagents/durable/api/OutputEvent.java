package org.flinkagents.durable.api;

import java.util.Collections;

/** Sent by an action to emit a record to the output stream. */
public final class OutputEvent extends Event {
    public static final String EVENT_TYPE = "_output_event";

    public OutputEvent(Object output) {
        super(EVENT_TYPE, Collections.singletonMap("output", output));
    }

    public Object getOutput() {
        return getAttr("output");
    }
}
