package org.flinkagents.durable.api;

/** How one call of a batch ended. */
public final class Outcome<T> {
    private final T value;
    private final Throwable error;

    private Outcome(T value, Throwable error) {
        this.value = value;
        this.error = error;
    }

    public static <T> Outcome<T> success(T value) {
        return new Outcome<>(value, null);
    }

    public static <T> Outcome<T> failure(Throwable error) {
        return new Outcome<>(null, error);
    }

    public boolean isSuccess() {
        return error == null;
    }

    public boolean isFailure() {
        return error != null;
    }

    /** The value; throws the error of a failed call. */
    public T getValue() throws Exception {
        if (error != null) {
            throw Outcome.<Exception>as(error);
        }
        return value;
    }

    /** Whatever its class: a call may throw what is neither an exception nor an error. */
    @SuppressWarnings("unchecked")
    private static <E extends Throwable> E as(Throwable error) throws E {
        throw (E) error;
    }

    /** The error, or null. */
    public Throwable getError() {
        return error;
    }

    @Override
    public String toString() {
        return error == null ? "Outcome.success(" + value + ")" : "Outcome.failure(" + error + ")";
    }
}
