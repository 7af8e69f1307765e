"""Awakeables: their ids, and resolutions on their way to the action that waits.

A resolution is kept with its key (`KeyState.early`) from the moment it arrives until it is delivered, whoever
waits for it: so a snapshot has it until its record is applied (P3, P4), and its element needs to come from the
source no more. When it meets an action that waits, an AWAKENED record is written; the delivery takes it out.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import logging
import struct
from typing import TYPE_CHECKING, Any, NamedTuple

from flink_agents_durable.api.errors import (
    AwakeableFailedError,
    DurableSerializationError,
    RecordTooLargeError,
    UnreadableRecordError,
)
from flink_agents_durable.engine.codec import Codec
from flink_agents_durable.engine.failures import encode_failure
from flink_agents_durable.engine.records import AWAKENED, Record
from flink_agents_durable.engine.run import (
    AWAKEABLE_SLOT,
    RECORDED,
    RUNNING,
    Execution,
    KeyState,
    Resolution,
    Run,
    Slot,
)

if TYPE_CHECKING:
    from flink_agents_durable.engine.engine import Engine

logger = logging.getLogger(__name__)

PREFIX = "awk_"
_LAYOUT = struct.Struct(">Q7s5sI")  # 24 bytes: base64 without padding
_LENGTH = len(PREFIX) + 32


class AwakeableId(NamedTuple):
    """What an id says: the key and the run, and which awakeable of which execution it is."""

    key: bytes
    sequence: int
    execution: int
    number: int

    def is_of(self, key: bytes) -> bool:
        """Whether the awakeable belongs to this encoded key."""
        return self.key == _key_check(key)


def _key_check(key: bytes) -> bytes:
    return hashlib.blake2b(key, digest_size=7, person=b"awakeable").digest()


def make_id(key: bytes, sequence: int, execution: int, index: int) -> str:
    """The id of an awakeable: printable, the same on every attempt (P2).

    It names the key, so that an answer to another one is known as such, and the run, so that it is known when
    no answer can be of use any more.
    """
    data = _LAYOUT.pack(execution, _key_check(key), sequence.to_bytes(5, "big"), index)
    return PREFIX + base64.urlsafe_b64encode(data).decode()


def read_id(id: str) -> AwakeableId | None:
    """What an id says, or None if it is none."""
    if len(id) != _LENGTH or not id.startswith(PREFIX) or not id.isascii():
        return None
    try:
        data = base64.b64decode(id[len(PREFIX) :], b"-_", validate=True)
    except binascii.Error:
        return None
    execution, key, sequence, index = _LAYOUT.unpack(data)
    return AwakeableId(key, int.from_bytes(sequence, "big"), execution, index)


class AwakeableSpec:
    """What an awakeable's slot asks for: the identity that its record has to have."""

    __slots__ = ("arguments", "function_id")

    def __init__(self, id: str) -> None:
        self.function_id = id
        self.arguments = None


# --- arrival ---


def receive(engine: Engine, key: bytes, group: int, payload: bytes, stored: bytes | None) -> None:
    """A resolution arrives: it is kept, and recorded if somebody waits for it; or it is dropped and counted."""
    id, ok, outcome = read_resolution(payload, engine.codec)
    ks = engine.keys.get(key) or engine.key_state(key, group, stored)
    reason = keep(ks, id, ok, outcome)
    if reason:
        engine.stats.awakeables_dropped += 1
        log_dropped(ks, id, reason)
        if not ks.dirty and ks.run is None and not ks.queued and not ks.unclaimed:
            del engine.keys[key]  # nothing of it has changed, and it has no work
        return
    engine.mark(ks)
    slot = waiting_slot(ks, id)
    if slot is not None:
        record(engine, slot)


def read_resolution(payload: bytes, codec: Codec) -> tuple[str, bool, bytes]:
    """Id, success, and what its record will hold. Raises UnreadableRecordError."""
    try:
        given: Any = codec.inputs.loads(payload)
        id, value, failure = given
    except (UnreadableRecordError, TypeError, ValueError) as error:
        raise UnreadableRecordError(f"the resolution of an awakeable cannot be unpickled: {error}") from error
    if failure is not None:
        return id, False, encode_failure(AwakeableFailedError(failure), codec)
    try:
        return id, True, codec.dumps(value)
    except DurableSerializationError as error:
        refusal = DurableSerializationError(f"the value of awakeable {id} cannot be recorded: {error}")
        return id, False, encode_failure(refusal, codec)


def keep(ks: KeyState, id: str, ok: bool, payload: bytes) -> str:
    """Keep a resolution until it is delivered or of no use any more. Gives why it is dropped instead, or ""."""
    known = read_id(id)
    if known is None:
        return "is no id of an awakeable"
    if not known.is_of(ks.key):
        return "is of an awakeable of another key"
    if id in ks.early:
        return "comes again: the first resolution counts"
    run = ks.run
    if run is not None and run.sequence == known.sequence:
        if known.execution in run.done:
            return "comes late: its action has ended"
        execution = run.executions.get(known.execution)
        if execution is not None and id in execution.awakeables and execution.awakeables[id] is None:
            return "comes again: the first resolution counts"
    elif _has_passed(ks, known.sequence):
        return "comes late: its input has been worked on"
    _put(ks, id, Resolution(known.sequence, ok, payload))
    return ""


def waiting_slot(ks: KeyState, id: str) -> Slot | None:
    """The slot of the live run that waits for this resolution, unless one is on its way to it."""
    known = read_id(id)
    if known is None or ks.run is None:
        return None
    execution = ks.run.executions.get(known.execution)
    slot = execution.awakeables.get(id) if execution is not None else None
    return slot if slot is not None and slot.state == RUNNING else None


# --- from the wait to the delivery ---


def place(execution: Execution, index: int, id: str) -> Slot:
    """A slot that waits for a resolution."""
    slot = Slot(execution, index, AWAKEABLE_SLOT, AwakeableSpec(id))
    if not execution.awakeables:
        execution.awakeables = {}
    execution.awakeables[id] = slot
    return slot


def leave(slot: Slot) -> None:
    """Nobody waits any more; the resolution stays for the next one who does."""
    slot.execution.awakeables.pop(slot.spec.function_id, None)


def wait(engine: Engine, slot: Slot) -> None:
    """The slot goes live: it takes a resolution that was there before, or one that comes."""
    if slot.spec.function_id in slot.execution.run.key.early:
        record(engine, slot)


def record(engine: Engine, slot: Slot) -> None:
    """A resolution meets who waits for it: its record has to be durable before it is delivered. Keeps P3."""
    run, id = slot.execution.run, slot.spec.function_id
    _, ok, payload = run.key.early[id]
    limit = engine.max_record_bytes
    if limit is not None and len(payload) + 512 > limit:
        error = RecordTooLargeError(
            f"the value of awakeable {id} takes {len(payload)} bytes; the action state store takes {limit}:"
            " resolve it with a reference to large data instead of the data"
        )
        ok, payload = False, encode_failure(error, engine.codec)
    slot.state = RECORDED
    engine.journal.begin(run, engine.now)
    engine.journal.write(run, AWAKENED, engine.now, slot, ok=ok, payload=payload)


def delivered(engine: Engine, slot: Slot) -> None:
    """The action has it: from now on another resolution of the same awakeable comes again."""
    execution, id = slot.execution, slot.spec.function_id
    execution.awakeables[id] = None
    engine.stats.awakeables_resolved += 1
    ks = execution.run.key
    if id in ks.early:
        _remove(ks, id)
        engine.mark(ks)


def give_back(ks: KeyState, void: Record) -> None:
    """A mismatch voids a record (P13): nobody can ask for the answer again, so it waits for the new code."""
    id = void.function_id
    known = read_id(id)
    if known is not None and id not in ks.early:
        _put(ks, id, Resolution(known.sequence, void.ok, void.payload))


# --- what is of no use any more ---


def drop_passed(ks: KeyState) -> int:
    """Drop resolutions whose run has ended, or will never come; gives how many."""
    passed = [id for id, known in ks.early.items() if _has_passed(ks, known.sequence)]
    for id in passed:
        _remove(ks, id)
        log_dropped(ks, id, "was never awaited: its input has been worked on")
    return len(passed)


def log_dropped(ks: KeyState, id: str, reason: str) -> None:
    """One line for each resolution that nobody gets."""
    logger.warning("the resolution of awakeable %.100s, key %.200r, is dropped: it %s", id, ks.key, reason)


def _has_passed(ks: KeyState, sequence: int) -> bool:
    """Whether no run of this number is live, waits in the queue, or may still come back with records (P6)."""
    if sequence >= ks.sequence or sequence in ks.unclaimed:
        return False
    if ks.run is not None and ks.run.sequence == sequence:
        return False
    return all(queued.sequence != sequence for queued in ks.queued)


def _put(ks: KeyState, id: str, resolution: Resolution) -> None:
    if not ks.early:
        ks.early = {}
    ks.early[id] = resolution
    _changed(ks, id)


def _remove(ks: KeyState, id: str) -> None:
    del ks.early[id]
    _changed(ks, id)


def _changed(ks: KeyState, id: str) -> None:
    if isinstance(ks.early_changed, set):
        ks.early_changed.add(id)
    else:
        ks.early_changed = {id}


# --- the end of the input ---


def awaited(run: Run) -> list[str]:
    """Ids that a run waits for at present."""
    return [
        id
        for execution in run.executions.values()
        for id, slot in execution.awakeables.items()
        if slot is not None and slot.state == RUNNING
    ]


def unresolvable(run: Run) -> list[str]:
    """Ids that a run waits for, if it waits for nothing else: without another resolution it stands still."""
    ids = []
    if run.cuts or run.starting or run.fresh or run.replay:
        return []
    for execution in run.executions.values():
        for slot in execution.slots.values():
            if slot.kind != AWAKEABLE_SLOT or slot.state != RUNNING:
                return []
            ids.append(slot.spec.function_id)
    return ids
