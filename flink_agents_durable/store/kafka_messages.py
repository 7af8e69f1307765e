"""The messages of the Kafka store: records of one key group, or the claim of an attempt on it.

Each message names its log and the attempt that wrote it, so that several logs may share a topic, and whoever
reads a partition learns whom to fence.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from struct import Struct
from typing import NamedTuple

import msgspec

FORMAT = 1
"""Version of keys and values; the first byte of each key."""

RECORDS, CLAIM = 0, 1

RESERVED_BYTES = 1_024
"""What a message may take beside its record: key, framing, and the header of a batch (under 200 bytes)."""

MAX_READABLE_CHARS = 200
"""Of the log id in a claim, which is there for people who look into the topic."""

_KEY = Struct(">B16sBHHqq")
_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(list[bytes]).decode


class Stamp(NamedTuple):
    """The key of a message: whose it is, and what its writer knew of the partition before it."""

    log: bytes
    """Digest of the log id."""
    kind: int
    first: int
    last: int
    """The key groups of the attempt: they name its transactional id."""
    after: int
    """One more than the offset of the last records of this log before this message; 0: there are none."""
    foreign: int
    """The lowest offset at which another log has a message; -1: none is known."""

    def to_bytes(self) -> bytes:
        return _KEY.pack(FORMAT, *self)


def read_stamp(key: bytes | None) -> Stamp | None:
    """None for the key of a message that this store has not written."""
    if key is None or len(key) != _KEY.size or key[0] != FORMAT:
        return None
    return Stamp._make(_KEY.unpack(key)[1:])


def digest(log_id: str) -> bytes:
    return hashlib.blake2b(log_id.encode("utf-8", "surrogatepass"), digest_size=16).digest()


def claim_value(log_id: str) -> bytes:
    return log_id[:MAX_READABLE_CHARS].encode("utf-8", "surrogatepass")


def values_of(records: Sequence[bytes], max_bytes: int) -> list[bytes]:
    """The records as few values of at most so many bytes, in order; one that is larger is alone in its own."""
    value = _encode(records)
    if len(value) <= max_bytes or len(records) == 1:
        return [value]
    half = len(records) // 2
    return values_of(records[:half], max_bytes) + values_of(records[half:], max_bytes)


def records_of(value: bytes) -> list[bytes]:
    """Raises msgspec.MsgspecError."""
    return _decode(value)
