"""The errors of the package, each for one thing that a user can do something about."""

from __future__ import annotations


class DurableExecutionError(Exception):
    """Base of the errors that the durable runtime raises."""


class ConfigurationError(DurableExecutionError):
    """An option, an agent or a job is set up in a way that cannot work. Raised when the job is built."""


class CallTimeoutError(DurableExecutionError, TimeoutError):
    """A durable call, or a batch of them, did not finish in its time."""


class AwakeableFailedError(DurableExecutionError):
    """An awakeable was resolved by `awakeable_failure`. It is final: uncaught, it fails its action again on replay."""


class UnresolvedAwakeablesError(DurableExecutionError):
    """The input has ended, and runs still wait for awakeables that nothing can resolve any more."""


class DurableSerializationError(DurableExecutionError):
    """A value has to be recorded and cannot be serialised."""


class RecordTooLargeError(DurableExecutionError):
    """A record is larger than the action state store takes."""


class NonDeterministicActionError(DurableExecutionError):
    """On replay an action asked for another call than the one that was recorded (`mismatch-policy=fail`)."""


class StoreUnavailableError(DurableExecutionError):
    """The action state store cannot be reached or cannot write, and retries did not help."""


class RealIOError(DurableExecutionError):
    """An action tried to do real I/O or to use a thread; `ctx.durable_execute_async` is the way."""


class StalledActionError(DurableExecutionError):
    """An action waits for something that the engine does not know and that can never come."""


class MaxStepsExceededError(DurableExecutionError):
    """The ReAct agent took more steps than `max_steps` without an answer."""


class ActionFailedError(DurableExecutionError):
    """An action ended with an uncaught exception, which is the cause of this error."""


class AttemptEndedError(DurableExecutionError):
    """The task attempt ends without a failure of its own: an interruption or an append of unknown fate.

    Nothing is recorded for the call that was interrupted; it runs again after the restart.
    """


class RecordedCallError(RuntimeError):
    """Stands for a recorded exception that cannot be rebuilt. Its text is `"<class path>: <message>"`."""


class UnreadableRecordError(RuntimeError):
    """A record cannot be read: an unknown version, or a field that is missing or of another type."""
