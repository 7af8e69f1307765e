package org.flinkagents.durable.api;

import java.lang.annotation.ElementType;
import java.lang.annotation.Retention;
import java.lang.annotation.RetentionPolicy;
import java.lang.annotation.Target;

/** Marks a method {@code (Event, RunnerContext)} of an agent as an action. */
@Retention(RetentionPolicy.RUNTIME)
@Target(ElementType.METHOD)
public @interface Action {
    /** Types of the events that trigger it: {@link InputEvent#EVENT_TYPE}, or one of your own. */
    String[] value();

    /** Overrides {@code agents.action-failure}: fail, skip or dead-letter; empty: it does not. */
    String onFailure() default "";
}
