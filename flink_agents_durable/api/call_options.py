"""Options of one durable call."""

from __future__ import annotations

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


@dataclass(frozen=True)
class RetryPolicy:
    """How often and when a failed call is tried again. Durations are seconds or timedelta."""

    max_attempts: int = 3
    initial_interval: Duration = 1.0
    backoff_factor: float = 2.0
    max_interval: Duration = 60.0
    jitter: bool = True
    retry_on: type[BaseException] | tuple[type[BaseException], ...] | Callable[[BaseException], bool] = (
        Exception
    )
    retry_after: Callable[[BaseException], float | None] | None = None


@dataclass(frozen=True)
class CallOptions:
    """Options of one durable call.

    `durable_id` names the call in the journal instead of the function's own name. `timeout` (seconds or
    timedelta) bounds one attempt from the moment it starts; a call that exceeds it fails with `CallTimeoutError`.
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

    def __post_init__(self) -> None:
        if self.timeout is not None and seconds(self.timeout) <= 0:
            raise ValueError(f"timeout must be positive, not {self.timeout!r}")
        for name in ("total_timeout", "retry", "limit"):
            if getattr(self, name) is not None:
                raise NotImplementedError(
                    f"CallOptions({name}=...) is not available yet: wrap the attempts in the action for now"
                )


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
