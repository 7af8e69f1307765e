package org.flinkagents.durable.api;

import java.io.Serializable;

/**
 * Base of agents written in Java: their methods {@code (Event, RunnerContext)} that have an {@link
 * Action} are the actions.
 *
 * <p>An agent is serialised when it is applied and read once in each subtask. Its fields are
 * configuration that all keys share: what an action learns belongs into {@link
 * RunnerContext#getShortTermMemory}, and what cannot be serialised (a client) into a transient
 * field that is made on first use.
 */
public abstract class Agent implements Serializable {
    private static final long serialVersionUID = 1L;
}
