package org.flinkagents.durable.actions;

/** A body that can stop in the middle and go on later. Used on the task thread alone. */
abstract class Coroutine {

    /** Runs the body until it suspends or ends. */
    abstract void resume();

    /**
     * Stops the body here until {@link #resume}; called by the body itself.
     *
     * @return false if it cannot stop here, so that nothing happened
     */
    abstract boolean suspend();

    /** Lets the task go on without the body, which swallows that nobody resumes it any more. */
    abstract void leave();
}
