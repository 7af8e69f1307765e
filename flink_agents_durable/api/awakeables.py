"""Awakeables: what an action waits for that comes from outside, by a record of another stream."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Any, TypeVar

from flink_agents_durable.api.futures import FutureOwner

T_co = TypeVar("T_co", covariant=True)


@dataclass(frozen=True)
class AwakeableResolution:
    """One element of the stream `awakeables=`. Make it by `awakeable_result` or `awakeable_failure`."""

    key: Any
    """The key of the input whose action waits, as the key selector of the inputs gives it."""
    id: str
    """The id that `ctx.awakeable()` gave."""
    value: Any = None
    failure: str | None = None
    """The message of a failure; None: it is a result."""


def awakeable_result(key: Any, id: str, value: Any) -> AwakeableResolution:
    """The answer that an awakeable waits for. The first resolution of an awakeable counts, others are dropped.

    Raises TypeError if the id is no text.
    """
    return AwakeableResolution(key, _checked(id), value)


def awakeable_failure(key: Any, id: str, message: str) -> AwakeableResolution:
    """Let the wait for an awakeable end with an `AwakeableFailedError` of this message.

    Raises TypeError if the id or the message is no text.
    """
    if not isinstance(message, str):
        raise TypeError(f"the message of an awakeable's failure is a text, not {message!r:.200}")
    return AwakeableResolution(key, _checked(id), None, message)


def _checked(id: Any) -> str:
    if not isinstance(id, str):
        raise TypeError(f"the id of an awakeable is the text that ctx.awakeable() gave, not {id!r:.200}")
    return id


class Awakeable(FutureOwner[T_co]):
    """Waits for the resolution of an awakeable; `ctx.awakeable()` makes it.

    It is cold: an await takes a slot of the action, as a timer does. A wait that is given up (`wait_for`,
    `timeout`, a cancelled task) gives up the wait alone: the awakeable may be awaited again, and a resolution
    that came meanwhile is there. Once resolved, each await gives the same value or raises the same error.
    """

    __slots__ = ("id",)

    def __init__(self, owner: Any, hash_: int, id: str) -> None:
        super().__init__(owner, hash_)
        self.id = id

    def _plan(self) -> None:
        self._owner.plan_awakeable(self)

    def _leave(self, waiter: asyncio.Future[None]) -> None:
        if self._outcome is not None or self._waiters is None:
            return
        if waiter in self._waiters:
            self._waiters.remove(waiter)
        if not self._waiters:
            self._waiters = None  # cold again
            self._owner.leave_awakeable(self)

    def __repr__(self) -> str:
        state = "done" if self._outcome is not None else "pending" if self._waiters else "cold"
        return f"<Awakeable {self.id} {state}>"
