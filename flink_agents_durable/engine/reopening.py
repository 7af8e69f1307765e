"""Trying a replayed failure again without a store (P14).

With a store the `reopen` record voids a failure before the task fails. Without one nothing can be written: a
failure that a checkpoint holds would come back with every restore until the job gives up. An execution that
ends by a failure which it got from the state therefore starts again in place, once for each restore, without
that failure and with all its other outcomes.
"""

from __future__ import annotations

from collections import deque

from flink_agents_durable.engine.attempts import counted_anew
from flink_agents_durable.engine.records import ATTEMPT, DELIVERIES, Record, decode_record, encode_record
from flink_agents_durable.engine.replay import is_reopened
from flink_agents_durable.engine.run import Execution, Recorded, Run


def remember(execution: Execution, record: Record) -> None:
    """Keep what an execution was given from the state."""
    if not execution.given:
        execution.given = []
    execution.given.append((record, True))


def remember_live(execution: Execution, data: bytes | tuple[object, ...]) -> None:
    """The same for an outcome of this attempt, if the execution has replayed anything."""
    if execution.given:
        record = decode_record(data if isinstance(data, bytes) else encode_record(data))
        execution.given.append((record, False))


def start_again(run: Run, execution: Execution, slots: list[int], now: int) -> list[int] | None:
    """Put a fresh execution in the place of one that ended by replayed failures of these slots.

    Gives the numbers of the records that are void now; None if no such failure came from the state.
    """
    given = execution.given
    if not any(stored and is_reopened(record, execution.id, slots) for record, stored in given):
        return None
    void = [record for record, _ in given if is_reopened(record, execution.id, slots)]
    kept = [record for record, _ in given if record not in void]
    again = Execution(run, execution.action, execution.id, execution.trigger, None, execution.event_payload)
    again.start_number, again.start_version = execution.start_number, execution.start_version
    again.start_time = again.time = execution.start_time
    again.dispatched = execution.dispatched
    again.suppress = len(execution.dispatched)
    again.voids = execution.voids
    again.reopened = {**execution.reopened, **dict.fromkeys(slots, now)}
    numbers = {record.number for record in void}
    again.numbers = [number for number in execution.numbers if number not in numbers]
    again.recorded = _recorded(execution, kept, slots)
    run.executions[again.id] = again
    run.starting.append(again)
    deliveries = [record for record in kept if record.kind in DELIVERIES]
    run.replay = deque(sorted([*deliveries, *run.replay], key=lambda record: record.number))
    return sorted(numbers)


def _recorded(execution: Execution, kept: list[Record], slots: list[int]) -> Recorded:
    known = Recorded()
    if execution.recorded is not None:
        known.pending = execution.recorded.pending
        known.outcomes = dict(execution.recorded.outcomes)
        known.attempts = dict(execution.recorded.attempts)
    known.outcomes.update({record.slot: record for record in kept if record.kind != ATTEMPT})
    known.attempts.update({record.slot: record for record in kept if record.kind == ATTEMPT})
    for slot in known.attempts.keys() & set(slots):
        record = known.attempts[slot] = counted_anew(known.attempts[slot])
        if record.number in execution.numbers:  # not superfluous already
            ks = execution.run.key
            if ks.journal_new.pop(record.number, None) is None:
                ks.journal_gone.append(record.number)  # it takes the place of a stored one
            ks.journal_new[record.number] = encode_record(record)
    # A failed attempt clears the doubt (P19); what was restored says so already.
    clear = {record.slot for record, stored in execution.given if record.kind == ATTEMPT and not stored}
    known.pending = {slot: reserved for slot, reserved in known.pending.items() if slot not in clear}
    return known
