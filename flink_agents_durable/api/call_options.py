"""Options of one durable call."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Generic, ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")

Duration = float | int | timedelta
"""Seconds, or a timedelta."""


def seconds(duration: Duration) -> float:
    """A duration in seconds."""
    return duration.total_seconds() if isinstance(duration, timedelta) else float(duration)


RetryOn = type[BaseException] | tuple[type[BaseException], ...] | Callable[[Any], bool]
"""Which failures are tried again: a class, several, or a predicate."""


@dataclass(frozen=True)
class RetryPolicy:
    """How often and when a failed call is tried again. Durations are seconds or timedelta.

    `max_attempts` counts the first attempt too. The wait before attempt n + 1 is `initial_interval` times
    `backoff_factor` to the power of n - 1, at most `max_interval`; `jitter` shortens it by up to a half, by an
    amount that depends on the call alone. `retry_on` says which failures are tried again; `retry_after` may give
    the wait for one, say that of a server's own advice, instead of the back-off (None: the back-off). Both run
    on the task thread and must be quick; when one of them raises, the failure that it was asked about is final.

    Each failed attempt is recorded before its wait begins: after a restart the count goes on, and only the rest
    of the wait is waited for. Attempts that a crash ended are not counted. A failure that ends the last attempt
    and that nothing catches fails the task; then the call starts with a fresh count. An interruption, and a
    result that cannot be recorded, are never tried again; neither is what a reconciler raises.

    Raises TypeError or ValueError for values that make no policy.
    """

    max_attempts: int = 3
    initial_interval: Duration = 1.0
    backoff_factor: float = 2.0
    max_interval: Duration = 60.0
    jitter: bool = True
    retry_on: RetryOn = Exception
    retry_after: Callable[[Any], Duration | None] | None = None

    def __post_init__(self) -> None:
        if isinstance(self.max_attempts, bool) or not isinstance(self.max_attempts, int):
            raise TypeError(f"max_attempts takes a number of attempts, not {self.max_attempts!r}")
        if self.max_attempts < 1:
            raise ValueError(
                f"max_attempts counts the first attempt, so it is at least 1, not {self.max_attempts}"
            )
        initial = _checked("initial_interval", self.initial_interval)
        longest = _checked("max_interval", self.max_interval)
        if initial < 0 or longest < initial:
            raise ValueError(
                "initial_interval must be at least 0, and max_interval not shorter than it:"
                f" they are {self.initial_interval!r} and {self.max_interval!r}"
            )
        if not isinstance(self.backoff_factor, (int, float)) or not 1 <= self.backoff_factor < math.inf:
            raise ValueError(f"backoff_factor must be a number of at least 1, not {self.backoff_factor!r}")
        if not _is_retry_on(self.retry_on):
            raise TypeError(
                "retry_on takes an exception class, a tuple of them, or a function of the exception,"
                f" not {self.retry_on!r}"
            )
        if self.retry_after is not None and not callable(self.retry_after):
            raise TypeError(f"retry_after takes a function of the exception, not {self.retry_after!r}")


def _is_retry_on(value: object) -> bool:
    classes = value if isinstance(value, tuple) else (value,)
    if all(isinstance(member, type) and issubclass(member, BaseException) for member in classes):
        return True
    return callable(value) and not isinstance(value, type)


def _checked(name: str, duration: Duration) -> float:
    """A duration in seconds. Raises TypeError or ValueError that names it."""
    if isinstance(duration, bool) or not isinstance(duration, (int, float, timedelta)):
        raise TypeError(f"{name} takes seconds or a timedelta, not {duration!r}")
    value = seconds(duration)
    if not math.isfinite(value):
        raise ValueError(f"{name} must be finite, not {duration!r}")
    return value


@dataclass(frozen=True)
class CallOptions:
    """Options of one durable call. Durations are seconds or timedelta.

    `durable_id` names the call in the journal instead of the function's own name. `timeout` bounds one attempt
    from the moment it starts. `total_timeout` bounds the call over all its attempts and the waits between them,
    counted from the recorded time of the step that first awaited it: a restart does not extend it. A call that
    exceeds either fails with `CallTimeoutError`; the first counts as a failed attempt, the second is final.
    `retry` says whether and when a failed attempt is followed by another one.

    `limit` names one of `agents.limits.<name>`: so many calls of a subtask run at a time, or start in a second.
    A call that waits for it holds nothing, neither thread nor worker nor a place among
    `agents.call.max-concurrency`, and lets calls of other limits pass; its `timeout` counts from its real start.
    Each attempt takes its place anew. Limits count calls that run, so they begin anew with each attempt of the
    task. A name that is not configured is a ConfigurationError at the call.

    Raises TypeError or ValueError for values that make no options.
    """

    durable_id: str | None = None
    timeout: Duration | None = None
    total_timeout: Duration | None = None
    retry: RetryPolicy | None = None
    limit: str | None = None

    @property
    def timeout_seconds(self) -> float | None:
        """The timeout of one attempt in seconds."""
        return None if self.timeout is None else seconds(self.timeout)

    @property
    def total_timeout_seconds(self) -> float | None:
        """The timeout of the whole call in seconds."""
        return None if self.total_timeout is None else seconds(self.total_timeout)

    def __post_init__(self) -> None:
        for name in ("timeout", "total_timeout"):
            duration = getattr(self, name)
            if duration is not None and _checked(name, duration) <= 0:
                raise ValueError(f"{name} must be positive, not {duration!r}")
        if self.retry is not None and not isinstance(self.retry, RetryPolicy):
            raise TypeError(f"retry takes a RetryPolicy, not {self.retry!r}")
        if self.limit is not None and (not isinstance(self.limit, str) or not self.limit):
            raise TypeError(f"limit takes the name of a limit, not {self.limit!r}")


class Configured(Generic[P, T]):
    """A function with the options that it is to be called with. Made by `configured`."""

    __slots__ = ("function", "options", "reconciler")

    def __init__(
        self,
        function: Callable[P, T],
        reconciler: Callable[[], Any] | None,
        options: CallOptions | None,
    ) -> None:
        self.function = function
        self.reconciler = reconciler
        self.options = options

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> T:
        return self.function(*args, **kwargs)


def configured(
    func: Callable[P, T],
    *,
    reconciler: Callable[[], Any] | None = None,
    options: CallOptions | None = None,
) -> Callable[P, T]:
    """A function of the same signature that carries a reconciler and options into a durable call."""
    return Configured(func, reconciler, options)
