"""One attempt of the task in the simulator: an engine, and what it has asked for."""

from __future__ import annotations

from typing import TYPE_CHECKING

from flink_agents_durable.engine.engine import Engine
from flink_agents_durable.engine.payload import PayloadCodec
from flink_agents_durable.engine.plan import CompiledPlan
from flink_agents_durable.engine.ports import FAILED, SUCCEEDED, CallStart, Completion, StateEntry
from flink_agents_durable.engine.settings import EngineSettings
from flink_agents_durable.testing.keyed_state import KeyedState

if TYPE_CHECKING:
    from flink_agents_durable.testing.simulation.world import World


class Crashed(BaseException):
    """The process died inside a step."""


class Attempt:
    """The ports of one engine; the world moves what waits here."""

    store_durable = True
    max_record_bytes: int | None = None

    def __init__(
        self, world: World, number: int, plan: CompiledPlan, codec: PayloadCodec, settings: EngineSettings
    ) -> None:
        self.world = world
        self.number = number
        self.state = KeyedState()
        self.engine = Engine(plan, self, codec, settings, "simulated")
        self.calls: dict[int, CallStart] = {}
        self.batches: list[list[tuple[int, bytes]]] = []  # handed over, not in the log yet
        self.positions: list[int] = []  # end of the log after each of this attempt's batches
        self.start_position = 0
        self.acknowledged = 0  # batches that the engine has been told of
        self.timer: int | None = None
        self.opened = False

    @property
    def applied_position(self) -> int:
        """Position of the last record that was applied on the task thread (P4)."""
        applied = self.engine.applied_batches
        return self.positions[applied - 1] if applied else self.start_position

    # --- ports ---

    def append(self, records: list[tuple[int, bytes]]) -> None:
        self.batches.append(records)

    def append_and_wait(self, records: list[tuple[int, bytes]]) -> None:
        self.batches.append(records)
        while self.batches:
            self.write_one()

    def write_one(self) -> None:
        """Move one batch into the log."""
        self.world.crash_point("before append")
        batch = self.batches.pop(0)
        self.positions.append(self.world.append(self, batch))
        self.world.crash_point("after append")

    def start_calls(self, calls: list[CallStart]) -> None:
        for call in calls:
            self.world.call_started(self, call)
            self.calls[call.id] = call

    def cancel_calls(self, ids: list[int]) -> None:
        for id in ids:
            self.calls.pop(id, None)

    def run_blocking(self, call: CallStart) -> Completion:
        self.world.call_started(self, call)
        self.world.crash_point("in a synchronous call")
        return self.outcome(call)

    def outcome(self, call: CallStart) -> Completion:
        """Run a call."""
        try:
            return call.id, SUCCEEDED, call.function(*call.args, **call.kwargs)
        except Exception as error:
            return call.id, FAILED, error

    def emit(self, key: object, output: object, timestamp: int | None) -> None:
        self.world.emitted(self, key, output)

    def now(self) -> int:
        return self.world.now

    def input_done(self, segment: int) -> None:
        pass

    def admit_restored(self) -> int:
        return 0

    def set_timer(self, when: int | None) -> None:
        self.timer = when

    def load_key(self, key: bytes) -> list[StateEntry]:
        return self.state.load(key)

    def load_memory(self, key: bytes) -> list[tuple[str, bytes]]:
        return self.state.memory(key)
