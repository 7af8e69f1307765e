"""Numbering, appending and acknowledging of journal records.

Records are numbered per run in the order in which they are handed to the store (P1), and applied on the task
thread in the order of their acknowledgements (P3).
"""

from __future__ import annotations

from collections import deque
from typing import Any

import msgspec

from flink_agents_durable.engine.commands import NOT_LIVE
from flink_agents_durable.engine.ports import Ports
from flink_agents_durable.engine.records import BEGIN, FORMAT, Reservation, encode_record
from flink_agents_durable.engine.run import Run, Slot


class Entry(msgspec.Struct, eq=False):
    """A numbered record on its way to the store, and what is to happen when it is there."""

    run: Run
    kind: int
    number: int
    time: int
    data: Any
    slot: Slot | None
    ok: bool
    payload: bytes
    live: Any
    slots: Any = ()


class Journal:
    """The records that are not acknowledged yet."""

    def __init__(self, ports: Ports) -> None:
        self._ports = ports
        self._durable = ports.store_durable
        self.outbox: list[Entry] = []
        self.unacknowledged: deque[list[Entry]] = deque()
        self.applied_batches = 0

    def begin(self, run: Run, now: int) -> None:
        """Queue the `begin` record of a run, without waiting for it. Keeps P12.

        It has the time of the start, also when the snapshot knows of later records that never reached the log.
        """
        if not run.begun:
            run.begun = True
            last, run.time = run.time, 0
            self.write(run, BEGIN, run.start_time if run.start_time else now)
            run.time = max(last, run.time)

    def write(
        self,
        run: Run,
        kind: int,
        now: int,
        slot: Slot | None = None,
        *,
        execution: int = 0,
        index: int = 0,
        ok: bool = True,
        payload: bytes = b"",
        reserved: list[Reservation] | None = None,
        slots: list[int] | None = None,
    ) -> Entry:
        """Number a record and queue it."""
        number = run.number = run.number + 1
        time = run.time = now if now > run.time else run.time
        function_id, arguments = "", None
        if slot is not None:
            execution, index = slot.execution.id, slot.index
            if slot.spec is not None:
                function_id, arguments = slot.spec.function_id, slot.spec.arguments
        data = encode_record(
            (
                FORMAT,
                kind,
                run.key.key,
                run.sequence,
                run.digest,
                number,
                time,
                execution,
                index,
                ok,
                function_id,
                arguments,
                payload,
                reserved or (),
                slots or (),
            )
        )
        entry = Entry(run, kind, number, time, data, slot, ok, payload, NOT_LIVE)
        self.outbox.append(entry)
        return entry

    def write_outcome(
        self, run: Run, kind: int, now: int, slot: Slot, ok: bool, payload: bytes, live: Any
    ) -> Entry:
        """`write` for the outcome of a call, without what it does not need: there is one for every call."""
        number = run.number = run.number + 1
        time = run.time = now if now > run.time else run.time
        spec, key = slot.spec, run.key
        fields = (
            FORMAT,
            kind,
            key.key,
            run.sequence,
            run.digest,
            number,
            time,
            slot.execution.id,
            slot.index,
            ok,
            spec.function_id,
            spec.arguments,
            payload,
        )
        # Without a store the record is only wrapped when a snapshot finds its execution unfinished.
        data = encode_record(fields) if self._durable else fields
        entry = Entry(run, kind, number, time, data, slot, ok, payload, live)
        self.outbox.append(entry)
        return entry

    def take(self) -> list[Entry]:
        """The queued entries; they count as acknowledged (store `none`)."""
        entries, self.outbox = self.outbox, []
        return entries

    def hand_over(self) -> None:
        """Give the queued records to the store as one batch."""
        if self.outbox:
            entries = self.take()
            self.unacknowledged.append(entries)
            self._ports.append([(entry.run.key.group, entry.data) for entry in entries])

    def hand_over_and_wait(self) -> None:
        """Give the queued records to the store and wait until they are durable."""
        if self.outbox:
            entries = self.take()
            self.unacknowledged.append(entries)
            self._ports.append_and_wait([(entry.run.key.group, entry.data) for entry in entries])
