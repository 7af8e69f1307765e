package org.flinkagents.durable.actions;

/**
 * Unwinds an action that nobody resumes any more. An Error, so that {@code catch (Exception)} in
 * user code never swallows the end of its task.
 */
final class AbandonedError extends Error {
    private static final long serialVersionUID = 1L;

    AbandonedError() {
        super("This action has been abandoned: its task attempt has ended", null, false, false);
    }
}
