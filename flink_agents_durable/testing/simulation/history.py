"""The steps of a history, noted in a form that costs little, and told in words when somebody reads them."""

from __future__ import annotations

from typing import Any

from flink_agents_durable.engine import records

KINDS = {
    records.BEGIN: "the begin",
    records.RESERVED: "reservations",
    records.OUTCOME: "an outcome",
    records.SYNC_OUTCOME: "a synchronous outcome",
    records.TIMER: "a timer",
    records.BATCH_END: "the end of a batch",
    records.CUT: "a cut",
    records.REOPEN: "a reopening",
    records.ATTEMPT: "a failed attempt",
    records.AWAKENED: "an awakeable",
}

SHOWN = 100
"""Lines of a violation: more are not read, and the minimised history is shorter."""

Step = Any
"""A text, or a tuple of a format and what goes into it."""


def told(steps: list[Step]) -> list[str]:
    """The steps in words."""
    return [step if isinstance(step, str) else step[0].format(*step[1:]) for step in steps]


def record_step(attempt: int, record: records.Record) -> Step:
    """A record that reached the log."""
    what = KINDS.get(record.kind, f"kind {record.kind}")
    if record.kind == records.RESERVED:
        slots = [reservation[1] for reservation in record.reserved]
        execution = record.reserved[0][0] if record.reserved else 0
    else:
        slots, execution = list(record.slots) or [record.slot], record.execution
    failed = "" if record.ok else ", failed"
    return (
        "[{}] appends {} of run {}, number {}, execution {}, slot {}{}",
        attempt,
        what,
        record.sequence,
        record.number,
        execution % 997,
        ", ".join(map(str, slots)),
        failed,
    )
