"""Tells the interruption of the task from the failure of a call."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from flink_agents_durable.engine import java_errors

# InterruptedIOException is not among them: HTTP clients throw it for plain timeouts.
_INTERRUPTIONS = frozenset(
    {
        "java.lang.InterruptedException",
        "java.nio.channels.ClosedByInterruptException",
        "java.util.concurrent.CancellationException",
    }
)
# Bounds the walk over explicit causes that form a ring, and over large groups.
_MAX_EXCEPTIONS = 256


def is_interruption(exc: BaseException, inspect_throwable: Callable[[object], bool] | None = None) -> bool:
    """Whether an exception says that the task was interrupted. Keeps I1 and I3. Never raises.

    By class along the Java cause chain of a throwable in its arguments, along the explicit Python causes and
    in the members of groups; never by message, never by the implicit context. `inspect_throwable` asks Java;
    without it the chain is walked from here.
    """
    for current in _explicit_chain(exc):
        for throwable in java_errors.throwables(current):
            if _is_interrupted(throwable, inspect_throwable):
                return True
    return False


def _explicit_chain(exc: BaseException) -> Iterator[BaseException]:
    seen: set[int] = set()
    todo: list[Any] = [exc]
    while todo and len(seen) < _MAX_EXCEPTIONS:
        current = todo.pop()
        if not isinstance(current, BaseException) or id(current) in seen:
            continue
        seen.add(id(current))
        yield current
        try:
            todo.append(current.__cause__)
            members = getattr(current, "exceptions", None)
            todo.extend(members if isinstance(members, tuple) else ())
        except BaseException:
            continue


def _is_interrupted(throwable: Any, inspect_throwable: Callable[[object], bool] | None) -> bool:
    try:
        if inspect_throwable is not None:
            return inspect_throwable(throwable) is True
        return any(
            name in _INTERRUPTIONS
            for cause in java_errors.causes(throwable)
            for name in java_errors.class_names(cause)
        )
    except BaseException:
        return False  # what cannot be inspected is an ordinary failure
