"""The protocol between the engine and the code behind an execution.

The engine says `start`, `resolve` or `abandon`; the driver answers with a list of commands. Nothing here knows
in which language an action is written.
"""

from __future__ import annotations

from typing import Any, Protocol

# Commands are tuples that begin with one of these; bare tuples because a call makes several of them.
CALL = 1  # (CALL, slot, spec)
BATCH = 2  # (BATCH, [(slot, spec), ...], end slot or -1, timeout in seconds or None)
TIMER = 3  # (TIMER, slot, delay in seconds)
CANCEL = 4  # (CANCEL, slot)
SEND = 5  # (SEND, event)
COMPLETE = 6  # (COMPLETE,)
FAIL = 7  # (FAIL, exception, slots whose outcome it is)
AWAIT = 8  # (AWAIT, slot, awakeable id)

Command = tuple[Any, ...]

NOT_LIVE: Any = object()
"""In place of the live value: there is only the recorded payload."""


class Driver(Protocol):
    """The code behind one action execution."""

    def start(self, event: Any) -> list[Command]:
        """Begin to work on the event."""

    def resolve(self, slot: int, ok: bool, payload: bytes, live: Any) -> list[Command]:
        """Give the outcome of a slot: a call, an awakeable, or a timer (empty payload).

        Then go on until nothing is ready.
        """

    def end_batch(self, slot: int, expired: list[int]) -> list[Command]:
        """A batch has timed out; these slots have no outcome of their own (F8)."""

    def abandon(self) -> None:
        """Drop the execution without running any more of it."""

    def release(self) -> None:
        """The execution has ended by itself: let go of everything."""
