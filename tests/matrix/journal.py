"""The journal of a job, as its store wrote it: which slots are pending."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field

from flink_agents_durable.engine import records
from flink_agents_durable.engine.keys import encode_key

Slot = tuple[int, int]
"""Execution and slot of a run; each cell has one run."""


@dataclass
class Slots:
    reserved: set[Slot] = field(default_factory=set)
    ended: set[Slot] = field(default_factory=set)
    others: list[int] = field(default_factory=list)
    """Kinds of records that no cell should have: cuts, reopened failures."""

    @property
    def pending(self) -> int:
        return len(self.reserved - self.ended)


def slots_of(journal: Iterable[records.Record], cells: Iterable[str]) -> dict[str, Slots]:
    """By name of cell, from all records of a journal that no checkpoint has truncated."""
    names = {encode_key(name): name for name in cells}
    found: dict[str, Slots] = defaultdict(Slots)
    for record in journal:
        if (name := names.get(record.key)) is None:
            continue
        slots = found[name]
        if record.kind == records.RESERVED:
            slots.reserved |= {(execution, slot) for execution, slot, *_ in record.reserved}
        elif record.kind in (records.OUTCOME, records.SYNC_OUTCOME):
            slots.ended.add((record.execution, record.slot))
        elif record.kind != records.BEGIN:
            slots.others.append(record.kind)
    return dict(found)
