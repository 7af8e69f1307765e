"""Identity of runs, executions and events. Keeps P2: every id derives from what a replay knows again."""

from __future__ import annotations

import hashlib
import uuid


def _hash(size: int, *parts: bytes) -> bytes:
    state = hashlib.blake2b(digest_size=size)
    for part in parts:
        state.update(len(part).to_bytes(4, "big"))
        state.update(part)
    return state.digest()


def run_id(log_id: bytes, key: bytes, sequence: int, digest: bytes) -> bytes:
    """Id of a run: (log id, key, sequence number, digest of the input)."""
    return _hash(16, log_id, key, sequence.to_bytes(8, "big"), digest)


def execution_id(trigger: bytes, action: bytes) -> int:
    """Id of an action execution: the event that triggered it, and the action."""
    return int.from_bytes(hashlib.blake2b(trigger + action, digest_size=8).digest(), "big")


def event_id(execution: int, index: int, digest: bytes) -> bytes:
    """Id of a sent event: (parent execution, index among its sent events, digest of type and attributes)."""
    return _hash(16, execution.to_bytes(8, "big"), index.to_bytes(8, "big"), digest)


def derived_uuid(execution: int, purpose: bytes, index: int) -> uuid.UUID:
    """The index-th UUID of an execution for one purpose; purposes do not shift each other (case 29)."""
    data = _hash(16, execution.to_bytes(8, "big"), purpose, index.to_bytes(8, "big"))
    return uuid.UUID(bytes=data, version=4)


def event_uuid(event: bytes) -> uuid.UUID:
    """The id by which actions know the event that triggered them."""
    return uuid.UUID(bytes=event[:16], version=4)
