"""How an execution is driven: start, replay, go live, and the commands that its driver answers with."""

from __future__ import annotations

import functools
import logging
import math
from typing import TYPE_CHECKING, Any

from flink_agents_durable.api.errors import ActionFailedError, AttemptEndedError
from flink_agents_durable.api.events import Event, EventType, InputEvent
from flink_agents_durable.engine import awakeables, expiry, identity, mismatch, reopening
from flink_agents_durable.engine.commands import (
    AWAIT,
    BATCH,
    CALL,
    CANCEL,
    COMPLETE,
    FAIL,
    NOT_LIVE,
    SEND,
    TIMER,
    Command,
)
from flink_agents_durable.engine.dead_letters import dead_letter
from flink_agents_durable.engine.digest import digest
from flink_agents_durable.engine.execution_port import ExecutionPort
from flink_agents_durable.engine.records import AWAKENED, BATCH_END, OUTCOME, REOPEN, RESERVED
from flink_agents_durable.engine.replay import fits, reservation_fits, same_call
from flink_agents_durable.engine.run import (
    AWAKEABLE_SLOT,
    BACKOFF,
    BATCH_SLOT,
    CALL_SLOT,
    GONE,
    NEW,
    REPLAYED,
    RESERVING,
    RUNNING,
    TIMER_SLOT,
    WAITING,
    Batch,
    Execution,
    Run,
    Slot,
    drop_numbers,
)

if TYPE_CHECKING:
    from flink_agents_durable.engine.engine import Engine

logger = logging.getLogger(__name__)

_UNCHECKED = b""
_FIXED = frozenset({str, int, float, bool, bytes, type(None)})


class Stepper:
    """Drives executions. All state is in runs and executions; the engine is told what is to happen."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self.in_frame: set[int] = set()  # executions whose frames cannot wait while others go on (pinned.py)

    # --- start and replay ---

    def start(self, execution: Execution) -> None:
        """Start an execution; a restored one starts again from its beginning (L1)."""
        engine, run = self._engine, execution.run
        if execution.start_version < 0:
            execution.start_version = len(run.memory.commits)
        execution.version = execution.start_version
        event = execution.event
        if event is None:
            event = self._recorded_event(execution)
        execution.event = None
        action = execution.action
        port = ExecutionPort(engine, self, execution)
        driver = execution.driver = action.make_driver(action, port, engine.services)
        self.carry_out(execution, driver.start(event))

    def _recorded_event(self, execution: Execution) -> Any:
        engine = self._engine
        if execution.event_payload:
            return engine.codec.loads(execution.event_payload)
        value: Any = engine.codec.inputs.loads(execution.run.payload)
        return input_event(value[1], execution.trigger, execution.run.timestamp)

    def replay_next(self, run: Run) -> None:
        """Make the next recorded delivery. Keeps P9: what does not fit is a mismatch, never a hang."""
        record = run.replay[0]
        execution = run.executions.get(record.execution)
        if execution is None:
            if record.execution in run.done:
                run.replay.popleft()
            else:
                mismatch.cut(
                    self._engine,
                    run,
                    record.execution,
                    None,
                    0,
                    record,
                    "an action that was not triggered this time",
                )
            return
        slot = execution.slots.get(record.slot)
        if slot is None and record.slot >= execution.next_slot:
            mismatch.cut(self._engine, run, execution.id, execution, execution.next_slot, record, "nothing")
            return
        run.replay.popleft()
        if slot is None or slot.state != REPLAYED:
            if not ends_calls(record.kind, execution, record.slots):
                return  # it was cancelled by an earlier delivery
            slot = slot or Slot(execution, record.slot, BATCH_SLOT, None)
        if execution.recorded is not None:
            execution.recorded.outcomes.pop(record.slot, None)
        self._engine.stats.calls_replayed += record.kind == OUTCOME
        if not self._engine.ports.store_durable:
            reopening.remember(execution, record)
        self.deliver(
            slot, record.kind, record.number, record.time, record.ok, record.payload, NOT_LIVE, record.slots
        )

    def deliver(
        self,
        slot: Slot,
        kind: int,
        number: int,
        time: int,
        ok: bool,
        payload: bytes,
        live: Any,
        expired: list[int],
    ) -> None:
        """Hand one outcome, firing or end of a batch to the action, and let it go on."""
        execution = slot.execution
        run = execution.run
        if number > run.delivered:
            run.delivered = number
        if run.memory.commits:
            execution.version = run.memory.version_before(number)
        if time > execution.time:
            execution.time = time
        index = slot.index
        if execution.slots.pop(index, None) is not None:
            slot.state = GONE
            if slot.batch is not None:
                slot.batch = None
            if slot.kind == CALL_SLOT:
                run.open_calls -= 1
        driver: Any = execution.driver
        if kind != OUTCOME:
            if kind == AWAKENED:
                awakeables.delivered(self._engine, slot)
            else:
                execution.last_timer = index
        if kind == BATCH_END:
            for expired_index in expired:
                late = execution.slots.get(expired_index)
                if late is not None:
                    self._remove(execution, late)
            self.carry_out(execution, driver.end_batch(index, expired))
        else:
            self.carry_out(execution, driver.resolve(index, ok, payload, live))

    def _remove(self, execution: Execution, slot: Slot) -> None:
        if execution.slots.pop(slot.index, None) is not None:
            slot.state = GONE
            slot.batch = None
            if slot.kind == CALL_SLOT:
                execution.run.open_calls -= 1
            elif slot.kind == AWAKEABLE_SLOT:
                awakeables.leave(slot)

    # --- commands ---

    def carry_out(self, execution: Execution, commands: list[Command], *, within: bool = False) -> None:
        """Carry out commands in order, at the end of a step or `within` it; an interruption refuses them (I2)."""
        ended = self._engine.ended
        if ended is not None:
            raise AttemptEndedError(f"the attempt ends: {type(ended).__name__}: {ended}") from ended
        for command in commands:
            kind = command[0]
            if kind == CALL:
                # As `_place` does, without the hop.
                _, index, spec = command
                run = execution.run
                slot = execution.slots[index] = Slot(execution, index, CALL_SLOT, spec)
                execution.next_slot = index + 1
                run.open_calls += 1
                if execution.recorded is not None:
                    self.compare(slot)
                if slot.state == NEW:
                    run.fresh.append(slot)
            elif kind == SEND:
                self._send(execution, command[1])
            elif kind == COMPLETE:
                self._complete(execution, commit=True)
            elif kind == TIMER:
                self._place_timer(Slot(execution, command[1], TIMER_SLOT, None), command[2])
            elif kind == CANCEL:
                self._cancel(execution, command[1])
            elif kind == BATCH:
                self._place_batch(execution, command[1], command[2], command[3])
            elif kind == AWAIT:
                self._place(awakeables.place(execution, command[1], command[2]))
            elif kind == FAIL:
                self._fail(execution, command[1], command[2])
        if execution.undigested and not within and execution.id in execution.run.executions:
            self.digest_outputs(execution)

    def _place(self, slot: Slot) -> None:
        """Put a slot into its execution and compare it with what was recorded there."""
        execution = slot.execution
        run = execution.run
        execution.slots[slot.index] = slot
        execution.next_slot = slot.index + 1
        if slot.kind == CALL_SLOT:
            run.open_calls += 1
        if execution.recorded is not None:
            self.compare(slot)
        if slot.state == NEW:
            run.fresh.append(slot)

    def compare(self, slot: Slot, outcome: int = OUTCOME) -> None:
        """Replay, doubt or mismatch (R2, R3, P13); `outcome` is the kind of record that a call's own would be."""
        execution, known = slot.execution, slot.execution.recorded
        assert known is not None
        record = known.outcomes.get(slot.index)
        if record is not None:
            if fits(record, slot, outcome):
                slot.state = REPLAYED
                return
            current = mismatch.asked(slot, record.function_id, record.arguments)
            mismatch.cut(self._engine, execution.run, execution.id, execution, slot.index, record, current)
            return
        attempt = known.attempts.get(slot.index)
        if attempt is not None:
            if slot.kind != CALL_SLOT or not same_call(attempt.function_id, attempt.arguments, slot):
                current = mismatch.asked(slot, attempt.function_id, attempt.arguments)
                mismatch.cut(
                    self._engine, execution.run, execution.id, execution, slot.index, attempt, current
                )
                return
            self._engine.retrying.restore(slot, attempt)
        reservation = known.pending.get(slot.index)
        if reservation is None:
            return
        if reservation_fits(reservation, slot):
            slot.pending = True
        else:
            current = mismatch.asked(slot, reservation[2], reservation[3])
            mismatch.cut(
                self._engine, execution.run, execution.id, execution, slot.index, reservation[2], current
            )

    def _place_timer(self, slot: Slot, delay: float) -> None:
        execution = slot.execution
        base = max(execution.time, execution.reopened.get(slot.index, 0))
        slot.deadline = base + math.ceil(delay * 1000)
        self._place(slot)

    def _place_batch(self, execution: Execution, planned: list[Any], end: int, timeout: float | None) -> None:
        batch = Batch()
        reopened = 0
        for index, spec in planned:
            slot = Slot(execution, index, CALL_SLOT, spec)
            slot.batch = batch
            batch.slots.append(slot)
            reopened = max(reopened, execution.reopened.get(index, 0))
            self._place(slot)
        if timeout is not None:
            slot = Slot(execution, end, BATCH_SLOT, None)
            slot.batch = batch
            # A batch that timed out and was reopened gets its whole time again (P14, P18).
            execution.reopened[end] = max(reopened, execution.reopened.get(end, 0))
            self._place_timer(slot, timeout)

    def _cancel(self, execution: Execution, index: int) -> None:
        slot = execution.slots.get(index)
        if slot is not None:
            self.forget_call(slot)
            self._remove(execution, slot)

    def forget_call(self, slot: Slot) -> None:
        """Cancel the call of a slot, or its back-off; its batch may start another one."""
        if slot.kind == CALL_SLOT and slot.state == RUNNING:
            self._engine.cancel_call(slot)
            if slot.batch is not None:
                self.start_next_of_batch(slot.batch)
        elif slot.state == BACKOFF:
            self._engine.retrying.leave(slot)

    def _send(self, execution: Execution, event: Event) -> None:
        """Dispatch an event at once, unless the snapshot says that an equal one was. Keeps P15."""
        engine, run = self._engine, execution.run
        index = execution.sends
        execution.sends = index + 1
        if index >= execution.suppress and not run.key.dirty:
            engine.mark(
                run.key
            )  # a replay by other code goes further than the snapshot, without a new record
        if event.type == EventType.OutputEvent and index >= execution.suppress and _is_fixed(event):
            # Its digest serves P15 alone, and most executions end in the step of their last output.
            execution.undigested.append([event.type, dict(event.attributes)])
            event.source_timestamp = run.timestamp
            engine.ports.emit(run.key_object, event.attributes.get("output"), run.timestamp)
            return
        known = self._digest(execution, event)
        if index < execution.suppress:
            recorded = execution.dispatched[index]
            if known == recorded:
                engine.stats.events_suppressed += 1
                return
            logger.warning(
                "run %s: action %s sent another event (%s) than before the failure at position %d; it and all"
                " later ones are dispatched",
                run.id.hex(),
                execution.action.name,
                event.type,
                index,
            )
            execution.suppress = index
            del execution.dispatched[index:]
            engine.mark(run.key)
        execution.dispatched.append(known)
        event.source_timestamp = run.timestamp
        if event.type == EventType.OutputEvent:
            engine.ports.emit(run.key_object, event.attributes.get("output"), run.timestamp)
        elif event.type in engine.plan.by_event:
            trigger = identity.event_id(execution.id, index, known)
            engine.trigger(run, event, trigger, engine.codec.dumps(event), execution.time)

    def _digest(self, execution: Execution, event: Event) -> bytes:
        """Digest of an event; those of outputs sent before it are taken first, as they stand before it."""
        self.digest_outputs(execution)
        return digest([event.type, event.attributes]) or _UNCHECKED

    def digest_outputs(self, execution: Execution) -> None:
        """Take the digests that were put off (P15)."""
        if execution.undigested:
            sent, execution.undigested = execution.undigested, []
            execution.dispatched += [digest(event) or _UNCHECKED for event in sent]

    def _complete(self, execution: Execution, *, commit: bool) -> None:
        """An execution has ended: nothing of it stays (L6)."""
        run = execution.run
        del run.executions[execution.id]
        run.mark_done(execution.id)
        if not run.key.dirty:
            self._engine.mark(run.key)
        if commit and execution.writes:
            run.memory.commit(execution.writes, run.delivered, keep=bool(run.executions))
        for slot in list(execution.slots.values()):
            self.forget_call(slot)
            self._remove(execution, slot)
        drop_numbers(run, execution.numbers)
        if execution.uses_memory:
            expiry.ended(execution)
        driver, execution.driver = execution.driver, None
        if driver is not None and commit:
            driver.release()
        elif driver is not None:
            driver.abandon()  # tasks that a failed action left behind are closed here, not by the collector
        execution.recorded = None

    def _fail(self, execution: Execution, error: BaseException, slots: list[int]) -> None:
        """An action ended with an exception. Keeps P14: a durable failure is reopened before the task fails.

        Under `skip` and `dead-letter` it is final: the execution ends without its memory writes; what it sent
        stays sent, and the other executions of the run go on.
        """
        engine, run = self._engine, execution.run
        policy = execution.action.spec.on_failure or engine.settings.action_failure
        where = f"action {execution.action.name!r} failed for key {run.key_object!r} (run {run.id.hex()})"
        if policy == "skip" and isinstance(error, Exception):
            logger.error("%s and is skipped", where, exc_info=error)
            self._complete(execution, commit=False)
            return
        if policy == "dead-letter" and isinstance(error, Exception):
            letter = dead_letter(execution, error, engine.codec)
            logger.warning("%s; a dead letter says so: %s", where, letter.error)
            self._complete(execution, commit=False)
            engine.stats.dead_letters += 1
            engine.ports.emit_dead_letter(letter, run.timestamp)
            return
        if -1 in slots:
            slots = [slot for slot in slots if slot >= 0]
            if execution.last_timer >= 0:
                slots.append(execution.last_timer)
        if slots and engine.settings.uncaught_failure == "retry" and engine.ports.store_durable:
            engine.journal.write(run, REOPEN, engine.now, execution=execution.id, slots=slots)
            engine.journal.hand_over_and_wait()
        elif slots and engine.settings.uncaught_failure == "retry" and self._start_again(execution, slots):
            logger.warning(
                "%s by an outcome of the last checkpoint; that call is tried again", where, exc_info=error
            )
            return
        failure = ActionFailedError(f"{where}: {type(error).__name__}: {_text(error)}")
        engine.ended = failure
        raise failure from error

    def _start_again(self, execution: Execution, slots: list[int]) -> bool:
        """Without a store: try calls again whose failure came with the state (P14)."""
        self.digest_outputs(execution)
        run = execution.run
        void = reopening.start_again(run, execution, slots, self._engine.now)
        if void is None:
            return False
        for slot in list(execution.slots.values()):
            self.forget_call(slot)
            self._remove(execution, slot)
        driver, execution.driver = execution.driver, None
        if driver is not None:
            driver.abandon()
        drop_numbers(run, void)
        self._engine.mark(run.key)
        return True

    # --- going live ---

    def go_live(self, run: Run) -> None:
        """Start what was reserved and has no outcome. Keeps P9, P10: doubt is recorded before a call starts."""
        if run.cuts:
            return
        engine = self._engine
        fresh = run.fresh
        if len(fresh) == 1 and run.begun:
            slot = fresh[0]
            spec = slot.spec
            if (
                slot.state == NEW
                and slot.kind == CALL_SLOT
                and slot.batch is None
                and spec.reconciler is None
                and spec.options is None
            ):
                fresh.clear()
                engine.start_call(slot)
                return
        run.fresh = []
        reserve: dict[int, list[Slot]] = {}
        for slot in fresh:
            if slot.state != NEW:
                continue
            if slot.kind != CALL_SLOT:
                slot.state = RUNNING
                if slot.kind == AWAKEABLE_SLOT:
                    awakeables.wait(engine, slot)
                else:
                    engine.timers.arm(slot)
                continue
            if not run.begun:
                engine.journal.begin(run, engine.now)
            if slot.spec.options is not None and engine.retrying.hold(slot):
                continue
            if not slot.pending and (slot.batch is not None or slot.spec.reconciler is not None):
                slot.state = RESERVING
                reserve.setdefault(slot.execution.id, []).append(slot)
            elif slot.batch is None:
                engine.start_call(slot)
            else:
                self.start_reserved(slot)
        for slots in reserve.values():
            self.reserve(slots)

    def reserve(self, slots: list[Slot]) -> None:
        """Make slots PENDING in one record (F4); their calls start when it is durable."""
        engine, execution = self._engine, slots[0].execution
        reserved = [(execution.id, s.index, s.spec.function_id, s.spec.arguments) for s in slots]
        entry = engine.journal.write(
            execution.run, RESERVED, engine.now, execution=execution.id, reserved=reserved
        )
        entry.slot = slots[0]
        entry.slots = slots

    def start_reserved(self, slot: Slot) -> None:
        """Start a call, within the parallelism of its batch (F11)."""
        batch = slot.batch
        if batch is not None:
            if batch.running >= self._engine.settings.call_parallelism:
                slot.state = WAITING
                batch.waiting.append(slot)
                return
            batch.running += 1
        self._engine.start_call(slot)

    def start_next_of_batch(self, batch: Batch) -> None:
        """A call of the batch has ended: another may start."""
        batch.running -= 1
        while batch.waiting and batch.running < self._engine.settings.call_parallelism:
            slot = batch.waiting.popleft()
            if slot.state == WAITING:
                self.start_reserved(slot)


def input_event(value: Any, trigger: bytes, timestamp: int | None) -> InputEvent:
    """The event of an input, with the id that it has on every attempt (L1, P2)."""
    event = InputEvent(value)
    event.source_timestamp = timestamp
    event._id = functools.partial(identity.event_uuid, trigger)
    return event


def ends_calls(kind: int, execution: Execution, expired: list[int]) -> bool:
    """Whether the recorded end of a batch ends calls though nobody waits for the batch any more.

    They were cancelled when the time was over (F8); an action that awaits one of them by itself must hear of it.
    """
    return kind == BATCH_END and any(index in execution.slots for index in expired)


def _is_fixed(event: Event) -> bool:
    """Whether the action cannot change what it has sent, so that its digest may be taken later."""
    return len(event.attributes) == 1 and type(event.attributes.get("output")) in _FIXED


def _text(error: BaseException) -> str:
    try:
        return str(error)
    except Exception:
        return "(its text cannot be had)"
