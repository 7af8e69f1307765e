"""One subtask of one attempt of the job in the simulator: an engine, and what it has asked for."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from flink_agents_durable.api.dead_letters import DeadLetter
from flink_agents_durable.api.errors import CallTimeoutError
from flink_agents_durable.engine.engine import Engine
from flink_agents_durable.engine.ports import (
    FAILED,
    INTERRUPTED,
    SUCCEEDED,
    CallStart,
    Completion,
    StateEntry,
)
from flink_agents_durable.engine.run import GONE, RECORDED, Slot
from flink_agents_durable.engine.services import Services
from flink_agents_durable.runtime.log_positions import RetainedPositions
from flink_agents_durable.store.protocol import UnknownFateError
from flink_agents_durable.testing.keyed_state import KeyedState
from flink_agents_durable.testing.simulation.scripted_java import ScriptedJava

if TYPE_CHECKING:
    from flink_agents_durable.testing.simulation.world import World

RETAINED = 2
"""Checkpoints that are kept; the older one may be restored."""


class Crashed(BaseException):
    """The process died inside a step."""


class Attempt:
    """The ports of one engine; the world moves what waits here."""

    def __init__(self, world: World, number: int, groups: frozenset[int]) -> None:
        self.world = world
        self.number = number  # of the job's attempt: all subtasks have the same
        self.groups = groups
        self.current = True  # no later attempt of the job has begun
        self.watched = world.store_durable and not world.flips and not world.pins
        self.store_durable = world.store_durable
        self.max_record_bytes = world.max_record_bytes
        self.state = KeyedState()
        services = Services(java=ScriptedJava(world.scripts) if world.scripts else None)
        self.engine = Engine(world.plan, self, world.codec, world.settings, world.log.id, services)
        self.retained = RetainedPositions(RETAINED)
        self.log = world.log
        self.calls: dict[int, tuple[CallStart, Slot]] = {}
        self.batches: list[list[tuple[int, bytes]]] = []  # handed over, not in the log yet
        self.positions: list[int] = []  # end of the log after each of this attempt's batches
        self.start_position = 0
        self.lowest_position = 0  # positions of snapshots never decrease
        self.tail: list[tuple[int, bytes]] = []
        self.misses = False  # records after its checkpoint that the log has no more
        self.acknowledged = 0  # batches that the engine has been told of
        self.parents: dict[str, int] = {}  # what calls depend on beside their arguments: `World.depends`
        self.timer: int | None = None
        self.opening = 0  # steps of opening that are done
        self.opened = False
        self.dead = False

    @property
    def applied_position(self) -> int:
        """Position of the last record that was applied on the task thread (P4)."""
        applied = self.engine.applied_batches
        return self.positions[applied - 1] if applied else self.start_position

    @property
    def alive(self) -> bool:
        """Whether what actions do now still counts."""
        return not self.dead and self.engine.ended is None

    @property
    def idle(self) -> bool:
        """Whether all work has ended."""
        return self.opened and not self.engine.live_runs and not self.batches and not self.calls

    def left(self) -> dict[str, Any]:
        """What should be nothing when all work has ended, in words."""
        engine = self.engine
        return {
            "runs": engine.live_runs,
            "in flight": engine.in_flight,
            "calls": engine.calls,
            "calls of the executor": self.calls,
            "timer": self.timer is not None,
            "timers": engine.timers.next() is not None,
            "keys": engine.keys,
            "dirty keys": engine.dirty,
            "records": [*engine.journal.outbox, *engine.journal.unacknowledged, *self.batches],
            "commands": [*engine.starts, *engine.cancels, *engine.idle],
            "entries in the keyed state": self.state.entries(),
        }

    def close(self) -> None:
        """What is left of the process ends."""
        self.dead = True
        self.engine.close()

    def crash_point(self, where: str) -> None:
        """Maybe die here; whoever swallows it cannot do any more."""
        if self.dead:
            raise Crashed
        if self.current and self.world.dies(self, where):
            self.dead = True
            raise Crashed

    # --- ports ---

    def sweep(self) -> None:
        """Remove what has expired, as the operator's walk over all keys does (P25)."""
        engine = self.engine
        self.state.apply(engine.forget_expired(self.state.sequences(), self.world.now))
        self.state.floors = dict(engine.floors)

    def append(self, records: list[tuple[int, bytes]]) -> None:
        self.crash_point("before a hand-over")
        self.batches.append(records)
        self.crash_point("after a hand-over")

    def append_and_wait(self, records: list[tuple[int, bytes]]) -> None:
        self.crash_point("before a waiting append")
        self.batches.append(records)
        while self.batches:
            self.write_one()

    def write_one(self) -> None:
        """Move one batch into the log."""
        self.crash_point("before an append")
        batch = self.batches.pop(0)
        unknown = self.world.chance(self, "unknown_fate")
        if not unknown or self.world.random.random() < 0.5:
            self.positions.append(self.world.append(self, batch))
        if unknown:
            raise UnknownFateError("the append failed, and may have been written")
        self.crash_point("after an append")

    def start_calls(self, calls: list[CallStart]) -> None:
        self.crash_point("before calls start")
        for call in calls:
            self.calls[call.id] = (call, self.world.started(self, call))
        self.crash_point("after calls started")

    def cancel_calls(self, ids: list[int]) -> None:
        for id in ids:
            _, slot = self.calls.pop(id, (None, None))
            # A call that timed out, by itself or with its batch, is dead only once that is recorded (P18).
            expired = (
                slot is not None and slot.state in (GONE, RECORDED) and slot.index in slot.execution.slots
            )
            if slot is not None and not expired and self.world.counts(self):
                self.world.invariants.cancelled(slot, self.current)
        self.crash_point("after a cancel")

    def run_blocking(self, call: CallStart, expires: int | None) -> Completion:
        self.crash_point("before a synchronous call")
        slot = self.world.started(self, call)
        self.crash_point("in a synchronous call")
        completion = self.outcome(call, slot)
        self.crash_point("after a synchronous call")
        return completion

    def outcome(self, call: CallStart, slot: Slot) -> Completion:
        """Run a call."""
        if self.world.chance(self, "interrupt"):
            return call.id, INTERRUPTED, InterruptedError("interrupted")
        if call.timeout is not None and self.world.chance(self, "timeout"):
            return call.id, FAILED, CallTimeoutError(f"{call.name} took longer than {call.timeout} s")
        self.world.caller = self
        try:
            return call.id, SUCCEEDED, call.function(*call.args, **call.kwargs)
        except Exception as error:
            return call.id, FAILED, error

    def emit(self, key: object, output: object, timestamp: int | None) -> None:
        self.crash_point("before an output")
        self.world.emitted(self, key, output)
        self.crash_point("after an output")

    def emit_dead_letter(self, letter: DeadLetter, timestamp: int | None) -> None:
        self.emit(letter.key, [letter.input, f"dead letter of {letter.action}", [letter.error]], timestamp)

    def wait_until(self, when: int) -> None:
        self.crash_point("in the back-off of a synchronous call")
        self.world.now = max(self.world.now, when)
        self.crash_point("after the back-off of a synchronous call")

    def now(self) -> int:
        return self.world.now

    def input_done(self, segment: int) -> None:
        self.crash_point("at the end of a run")

    def admit_restored(self) -> int:
        return 0

    def set_timer(self, when: int | None) -> None:
        self.timer = when
        self.crash_point("after a timer was set")

    def load_key(self, key: bytes) -> list[StateEntry]:
        self.crash_point("while a key is read")
        return self.state.load(key)

    def load_memory(self, key: bytes) -> list[tuple[str, bytes]]:
        self.crash_point("while memory is read")
        return self.state.memory(key)
