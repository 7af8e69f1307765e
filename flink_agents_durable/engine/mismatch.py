"""A replay that differs from its records: what they hold from there on is void (P13)."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from flink_agents_durable.api.errors import NonDeterministicActionError
from flink_agents_durable.engine import awakeables
from flink_agents_durable.engine.records import AWAKENED, BATCH_END, CUT, TIMER, Record
from flink_agents_durable.engine.replay import void_from
from flink_agents_durable.engine.run import AWAKEABLE_SLOT, TIMER_SLOT, Execution, Run, Slot, drop_numbers

if TYPE_CHECKING:
    from flink_agents_durable.engine.engine import Engine
    from flink_agents_durable.engine.journal import Entry

logger = logging.getLogger(__name__)


def cut(
    engine: Engine,
    run: Run,
    execution_id: int,
    execution: Execution | None,
    slot: int,
    recorded: Record | str,
    current: str,
) -> None:
    """Void what was recorded for an execution from a slot on. Keeps P13.

    Raises NonDeterministicActionError under `mismatch-policy=fail`. A snapshot keeps the records until the cut is
    durable: a log without the cut must not go with a state that has it, or the records came back beside those
    that took their place.
    """
    name = recorded if isinstance(recorded, str) else _recorded_name(recorded)
    action = execution.action.name if execution is not None else "of an earlier version"
    text = (
        f"run {run.id.hex()} of key {run.key_object!r}, action {action!r}, slot {slot}: recorded was {name},"
        f" the action now asks for {current}"
    )
    if engine.settings.mismatch_policy == "fail":
        engine.ended = NonDeterministicActionError(text)
        raise engine.ended
    logger.warning("%s; it is executed anew from there", text)
    engine.stats.mismatches += 1
    known = execution.recorded if execution is not None else run.records.get(execution_id)
    lost = [r for r in run.replay if r.kind == AWAKENED and r.execution == execution_id and r.slot >= slot]
    numbers = void_from(run, execution_id, known, slot)
    entry = engine.journal.write(run, CUT, engine.now, execution=execution_id, index=slot)
    entry.slots, entry.live = numbers, (execution_id, slot, lost)
    run.cuts += 1


def apply_cut(entry: Entry) -> None:
    """The cut is durable: forget the records that it voids, also of an execution that may start later."""
    run = entry.run
    run.cuts -= 1
    drop_numbers(run, entry.slots)
    execution_id, slot, lost = entry.live
    for record in lost:
        awakeables.give_back(run.key, record)
    execution = run.executions.get(execution_id)
    known = execution or run.records.get(execution_id)
    if known is not None:
        gone = set(entry.slots)
        known.numbers = [number for number in known.numbers if number not in gone]
    voids = execution.voids if execution is not None else run.voids.setdefault(execution_id, [])
    voids.append((slot, entry.number))


def asked(slot: Slot, recorded: str, arguments: bytes | None) -> str:
    """What the action asks for, and how it differs when the function is the recorded one."""
    text = _describe(slot)
    if text != recorded:
        return text
    return text + (
        " in another form of call" if arguments == slot.spec.arguments else " with other arguments"
    )


def _describe(slot: Slot) -> str:
    if slot.kind == AWAKEABLE_SLOT:
        return f"awakeable {slot.spec.function_id}"
    if slot.spec is not None:
        return str(slot.spec.function_id)
    return "a timer" if slot.kind == TIMER_SLOT else "the end of a batch"


def _recorded_name(record: Record) -> str:
    if record.kind == AWAKENED:
        return f"awakeable {record.function_id}"
    return record.function_id or {TIMER: "a timer", BATCH_END: "the end of a batch"}.get(
        record.kind, "a call"
    )
