"""Restoring the journal of a run from the snapshot and the tail of the log, and voiding what does not fit."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable

from flink_agents_durable.engine.attempts import counted_anew
from flink_agents_durable.engine.records import (
    ATTEMPT,
    AWAKENED,
    BATCH_END,
    BEGIN,
    CUT,
    DELIVERIES,
    OUTCOME,
    REOPEN,
    RESERVED,
    SYNC_OUTCOME,
    TIMER,
    Record,
    Reservation,
    decode_record,
    encode_record,
)
from flink_agents_durable.engine.run import AWAKEABLE_SLOT, BATCH_SLOT, CALL_SLOT, Recorded, Run, Slot

Void = tuple[int, int]
"""Reservations of an execution from this slot on that were made before this record number are void (P13)."""


class RunJournal:
    """The records of a run in the order of their numbers, while its state is put together."""

    def __init__(self) -> None:
        self.records: dict[int, tuple[Record, bytes]] = {}
        self.gone: list[int] = []
        self.lost: list[Record] = []  # void resolutions of awakeables, which nobody can ask for again
        self.changed: list[int] = []
        self.reopened: dict[tuple[int, int], int] = {}
        self.voids: dict[int, list[Void]] = {}
        self.start_time = 0
        self.begun = False
        self.last = 0
        self.time = 0

    def add_stored(self, records: Iterable[bytes]) -> None:
        """Take the records of the snapshot; what they void was removed when it was taken."""
        for record, data in sorted(
            ((decode_record(data), data) for data in records), key=lambda x: x[0].number
        ):
            self.records[record.number] = (record, data)

    def add_tail(self, tail: Iterable[bytes]) -> list[int]:
        """Merge tail records, given in log order: only numbers that the snapshot has not applied, up to the
        first gap. Keeps P8. Returns the numbers that were added.
        """
        added = []
        for record, data in latest([(decode_record(data), data) for data in tail]):
            if record.number <= self.last:
                continue
            if record.number != self.last + 1:
                break
            self.last = record.number
            self.time = max(self.time, record.time)
            self._add(record, data)
            added.append(record.number)
        return [number for number in added if number in self.records]

    def _add(self, record: Record, data: bytes) -> None:
        if record.kind == BEGIN:
            self.start_time, self.begun = record.time, True
        elif record.kind == CUT:
            self.voids.setdefault(record.execution, []).append((record.slot, record.number))
            self._void(
                lambda r: r.execution == record.execution and r.slot >= record.slot and r.kind != RESERVED
            )
        elif record.kind == REOPEN:
            self._reopen(record)
        else:
            self.records[record.number] = (record, data)

    def _reopen(self, record: Record) -> None:
        """Keeps P14: failures and time-outs of these slots are void, successes stay, attempts count anew."""
        self._void(lambda other: is_reopened(other, record.execution, record.slots))
        for number, (other, _) in self.records.items():
            if other.kind == ATTEMPT and other.execution == record.execution and other.slot in record.slots:
                again = counted_anew(other)
                self.records[number] = (again, encode_record(again))
                self.changed.append(number)
        for slot in record.slots:
            self.reopened[record.execution, slot] = record.time

    def _void(self, is_void: Callable[[Record], bool]) -> None:
        for number in [number for number, (record, _) in self.records.items() if is_void(record)]:
            record, _ = self.records.pop(number)
            self.gone.append(number)
            if record.kind == AWAKENED:
                self.lost.append(record)

    def by_execution(self) -> dict[int, Recorded]:
        """What the journal knows of each execution. Keeps P19: a failed attempt clears the doubt before it."""
        known: dict[int, Recorded] = {}
        for number, (record, _) in sorted(self.records.items()):
            if record.kind == RESERVED:
                for reservation in record.reserved:
                    if not self._is_cut(reservation[0], reservation[1], number):
                        known.setdefault(reservation[0], Recorded()).pending[reservation[1]] = reservation
            elif record.kind == ATTEMPT:
                if not self._is_cut(record.execution, record.slot, number):
                    of = known.setdefault(record.execution, Recorded())
                    of.attempts[record.slot] = record
                    of.pending.pop(record.slot, None)
            else:
                known.setdefault(record.execution, Recorded()).outcomes[record.slot] = record
            known.setdefault(record.execution, Recorded()).numbers.append(number)
        return known

    def _is_cut(self, execution: int, slot: int, number: int) -> bool:
        """Whether a later cut voids what this record says of the slot (P13)."""
        return any(slot >= first and number < cut for first, cut in self.voids.get(execution, ()))

    def deliveries(self) -> list[Record]:
        """Deliveries in the order in which they were made (P1)."""
        return [record for _, (record, _) in sorted(self.records.items()) if record.kind in DELIVERIES]


def latest(records: list[tuple[Record, bytes]]) -> list[tuple[Record, bytes]]:
    """Records of a run, given in log order, by their numbers; where a number comes again, the later one counts.

    It does so after a restore that missed records: the attempt went on before the gap, and what lay behind the
    gap must not come back once its numbers have been given again.
    """
    kept: list[tuple[Record, bytes]] = []
    for entry in records:
        while kept and kept[-1][0].number >= entry[0].number:
            kept.pop()
        kept.append(entry)
    return kept


def is_reopened(record: Record, execution: int, slots: Collection[int]) -> bool:
    """Whether the reopening of these slots voids a record: failures and time-outs of theirs (P14)."""
    if record.execution != execution:
        return False
    if record.kind in (OUTCOME, SYNC_OUTCOME):
        return record.slot in slots and not record.ok
    if record.kind in (TIMER, BATCH_END) and record.slot in slots:
        return True
    return record.kind == BATCH_END and not set(slots).isdisjoint(record.slots)


def fits(record: Record, slot: Slot, outcome: int = OUTCOME) -> bool:
    """Whether a recorded outcome belongs to what the action asks for now; `outcome` is the kind a call expects."""
    if slot.kind == CALL_SLOT:
        return record.kind == outcome and same_call(record.function_id, record.arguments, slot)
    if slot.kind == AWAKEABLE_SLOT:
        return record.kind == AWAKENED and record.function_id == slot.spec.function_id
    return record.kind == (BATCH_END if slot.kind == BATCH_SLOT else TIMER)


def same_call(function_id: str, arguments: bytes | None, slot: Slot) -> bool:
    """Identity of a call: function id and, where both have one, the digest of the arguments."""
    spec = slot.spec
    if spec is None or spec.function_id != function_id:
        return False
    return arguments is None or spec.arguments is None or arguments == spec.arguments


def reservation_fits(reservation: Reservation, slot: Slot) -> bool:
    """Whether a PENDING slot belongs to what the action asks for now."""
    return slot.kind == CALL_SLOT and same_call(reservation[2], reservation[3], slot)


def void_from(run: Run, execution: int, known: Recorded | None, slot: int) -> list[int]:
    """Drop what was recorded for an execution from a slot on; gives the record numbers (P13)."""
    numbers = [r.number for r in run.replay if r.execution == execution and r.slot >= slot]
    run.replay = type(run.replay)(r for r in run.replay if not (r.execution == execution and r.slot >= slot))
    if known is not None:
        numbers += [r.number for index, r in known.outcomes.items() if index >= slot]
        known.outcomes = {index: r for index, r in known.outcomes.items() if index < slot}
        numbers += [r.number for index, r in known.attempts.items() if index >= slot]
        known.pending = {index: r for index, r in known.pending.items() if index < slot}
        known.attempts = {index: r for index, r in known.attempts.items() if index < slot}
    return numbers
