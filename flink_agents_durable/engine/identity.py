"""Identity of runs, executions and events. Keeps P2: every id derives from what a replay knows again."""

from __future__ import annotations

import hashlib
import struct
import uuid

_RUN = struct.Struct(">IIQ")
_EVENT = struct.Struct(">QQ")
_DERIVED = struct.Struct(">QQI")


def _hash(*parts: bytes) -> bytes:
    return hashlib.blake2b(b"".join(parts), digest_size=16).digest()


def run_id(log_id: bytes, key: bytes, sequence: int, digest: bytes) -> bytes:
    """Id of a run: (log id, key, sequence number, digest of the input)."""
    return _hash(_RUN.pack(len(log_id), len(key), sequence), log_id, key, digest)


def execution_id(trigger: bytes, action: bytes) -> int:
    """Id of an action execution: the event that triggered it, and the action."""
    return int.from_bytes(hashlib.blake2b(trigger + action, digest_size=8).digest(), "big")


def event_id(execution: int, index: int, digest: bytes) -> bytes:
    """Id of a sent event: (parent execution, index among its sent events, digest of type and attributes)."""
    return _hash(_EVENT.pack(execution, index), digest)


def derived_uuid(execution: int, purpose: bytes, index: int) -> uuid.UUID:
    """The index-th UUID of an execution for one purpose; purposes do not shift each other (case 29)."""
    data = _hash(_DERIVED.pack(execution, index, len(purpose)), purpose)
    return uuid.UUID(bytes=data, version=4)


def event_uuid(event: bytes) -> uuid.UUID:
    """The id by which actions know the event that triggered them."""
    return uuid.UUID(bytes=event[:16], version=4)
