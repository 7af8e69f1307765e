package org.flinkagents.durable.actions;

import java.lang.reflect.Type;
import java.util.concurrent.Callable;
import org.flinkagents.durable.api.CallOptions;
import org.flinkagents.durable.api.DurableCallable;
import org.flinkagents.durable.api.DurableFuture;
import org.flinkagents.durable.api.Outcome;

/** A durable call of one execution: cold, then planned, then with an outcome. */
final class FutureImpl<T> implements DurableFuture<T> {
    final ActionContext owner;
    final int number;
    final DurableCallable<T> callable;
    final CallOptions options;
    final Callable<T> reconciler;
    final String functionId;
    int slot = -1;
    private Outcome<T> outcome;

    FutureImpl(ActionContext owner, int number, DurableCallable<T> callable, CallOptions options) {
        this.owner = owner;
        this.number = number;
        this.callable = callable;
        this.options = options;
        this.reconciler = callable.reconciler();
        this.functionId = "java:" + callable.getId();
    }

    boolean isCold() {
        return slot < 0;
    }

    boolean isDone() {
        return outcome != null;
    }

    Type resultType() {
        return callable.getResultType();
    }

    Outcome<T> outcome() {
        return outcome;
    }

    void resolve(Outcome<T> outcome) {
        this.outcome = outcome;
    }

    @Override
    public String toString() {
        String state = isDone() ? "done" : isCold() ? "cold" : "pending";
        return "DurableFuture(" + functionId + ", " + state + ")";
    }
}
