"""Keyed state of a key: versioned msgpack structs with user payloads as opaque bytes."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import msgspec

from flink_agents_durable.api.errors import UnreadableRecordError
from flink_agents_durable.engine.ports import (
    ACTIVE,
    EARLY,
    JOURNAL,
    MEMORY,
    QUEUED,
    SEQUENCE,
    UNCLAIMED,
    StateEntry,
)
from flink_agents_durable.engine.records import encode_record
from flink_agents_durable.engine.run import (
    NONE_CHANGED,
    Execution,
    KeyState,
    QueuedInput,
    Resolution,
    Run,
    Unclaimed,
)

FORMAT = 1


UNKNOWN = b"?"
"""In place of a stored value that nobody has looked up."""


class ExecutionImage(msgspec.Struct, array_like=True):
    """An unfinished execution."""

    id: int
    action: str
    trigger: bytes
    event: bytes
    start_number: int
    start_version: int
    start_time: int
    dispatched: list[bytes]
    reopened: dict[int, int]
    voids: list[tuple[int, int]]


class RunImage(msgspec.Struct, array_like=True):
    """The live run of a key."""

    format: int
    sequence: int
    digest: bytes
    payload: bytes
    timestamp: int | None
    applied: int
    delivered: int
    start_time: int
    begun: bool
    time: int
    executions: list[ExecutionImage]
    done: list[int]
    commits: list[tuple[int, dict[str, bytes | None]]]
    sensory: dict[str, bytes | None]
    id: bytes
    voids: dict[int, list[tuple[int, int]]] = {}  # of executions that have not started

    def all_voids(self) -> dict[int, list[tuple[int, int]]]:
        """By execution: slot and number of its cuts (P13)."""
        return self.voids | {execution.id: execution.voids for execution in self.executions}


class QueuedImage(msgspec.Struct, array_like=True):
    """An input behind the live run of its key."""

    format: int
    sequence: int
    digest: bytes
    payload: bytes
    timestamp: int | None
    records: list[bytes]
    run_id: bytes = b""


class SequenceImage(msgspec.Struct, array_like=True):
    """What remains of a key when it has no work."""

    format: int
    sequence: int
    received: int
    claim_limit: int
    early: int = 0
    used: int = 0


class UnclaimedImage(msgspec.Struct, array_like=True):
    """Tail records of a run whose input has not come back (P6)."""

    format: int
    digest: bytes
    records: list[bytes]
    run_id: bytes


class EarlyImage(msgspec.Struct, array_like=True):
    """A resolution of an awakeable that has not been delivered."""

    format: int
    sequence: int
    ok: bool
    payload: bytes


class StoredKey:
    """The entries of a key as they come from Flink, by state."""

    def __init__(self, entries: Iterable[StateEntry]) -> None:
        self.run: RunImage | None = None
        self.sequence: SequenceImage | None = None
        self.sequence_bytes = b""
        self.journal: list[bytes] = []
        self.queued: list[tuple[int, QueuedImage]] = []
        self.unclaimed: dict[int, UnclaimedImage] = {}
        self.early: dict[str, EarlyImage] = {}
        for state, subkey, value in entries:
            if state == ACTIVE:
                self.run = _read(RunImage, value)
            elif state == SEQUENCE:
                self.sequence_bytes = bytes(value)
                self.sequence = _read(SequenceImage, value)
            elif state == JOURNAL:
                self.journal.append(value)
            elif state == QUEUED:
                self.queued.append((subkey, _read(QueuedImage, value)))
            elif state == UNCLAIMED:
                self.unclaimed[subkey] = _read(UnclaimedImage, value)
            elif state == EARLY:
                self.early[subkey] = _read(EarlyImage, value)
        self.queued.sort(key=lambda entry: entry[0])


def _read(kind: Any, data: bytes) -> Any:
    try:
        image = msgspec.msgpack.decode(data, type=kind)
    except (msgspec.ValidationError, msgspec.DecodeError, RecursionError) as error:
        raise UnreadableRecordError(f"{kind.__name__} in the keyed state cannot be read: {error}") from None
    if getattr(image, "format", FORMAT) != FORMAT:
        raise UnreadableRecordError(
            f"{kind.__name__} in the keyed state has format {image.format}, not {FORMAT}"
        )
    return image


def read_sequence(sequence: bytes) -> SequenceImage:
    """What remains of a key when it has no work."""
    image: SequenceImage = _read(SequenceImage, sequence)
    return image


def has_more(sequence: bytes) -> bool:
    """Whether there are unclaimed records, or resolutions of awakeables, beside this sequence number."""
    image = read_sequence(sequence)
    return image.claim_limit > 0 or image.early > 0


def restore_sequence(ks: KeyState, data: bytes) -> None:
    """Give a key its stored sequence number."""
    image: SequenceImage = _read(SequenceImage, data)
    ks.sequence, ks.received, ks.claim_limit = image.sequence, image.received, image.claim_limit
    ks.used = image.used
    ks.stored_sequence = data


def restore_idle(ks: KeyState, stored: StoredKey) -> None:
    """Give a key what it has beside a run and queued inputs."""
    if stored.sequence is not None:
        restore_sequence(ks, stored.sequence_bytes)
    ks.unclaimed = {
        sequence: Unclaimed(image.digest, image.records, image.run_id)
        for sequence, image in stored.unclaimed.items()
    }
    ks.stored_unclaimed = set(ks.unclaimed)
    if stored.early:
        ks.early = {
            id: Resolution(image.sequence, image.ok, image.payload) for id, image in stored.early.items()
        }


def queued_input(arrival: int, image: QueuedImage) -> QueuedInput:
    """A queued input from its image."""
    queued = QueuedInput(
        arrival,
        image.sequence,
        image.digest,
        image.payload,
        image.timestamp,
        0,
        list(image.records),
        None,
        image.run_id,
    )
    queued.stored = True
    return queued


def key_updates(ks: KeyState) -> list[StateEntry]:
    """What changed since the last snapshot of this key; the caller clears its dirty flag.

    Keeps K6: payloads were encoded when they were recorded, here they are only wrapped.
    """
    updates: list[StateEntry] = []
    _active(ks, updates)
    _journal(ks, updates)
    _queued(ks, updates)
    _unclaimed(ks, updates)
    if ks.early_changed:
        _early(ks, updates)
    if not ks.unclaimed:
        ks.received = ks.claim_limit = 0
    sequence = msgspec.msgpack.encode(
        SequenceImage(FORMAT, ks.sequence, ks.received, ks.claim_limit, len(ks.early), ks.used)
    )
    if sequence != ks.stored_sequence:
        ks.stored_sequence = sequence
        updates.append((SEQUENCE, None, sequence))
    updates.extend((MEMORY, path, value) for path, value in ks.memory.dirty.items())
    ks.memory.dirty = {}
    return updates


def _active(ks: KeyState, updates: list[StateEntry]) -> None:
    if ks.run is not None:
        updates.append((ACTIVE, None, msgspec.msgpack.encode(run_image(ks.run))))
        ks.stored_active = True
    elif ks.stored_active:
        updates.append((ACTIVE, None, None))
        ks.stored_active = False


def _journal(ks: KeyState, updates: list[StateEntry]) -> None:
    # Removals first: numbers start anew with each run of the key.
    updates.extend((JOURNAL, number, None) for number in ks.journal_gone)
    updates.extend(
        (JOURNAL, number, data if type(data) is bytes else encode_record(data))
        for number, data in ks.journal_new.items()
    )
    ks.journal_gone = []
    ks.journal_new = {}


def _queued(ks: KeyState, updates: list[StateEntry]) -> None:
    updates.extend((QUEUED, arrival, None) for arrival in ks.queued_gone)
    changed = [queued for queued in ks.queued_changed if queued in ks.queued]
    ks.queued_gone, ks.queued_changed = [], []
    for queued in reversed(ks.queued):  # the stored ones are in front
        if queued.stored:
            break
        changed.append(queued)
    for queued in changed:
        image = QueuedImage(
            FORMAT,
            queued.sequence,
            queued.digest,
            queued.payload,
            queued.timestamp,
            queued.records,
            queued.run_id,
        )
        updates.append((QUEUED, queued.arrival, msgspec.msgpack.encode(image)))
        queued.stored = True


def _unclaimed(ks: KeyState, updates: list[StateEntry]) -> None:
    if not ks.unclaimed_dirty:
        return
    updates.extend((UNCLAIMED, sequence, None) for sequence in ks.stored_unclaimed - set(ks.unclaimed))
    for sequence, known in ks.unclaimed.items():
        image = UnclaimedImage(FORMAT, known.digest, known.records, known.run_id)
        updates.append((UNCLAIMED, sequence, msgspec.msgpack.encode(image)))
    ks.stored_unclaimed = set(ks.unclaimed)
    ks.unclaimed_dirty = False


def _early(ks: KeyState, updates: list[StateEntry]) -> None:
    for id in sorted(ks.early_changed):
        known = ks.early.get(id)
        image = None if known is None else EarlyImage(FORMAT, known.sequence, known.ok, known.payload)
        updates.append((EARLY, id, None if image is None else msgspec.msgpack.encode(image)))
    ks.early_changed = NONE_CHANGED


def run_image(run: Run) -> RunImage:
    """The image of a live run."""
    return RunImage(
        FORMAT,
        run.sequence,
        run.digest,
        run.payload,
        run.timestamp,
        run.applied,
        run.delivered,
        run.start_time,
        run.applied
        > 0,  # `begin` is the first record: queued is not enough, it may never reach the log (P12)
        run.time,
        [_execution_image(execution) for execution in run.executions.values()],
        sorted(run.done),
        run.memory.commits,
        run.memory.sensory,
        run.id,
        run.voids,
    )


def _execution_image(execution: Execution) -> ExecutionImage:
    return ExecutionImage(
        execution.id,
        execution.action.name,
        execution.trigger,
        execution.event_payload,
        execution.start_number,
        execution.start_version,
        execution.start_time,
        execution.dispatched,
        execution.reopened,
        execution.voids,
    )
