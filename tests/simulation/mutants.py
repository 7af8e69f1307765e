"""Known-bad mutants of the engine, one for each rule of the recovery protocol that they leave out.

Each is a function that patches the engine through pytest's monkeypatch. What then goes wrong stands in the third
column of the table in the design; `test_protocol.py` says within how many schedules the simulator sees it.
"""

from __future__ import annotations

import asyncio
import itertools
import random
from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest

from flink_agents_durable.api.events import EventType
from flink_agents_durable.engine import (
    admission,
    driver,
    engine,
    execution,
    expiry,
    identity,
    mismatch,
    records,
    replay,
    snapshot,
)
from flink_agents_durable.engine.commands import NOT_LIVE
from flink_agents_durable.engine.engine import Engine
from flink_agents_durable.engine.execution import Stepper
from flink_agents_durable.engine.execution_port import ExecutionPort
from flink_agents_durable.engine.journal import Journal
from flink_agents_durable.engine.memory import RunMemory
from flink_agents_durable.engine.ports import FAILED, MEMORY
from flink_agents_durable.engine.replay import RunJournal
from flink_agents_durable.engine.resume import Resumption
from flink_agents_durable.engine.run import BATCH_SLOT, RESERVING, RUNNING
from flink_agents_durable.engine.timers import Timers
from flink_agents_durable.engine.uncaught import uncaught_slots
from flink_agents_durable.runtime.log_positions import RetainedPositions
from flink_agents_durable.store.protocol import UnknownFateError
from flink_agents_durable.testing.simulation import World
from flink_agents_durable.testing.simulation.attempt import Attempt
from flink_agents_durable.testing.simulation.log import SimulatedLog

Mutant = Callable[[pytest.MonkeyPatch], None]


def p1_order_by_execution(patch: pytest.MonkeyPatch) -> None:
    """P1: deliveries are replayed execution by execution, not in the order of their numbers."""
    original = RunJournal.deliveries
    patch.setattr(
        RunJournal, "deliveries", lambda self: sorted(original(self), key=lambda r: (r.execution, r.number))
    )


def p2_ids_by_counting(patch: pytest.MonkeyPatch) -> None:
    """P2: ids of events count up in the order in which they are sent, instead of deriving from their parent."""
    counter = itertools.count()
    patch.setattr(identity, "event_id", lambda execution, index, digest: next(counter).to_bytes(16, "big"))


def p2_ids_without_place(patch: pytest.MonkeyPatch) -> None:
    """P2, D4: two equal events of one parent have one id."""
    original = identity.event_id
    patch.setattr(identity, "event_id", lambda execution, index, digest: original(execution, 0, digest))


def p2_random_uuid(patch: pytest.MonkeyPatch) -> None:
    """P2: `uuid4` is another one on replay."""
    original = identity.derived_uuid
    source = random.Random(1)

    def derived(execution: int, purpose: bytes, index: int) -> Any:
        return original(source.getrandbits(64), purpose, index)

    patch.setattr("flink_agents_durable.engine.context.derived_uuid", derived)


def p3_deliver_before_the_ack(patch: pytest.MonkeyPatch) -> None:
    """P3: an outcome is delivered when it is handed over."""
    original = Engine.write_outcome

    def write(self: Engine, kind: int, slot: Any, ok: bool, value: Any) -> Any:
        entry = original(self, kind, slot, ok, value)
        if kind == records.OUTCOME:
            _deliver(self, entry, slot)
            self.advance(entry.run)
        return entry

    patch.setattr(Engine, "write_outcome", write)


def p4_position_is_the_end(patch: pytest.MonkeyPatch) -> None:
    """P4: a snapshot has the position of the end of the log."""
    patch.setattr(
        Attempt,
        "applied_position",
        property(lambda self: self.positions[-1] if self.positions else self.start_position),
    )


def p5_tail_does_not_make_dirty(patch: pytest.MonkeyPatch) -> None:
    """P5: reading a tail record does not make its key dirty."""
    original = Resumption.merge

    def merge(self: Resumption) -> Any:
        with pytest.MonkeyPatch.context() as inner:
            inner.setattr(Engine, "mark", lambda self, ks: None)
            live = list(original(self))
        return iter(live)

    patch.setattr(Resumption, "merge", merge)


def p6_unclaimed_not_in_snapshots(patch: pytest.MonkeyPatch) -> None:
    """P6: records of inputs that have not come back are not kept."""
    patch.setattr(snapshot, "_unclaimed", lambda ks, updates: None)


def p7_claim_by_arrival(patch: pytest.MonkeyPatch) -> None:
    """P7: an input takes the next sequence number, whatever its value."""

    def claim(ks: Any, digest: bytes) -> Any:
        sequence = ks.sequence
        ks.sequence += 1
        claimed = ks.unclaimed.pop(sequence, None)
        ks.unclaimed_dirty = ks.unclaimed_dirty or claimed is not None
        return sequence, claimed

    patch.setattr(engine, "claim", claim)


def p7_number_of_another(patch: pytest.MonkeyPatch) -> None:
    """P7: an input without records may get a sequence number that the tail uses for another one."""
    original = admission.claim

    def claim(ks: Any, digest: bytes) -> Any:
        if any(known.digest == digest for known in ks.unclaimed.values()):
            return original(ks, digest)
        sequence = ks.sequence
        ks.sequence += 1
        return sequence, None

    patch.setattr(engine, "claim", claim)


def p8_tail_counts_again(patch: pytest.MonkeyPatch) -> None:
    """P8: tail records that the snapshot has applied count once more."""

    def add_tail(self: RunJournal, tail: Any) -> list[int]:
        added = []
        for record, data in sorted(((records.decode_record(d), d) for d in tail), key=lambda x: x[0].number):
            self.last = max(self.last, record.number)
            self.time = max(self.time, record.time)
            self._add(record, data)
            added.append(record.number)
        return [number for number in added if number in self.records]

    patch.setattr(RunJournal, "add_tail", add_tail)


def p8_stale_records_stay(patch: pytest.MonkeyPatch) -> None:
    """P8: records of runs that are over are kept for an input that never comes."""
    original = Resumption._sort_in

    def sort_in(self: Resumption, ks: Any, sequence: int, tail: Any) -> None:
        known = ks.sequence
        ks.sequence = 0
        original(self, ks, sequence, tail)
        ks.sequence = known

    patch.setattr(Resumption, "_sort_in", sort_in)


def p8_tail_goes_on_after_a_gap(patch: pytest.MonkeyPatch) -> None:
    """P8: the tail of a run does not end where records are missing."""

    def add_tail(self: RunJournal, tail: Any) -> list[int]:
        added = []
        for record, data in sorted(((records.decode_record(d), d) for d in tail), key=lambda x: x[0].number):
            if record.number > self.last:
                self.last = record.number
                self.time = max(self.time, record.time)
                self._add(record, data)
                added.append(record.number)
        return [number for number in added if number in self.records]

    patch.setattr(RunJournal, "add_tail", add_tail)


def p9_calls_start_during_replay(patch: pytest.MonkeyPatch) -> None:
    """P9: calls start although recorded deliveries are still to come."""
    original = Stepper.replay_next

    def replay_next(self: Stepper, run: Any) -> None:
        self.go_live(run)
        starts, self._engine.starts = self._engine.starts, []
        self._engine.ports.start_calls(starts)
        original(self, run)

    patch.setattr(Stepper, "replay_next", replay_next)


def p10_start_before_pending(patch: pytest.MonkeyPatch) -> None:
    """P10: a reconcilable call does not wait until its PENDING record is durable."""
    original = Stepper.reserve

    def reserve(self: Stepper, slots: Any) -> None:
        original(self, slots)
        for slot in slots:
            if slot.state == RESERVING:
                self.start_reserved(slot)

    patch.setattr(Stepper, "reserve", reserve)


def p11_timers_without_record(patch: pytest.MonkeyPatch) -> None:
    """P11: a timer is delivered when it fires."""

    def fire(self: Engine, now: int) -> None:
        self._enter(now)
        for slot in list(self.timers.due(now)):
            if slot.kind == BATCH_SLOT:
                self._expire(slot)
            else:
                run = slot.execution.run
                self._stepper.deliver(slot, records.TIMER, run.delivered, self.now, True, b"", NOT_LIVE, [])
                self.advance(run)
        self._leave()

    patch.setattr(Engine, "fire_timers", fire)


def p12_time_of_the_clock(patch: pytest.MonkeyPatch) -> None:
    """P12: the time is that of the wall clock."""
    patch.setattr(ExecutionPort, "ask_time", lambda self: self._engine.now)


def p13_no_cut_record(patch: pytest.MonkeyPatch) -> None:
    """P13: what a mismatch voids is voided in this attempt alone."""
    _no_record(patch, records.CUT)


def p14_no_reopen_record(patch: pytest.MonkeyPatch) -> None:
    """P14: an uncaught failure of a call is not reopened."""
    _no_record(patch, records.REOPEN)


def p15_dispatched_events_outlive_a_rollback(patch: pytest.MonkeyPatch) -> None:
    """P15: what was dispatched is known from outside of the snapshot: it is suppressed though rolled back."""
    sent: Counter[int] = Counter()
    original = Stepper._send

    def send(self: Stepper, one: Any, event: Any) -> None:
        index = one.sends
        if event.type == EventType.OutputEvent and index < sent[one.id]:
            one.sends += 1
            return
        sent[one.id] = max(sent[one.id], index + 1)
        original(self, one, event)

    patch.setattr(Stepper, "_send", send)


def p15_dispatched_events_are_forgotten(patch: pytest.MonkeyPatch) -> None:
    """P15: the snapshot does not have what was dispatched."""
    original = snapshot._execution_image

    def image(one: Any) -> Any:
        known = original(one)
        known.dispatched = []
        return known

    patch.setattr(snapshot, "_execution_image", image)


def p15_dead_letters_outlive_a_rollback(patch: pytest.MonkeyPatch) -> None:
    """P15: a dead letter that was emitted once is suppressed though rolled back."""
    sent: set[str] = set()
    original = Attempt.emit_dead_letter

    def emit(self: Attempt, letter: Any, timestamp: Any) -> None:
        if letter.run_id not in sent:
            sent.add(letter.run_id)
            original(self, letter, timestamp)

    patch.setattr(Attempt, "emit_dead_letter", emit)


def p16_memory_without_versions(patch: pytest.MonkeyPatch) -> None:
    """P16: memory is read as it is now."""
    patch.setattr(RunMemory, "read", lambda self, path, version: self._current(path))


def p17_synchronous_outcomes_wait_for_their_turn(patch: pytest.MonkeyPatch) -> None:
    """P17: a synchronous outcome counts on replay only when all deliveries before it have been made."""
    original = ExecutionPort.execute

    def execute(self: ExecutionPort, index: int, spec: Any, commands: Any) -> Any:
        known, queue = self._execution.recorded, self._execution.run.replay
        record = known.outcomes.get(index) if known is not None else None
        if known is not None and record is not None and queue and queue[0].number < record.number:
            del known.outcomes[index]
        return original(self, index, spec, commands)

    patch.setattr(ExecutionPort, "execute", execute)


def p18_end_of_a_batch_without_record(patch: pytest.MonkeyPatch) -> None:
    """P18: the end of a batch is not recorded."""
    original = Engine._expire

    def expire(self: Engine, end: Any) -> None:
        original(self, end)
        entry = self.journal.outbox.pop()
        entry.run.number -= 1
        _deliver(self, entry, end)
        self.advance(entry.run)

    patch.setattr(Engine, "_expire", expire)


def p18_end_of_a_batch_without_its_calls(patch: pytest.MonkeyPatch) -> None:
    """P18: the record of the end does not say which calls had no outcome."""
    original = Journal.write

    def write(self: Journal, run: Any, kind: int, *args: Any, **kwargs: Any) -> Any:
        if kind == records.BATCH_END:
            kwargs["slots"] = []
        return original(self, run, kind, *args, **kwargs)

    patch.setattr(Journal, "write", write)


def p20_refusals_are_not_recorded(patch: pytest.MonkeyPatch) -> None:
    """P20: a result that is too large fails the call, and no record says so."""
    original = Engine.write_outcome

    def write(self: Engine, kind: int, slot: Any, ok: bool, value: Any) -> Any:
        entry = original(self, kind, slot, ok, value)
        if ok and not entry.ok:
            self.journal.outbox.remove(entry)
            entry.run.number -= 1
            _deliver(self, entry, slot)
            self.advance(entry.run)
        return entry

    patch.setattr(Engine, "write_outcome", write)


def p20_unknown_fate_is_a_failure(patch: pytest.MonkeyPatch) -> None:
    """P20: an append whose fate is unknown fails the call, and the action goes on."""
    original = ExecutionPort._execute

    def execute(self: ExecutionPort, slot: Any) -> Any:
        try:
            return original(self, slot)
        except UnknownFateError as error:
            return False, RuntimeError(str(error))

    patch.setattr(ExecutionPort, "_execute", execute)


def p21_read_before_the_fence(patch: pytest.MonkeyPatch) -> None:
    """P21: the log is read before the older attempt is fenced."""
    patch.setattr(World, "OPENING", ("read", "fence"))


def p22_zombies_append(patch: pytest.MonkeyPatch) -> None:
    """P22: a zombie's append is acknowledged, and read by nobody of the attempt after it."""

    def append(self: SimulatedLog, attempt: int, batch: Any) -> int:
        if all(self.owners.get(group, 0) == attempt for group, _ in batch):
            self.records.extend(batch)
        return self.end

    patch.setattr(SimulatedLog, "append", append)


def p23_cut_to_the_newest(patch: pytest.MonkeyPatch) -> None:
    """P23: the log is cut to the newest completed checkpoint, though an older one may be restored."""
    original = RetainedPositions.__init__
    patch.setattr(RetainedPositions, "__init__", lambda self, num_retained: original(self, 1))


def p23_cut_when_taken(patch: pytest.MonkeyPatch) -> None:
    """P23: the log is cut when a checkpoint is taken, not when it is complete."""
    original = World._trigger_checkpoint

    def trigger(self: World, first: Attempt) -> None:
        original(self, first)
        assert self.pending is not None
        self.log.truncate(self.pending.positions)

    patch.setattr(World, "_trigger_checkpoint", trigger)


def p24_timers_end_with_the_attempt(patch: pytest.MonkeyPatch) -> None:
    """P24: timers of executions that were restored are not armed again."""
    original = Timers.arm

    def arm(self: Timers, slot: Any) -> None:
        if slot.execution.run.segment != RESTORED:
            original(self, slot)
        slot.state = RUNNING

    patch.setattr(Attempt, "admit_restored", lambda self: RESTORED)
    patch.setattr(Timers, "arm", arm)


RESTORED = 4711


def p24_only_the_first_timer(patch: pytest.MonkeyPatch) -> None:
    """P24: the transient timer serves the first durable timer, and none after it."""
    original = Timers.changed

    def changed(self: Timers) -> bool:
        first = self._announced is None
        return original(self) and first

    patch.setattr(Timers, "changed", changed)


def p25_judged_by_the_clock(patch: pytest.MonkeyPatch) -> None:
    """P25: whether memory has expired depends on when the run is replayed."""
    original = expiry.use_memory

    def use(one: Engine, execution: Any, ttl: int) -> None:
        run = execution.run
        one.journal.begin(run, one.now)
        recorded, run.start_time = run.start_time, one.now
        original(one, execution, ttl)
        run.start_time = recorded

    patch.setattr("flink_agents_durable.engine.execution_port.use_memory", use)


def p25_the_sweep_takes_what_a_replay_reads(patch: pytest.MonkeyPatch) -> None:
    """P25: memory is removed though the input of recorded calls that read it has not come back."""

    def sweep(one: Engine, keys: Any, now: int, ttl: int) -> Any:
        return [
            (key, [(MEMORY, expiry.EVERYTHING, None)])
            for key, _, data in keys
            if expiry.has_expired(snapshot.read_sequence(data).used, ttl, now)
        ]

    patch.setattr(expiry, "sweep", sweep)


def p25_numbers_start_anew(patch: pytest.MonkeyPatch) -> None:
    """P25: a key that was forgotten gets its numbers, and with them its ids, a second time."""
    original = expiry.sweep

    def sweep(one: Engine, *more: Any) -> Any:
        floors = dict(one.floors)
        updates = original(one, *more)
        one.floors = floors
        return updates

    patch.setattr(expiry, "sweep", sweep)


def _deliver(self: Engine, entry: Any, slot: Any) -> None:
    """Deliver a record that is not acknowledged."""
    self._stepper.deliver(
        slot, entry.kind, entry.number, entry.time, entry.ok, entry.payload, NOT_LIVE, list(entry.slots)
    )


def _no_record(patch: pytest.MonkeyPatch, kind: int) -> None:
    """Number a record, and never hand it to the store; it counts as acknowledged."""
    original = Journal.write

    def write(self: Journal, run: Any, of: int, *args: Any, **kwargs: Any) -> Any:
        entry = original(self, run, of, *args, **kwargs)
        if of == kind:
            self.outbox.remove(entry)
            run.number -= 1
            if kind == records.CUT:
                run.cuts -= 1
        return entry

    patch.setattr(Journal, "write", write)


# Faults that the simulator has found, put back.


def d5_as_completed_through_a_set(patch: pytest.MonkeyPatch) -> None:
    """D5: `as_completed` starts bare coroutines in the order of their addresses."""
    source = random.Random(1)

    def any_order(futures: Any) -> Any:
        given = list(futures)
        source.shuffle(given)
        return [asyncio.ensure_future(future) for future in given]

    patch.setattr(asyncio.tasks, "_as_completed_in_order", any_order)


def f8_batch_that_was_given_up(patch: pytest.MonkeyPatch) -> None:
    """F8: the end of a batch that nobody waits for any more reaches none of its calls."""
    patch.setattr(engine, "ends_calls", lambda *_: False)
    patch.setattr(execution, "ends_calls", lambda *_: False)


def p14_deadlines_of_earlier_steps(patch: pytest.MonkeyPatch) -> None:
    """P14: a time-out that the action raises later than in the step of its deadline is not reopened."""
    original = uncaught_slots
    patch.setattr(driver, "uncaught_slots", lambda error, delivered, _: original(error, delivered, {}))
    deliver = Stepper.deliver

    def forget(self: Stepper, slot: Any, kind: int, *rest: Any) -> None:
        if kind == records.OUTCOME:
            slot.execution.last_timer = -1
        deliver(self, slot, kind, *rest)

    patch.setattr(Stepper, "deliver", forget)


def l2_new_ids_in_a_fork(patch: pytest.MonkeyPatch) -> None:
    """L2: in a fork, inputs that wait with records get ids of the new log, which the records do not fit."""
    original = Engine.make_run

    def make_run(self: Engine, ks: Any, queued: Any, memory: Any) -> Any:
        queued.run_id = b""
        return original(self, ks, queued, memory)

    patch.setattr(Engine, "make_run", make_run)


def p17_synchronous_outcomes_are_applied_late(patch: pytest.MonkeyPatch) -> None:
    """P17: a savepoint has the outputs of a synchronous call, but not its outcome."""
    patch.setattr(Engine, "waited", lambda self: None)


def p13_voided_before_the_cut(patch: pytest.MonkeyPatch) -> None:
    """P13: what a mismatch voids leaves the state before the cut is durable."""
    original = mismatch.cut

    def cut(engine: Engine, run: Any, *args: Any) -> None:
        original(engine, run, *args)
        mismatch.apply_cut(engine.journal.outbox[-1])
        run.cuts += 1

    patch.setattr(mismatch, "cut", cut)


def p8_records_behind_a_gap(patch: pytest.MonkeyPatch) -> None:
    """P8: records behind a gap come back once their numbers have been given again."""
    patch.setattr(replay, "latest", lambda given: sorted(given, key=lambda entry: entry[0].number))


# Faults that nobody has made yet.


def d3_arguments_are_not_compared(patch: pytest.MonkeyPatch) -> None:
    """D3: a recorded outcome is given to every call of the same function."""
    patch.setattr(
        replay, "same_call", lambda function_id, arguments, slot: slot.spec.function_id == function_id
    )


def i2_interruptions_are_recorded(patch: pytest.MonkeyPatch) -> None:
    """I2: an interrupted call has failed."""
    original = Engine.complete

    def complete(self: Engine, completions: Any, now: int) -> None:
        original(self, [(id, min(status, FAILED), value) for id, status, value in completions], now)

    patch.setattr(Engine, "complete", complete)


def l3_ended_executions_are_forgotten(patch: pytest.MonkeyPatch) -> None:
    """L3, L5: a snapshot does not know which executions of a live run have ended."""
    original = snapshot.run_image

    def image(run: Any) -> Any:
        known = original(run)
        known.done = []
        return known

    patch.setattr(snapshot, "run_image", image)


def p16_memory_before_the_end(patch: pytest.MonkeyPatch) -> None:
    """P16: what an execution has written is visible to others after the delivery, before it completes."""
    original = Stepper.deliver

    def deliver(self: Stepper, slot: Any, *rest: Any) -> None:
        original(self, slot, *rest)
        one = slot.execution
        if one.writes and one.id in one.run.executions:
            one.run.memory.commit(dict(one.writes), one.run.delivered, keep=True)

    patch.setattr(Stepper, "deliver", deliver)


def s5_tail_of_one_key_group(patch: pytest.MonkeyPatch) -> None:
    """S5: a subtask reads the tail of one of its key groups."""
    original = SimulatedLog.tail

    def tail(self: SimulatedLog, positions: Any) -> Any:
        return original(self, dict(sorted(positions.items())[:1]))

    patch.setattr(SimulatedLog, "tail", tail)
