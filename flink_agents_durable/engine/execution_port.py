"""The engine's side of one execution, as its driver sees it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from flink_agents_durable.api.errors import AttemptEndedError
from flink_agents_durable.engine import pinned
from flink_agents_durable.engine.awakeables import make_id
from flink_agents_durable.engine.codec import Codec
from flink_agents_durable.engine.commands import Command
from flink_agents_durable.engine.expiry import use_memory
from flink_agents_durable.engine.failures import decode_failure
from flink_agents_durable.engine.memory import RunMemory
from flink_agents_durable.engine.ports import FAILED, INTERRUPTED, SUCCEEDED
from flink_agents_durable.engine.records import SYNC_OUTCOME
from flink_agents_durable.engine.reopening import remember
from flink_agents_durable.engine.replay import fits
from flink_agents_durable.engine.run import CALL_SLOT, RUNNING, Execution, Slot

if TYPE_CHECKING:
    from flink_agents_durable.engine.engine import Engine
    from flink_agents_durable.engine.execution import Stepper


class ExecutionPort:
    """What an action may ask for and gets at once: recorded time, memory, synchronous calls."""

    __slots__ = ("_engine", "_execution", "_stepper", "id")

    def __init__(self, engine: Engine, stepper: Stepper, execution: Execution) -> None:
        self._engine = engine
        self._stepper = stepper
        self._execution = execution
        self.id = execution.id

    @property
    def codec(self) -> Codec:
        """The codec of user values."""
        return self._engine.codec

    @property
    def key(self) -> Any:
        """The key of the input."""
        return self._execution.run.key_object

    @property
    def run_id(self) -> bytes:
        """Id of the run."""
        return self._execution.run.id

    def awakeable_id(self, index: int) -> str:
        """The id of the index-th awakeable of this execution."""
        run = self._execution.run
        return make_id(run.key.key, run.sequence, self.id, index)

    @property
    def memory(self) -> RunMemory:
        """Memory of the key, as this run sees it."""
        return self._execution.run.memory

    def use_memory(self) -> None:
        """The action asks for its key's memory, which may have expired (P25)."""
        ttl = self._engine.settings.memory_ttl
        if ttl is not None:
            use_memory(self._engine, self._execution, ttl)

    @property
    def writes(self) -> dict[str, bytes | None]:
        """What this execution has written to memory and not committed yet."""
        return self._execution.writes

    @property
    def version(self) -> int:
        """The version of memory that the present delivery sees (P16)."""
        return self._execution.version

    def is_replaying(self) -> bool:
        """Whether what happens now has happened before the failure."""
        return bool(self._execution.run.replay)

    def is_synchronous(self, index: int, function_id: str) -> bool:
        """Whether the journal knows this call of this function as a synchronous one (P17)."""
        known = self._execution.recorded
        record = None if known is None else known.outcomes.get(index)
        return record is not None and record.kind == SYNC_OUTCOME and record.function_id == function_id

    def ask_time(self) -> int:
        """Recorded time in epoch milliseconds; the run's begin is recorded when it first asks (P12)."""
        execution = self._execution
        if not execution.run.begun:
            self._engine.journal.begin(execution.run, self._engine.now)
        return execution.time

    def carry_out(self, commands: list[Command]) -> None:
        """Carry out commands in the middle of a step; after an interruption they are dropped (I2)."""
        if self._engine.ended is None:
            try:
                self._stepper.carry_out(self._execution, commands, within=True)
            except Exception:
                raise  # of what was sent: the action's own mistake
            except BaseException as error:
                self._engine.ended = self._engine.ended or error
                raise

    def late_calls(self, end: int) -> list[int]:
        """Calls that had not ended when their batch, which ends at this slot, timed out before the failure."""
        return pinned.late_calls(self._execution, end)

    def take_firing(self, index: int, commands: list[Command]) -> bool:
        """Whether a timer has fired, or a batch has ended by its time-out, before the failure; it is delivered."""
        self._check_attempt()
        self._stepper.carry_out(self._execution, commands)
        return pinned.take_firing(self._engine, self._stepper, self._execution, index)

    def _check_attempt(self) -> None:
        engine = self._engine
        if engine.ended is not None:
            raise AttemptEndedError("this attempt of the task has ended") from engine.ended

    def execute(
        self, index: int, spec: Any, commands: list[Command], *, was_awaited: bool = False
    ) -> tuple[bool, Any]:
        """A synchronous durable call: replay it, or run it while the task thread waits (P17).

        It may have been awaited before the failure if nothing but its frame has changed.
        """
        engine, execution = self._engine, self._execution
        self._check_attempt()
        if execution.id in execution.run.done:
            raise AttemptEndedError(f"action {execution.action.name!r} has ended; it can make no more calls")
        self._stepper.carry_out(execution, commands)
        slot = Slot(execution, index, CALL_SLOT, spec)
        execution.next_slot = max(execution.next_slot, index + 1)
        known = execution.recorded
        if known is not None:
            record = known.outcomes.get(index)
            if record is not None and fits(record, slot, SYNC_OUTCOME):
                del known.outcomes[index]
                if not engine.ports.store_durable:
                    remember(execution, record)
                engine.stats.calls_replayed += 1
                execution.time = max(execution.time, record.time)
                return record.ok, self._decode(record.ok, record.payload)
            if was_awaited:
                record = pinned.take_outcome(engine, self._stepper, slot)
                if record is not None:
                    return record.ok, self._decode(record.ok, record.payload)
            self._stepper.compare(slot, SYNC_OUTCOME)
        try:
            return self._execute(slot)
        except BaseException as error:
            engine.ended = engine.ended or error  # user code may swallow it; the attempt is over all the same
            raise

    def _execute(self, slot: Slot) -> tuple[bool, Any]:
        engine, execution = self._engine, slot.execution
        run, journal = execution.run, engine.journal
        journal.begin(run, engine.now)
        status, value = self._attempt(slot)
        if slot.spec.options is not None:
            while status != SUCCEEDED:
                final = engine.retrying.failed_blocking(slot, value)
                if final is not None:
                    value = final
                    break
                status, value = self._attempt(slot)
        entry = engine.write_outcome(SYNC_OUTCOME, slot, status == SUCCEEDED, value)
        if status != SUCCEEDED and slot.attempts is not None:
            engine.retrying.settle(slot)
        if engine.ports.store_durable:
            journal.hand_over_and_wait()
            engine.waited()
        execution.time = max(execution.time, entry.time)
        if engine.settings.strict_values:
            return entry.ok, self._decode(entry.ok, entry.payload)
        return entry.ok, entry.live

    def _attempt(self, slot: Slot) -> tuple[int, Any]:
        """One attempt of a synchronous call, when its time has come. Keeps P10 and P19."""
        engine = self._engine
        if slot.spec.options is not None:
            late = engine.retrying.wait_for_turn(slot)
            if late is not None:
                return FAILED, late
        if slot.spec.reconciler is not None and not slot.pending:
            self._stepper.reserve([slot])
        if engine.ports.store_durable and (slot.execution.run.cuts or slot.spec.reconciler is not None):
            engine.journal.hand_over_and_wait()
        slot.state = RUNNING
        call = engine.call_start(slot)
        expires = None if slot.attempts is None else slot.attempts.expires_at
        _, status, value = engine.ports.run_blocking(call, expires)
        engine.calls.pop(call.id, None)
        if status == INTERRUPTED:
            assert isinstance(value, BaseException)
            raise value
        engine.now = max(engine.now, engine.ports.now())
        return status, value

    def _decode(self, ok: bool, payload: bytes) -> Any:
        codec = self._engine.codec
        return codec.loads(payload) if ok else decode_failure(payload, codec)
