package org.flinkagents.durable.program;

import java.lang.reflect.Method;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Deque;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import org.flinkagents.durable.api.Action;
import org.flinkagents.durable.api.Agent;
import org.flinkagents.durable.api.Event;
import org.flinkagents.durable.api.InputEvent;
import org.flinkagents.durable.api.OutputEvent;
import org.flinkagents.durable.api.RunnerContext;

/** The annotated methods of an agent, checked before the job is submitted. */
final class AgentActions {
    private static final Set<String> FAILURES = Set.of("", "fail", "skip", "dead-letter");

    private final List<Action> marks = new ArrayList<>();
    private final List<List<Object>> described = new ArrayList<>();

    private AgentActions() {}

    static AgentActions of(Agent agent) {
        Class<?> type = agent.getClass();
        AgentActions actions = new AgentActions();
        marked(type).forEach((method, mark) -> actions.add(type, method, mark));
        if (actions.marks.isEmpty()) {
            throw new IllegalArgumentException(
                    type.getName()
                            + " has no actions: mark a method (Event, RunnerContext) with"
                            + " @Action(InputEvent.EVENT_TYPE)");
        }
        return actions;
    }

    /** Whether one of them overrides what happens at a failure with this. */
    boolean have(String onFailure) {
        return marks.stream().anyMatch(mark -> mark.onFailure().equals(onFailure));
    }

    /** Name, types of events, what happens at a failure. */
    List<List<Object>> described() {
        return described;
    }

    /** From the base class down; an override without a mark keeps that of what it overrides. */
    private static Map<Method, Action> marked(Class<?> type) {
        Deque<Class<?>> classes = new ArrayDeque<>();
        for (Class<?> c = type; c != Agent.class && c != null; c = c.getSuperclass()) {
            classes.push(c);
        }
        Map<String, Method> methods = new LinkedHashMap<>();
        Map<String, Action> marks = new LinkedHashMap<>();
        for (Class<?> c : classes) {
            for (Method method : declared(c)) {
                Action mark = method.getAnnotation(Action.class);
                String signature = method.getName() + Arrays.toString(method.getParameterTypes());
                if (mark != null) {
                    marks.put(signature, mark);
                }
                if (marks.containsKey(signature)) {
                    methods.put(signature, method);
                }
            }
        }
        Map<Method, Action> marked = new LinkedHashMap<>();
        methods.forEach((signature, method) -> marked.put(method, marks.get(signature)));
        return marked;
    }

    /** In an order that is the same in every JVM, unlike that of reflection. */
    private static List<Method> declared(Class<?> type) {
        List<Method> methods = new ArrayList<>(Arrays.asList(type.getDeclaredMethods()));
        methods.removeIf(Method::isBridge);
        methods.sort((a, b) -> a.toString().compareTo(b.toString()));
        return methods;
    }

    private void add(Class<?> type, Method method, Action mark) {
        String name = method.getName();
        String label = type.getName() + "." + name;
        if (described.stream().anyMatch(other -> other.get(0).equals(name))) {
            throw new IllegalArgumentException(label + ": two actions have this name");
        }
        if (mark.value().length == 0) {
            throw new IllegalArgumentException(
                    label + ": an action needs an event that triggers it");
        }
        if (!FAILURES.contains(mark.onFailure())) {
            throw new IllegalArgumentException(
                    label
                            + ": onFailure is fail, skip or dead-letter, not '"
                            + mark.onFailure()
                            + "'");
        }
        checkSignature(label, method, mark);
        marks.add(mark);
        described.add(List.of(name, List.of(mark.value()), mark.onFailure()));
    }

    private static void checkSignature(String label, Method method, Action mark) {
        Class<?>[] parameters = method.getParameterTypes();
        if (parameters.length != 2 || parameters[1] != RunnerContext.class) {
            throw new IllegalArgumentException(label + " must take (Event, RunnerContext)");
        }
        for (String trigger : mark.value()) {
            Class<?> event = Event.class;
            if (trigger.equals(InputEvent.EVENT_TYPE)) {
                event = InputEvent.class;
            } else if (trigger.equals(OutputEvent.EVENT_TYPE)) {
                event = OutputEvent.class;
            }
            if (!Event.class.isAssignableFrom(parameters[0])
                    || !parameters[0].isAssignableFrom(event)) {
                throw new IllegalArgumentException(
                        label
                                + " takes a "
                                + parameters[0].getSimpleName()
                                + ", and the event '"
                                + trigger
                                + "' is a "
                                + event.getSimpleName());
            }
        }
    }
}
