"""What the engine needs from its surroundings. Operator, LocalRunner and simulator implement it."""

from __future__ import annotations

import contextvars
from collections.abc import Callable, Sequence
from typing import Any, Protocol

import msgspec

from flink_agents_durable.api.dead_letters import DeadLetter

SUCCEEDED = 0
FAILED = 1
INTERRUPTED = 2  # never recorded (I2, I5): the slot stays PENDING and the task attempt ends

Completion = tuple[int, int, object]
"""Id of a started call, status, and its value or exception."""

StateEntry = tuple[int, Any, Any]
"""State number, key within a map state or None, and the bytes (None in an update: remove)."""

ACTIVE, JOURNAL, QUEUED, UNCLAIMED, SEQUENCE, MEMORY, EARLY = range(7)
"""The keyed states of design.md, by the numbers under which they cross to Java."""


class CallStart(msgspec.Struct, eq=False):
    """One call for the call executor. It holds an integer, never the engine (K11)."""

    id: int
    function: Callable[..., object]
    args: tuple[object, ...]
    kwargs: dict[str, object]
    timeout: float | None
    name: str
    context: contextvars.Context | None = None
    limit: str | None = None


class Ports(Protocol):
    """The surroundings of one engine. All methods are called on the task thread."""

    store_durable: bool
    """False for store `none`: records count as acknowledged when they are made."""

    @property
    def max_record_bytes(self) -> int | None:
        """The largest record that the store takes; asked once, when the engine resumes and the store is open."""

    def append(self, records: list[tuple[int, bytes]]) -> None:
        """Hand one batch of (key group, record) to the store; `Engine.acknowledge` reports it later."""

    def append_and_wait(self, records: list[tuple[int, bytes]]) -> None:
        """Append a batch and wait, interruptibly, until it and all before it are durable."""

    def start_calls(self, calls: list[CallStart]) -> None:
        """Start calls; `Engine.complete` reports their outcomes later."""

    def cancel_calls(self, ids: list[int]) -> None:
        """Cancel calls; their outcomes, if any, are ignored."""

    def run_blocking(self, call: CallStart, expires: int | None) -> Completion:
        """Run one call on a worker while the task thread waits, interruptibly.

        At `expires`, epoch milliseconds, it fails with CallTimeoutError, though it may not have started yet.
        """

    def wait_until(self, when: int) -> None:
        """Block, interruptibly, until this time or a moment before it: the back-off of a synchronous call."""

    def now(self) -> int:
        """Wall-clock time, epoch milliseconds; asked only in a synchronous call."""

    def emit(self, key: object, output: object, timestamp: int | None) -> None:
        """Emit one output; the timestamp is that of the input, in epoch milliseconds."""

    def emit_dead_letter(self, letter: DeadLetter, timestamp: int | None) -> None:
        """Emit one dead letter, exactly as often as an output."""

    def input_done(self, segment: int) -> None:
        """All that the input admitted under this segment causes has happened."""

    def admit_restored(self) -> int:
        """The segment of an input that came out of the state: before every later watermark (K4)."""

    def set_timer(self, when: int | None) -> None:
        """Call `Engine.fire_timers` at this time (epoch milliseconds); None: no timer is needed."""

    def load_key(self, key: bytes) -> Sequence[StateEntry]:
        """The keyed state of a key, without its memory."""

    def load_memory(self, key: bytes) -> Sequence[tuple[str, bytes]]:
        """The memory of a key: path and pickled value."""
