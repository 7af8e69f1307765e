"""The messages of the Kafka store: records of one key group, or the claim of an attempt on it.

Each message names its log and the attempt that wrote it, so that several logs may share a topic, and whoever
reads a partition learns whom to fence.
"""

from __future__ import annotations

from struct import Struct
from typing import NamedTuple

FORMAT = 1
"""Version of keys and values; the first byte of each key."""

RECORDS, CLAIM = 0, 1

RESERVED_BYTES = 1_024
"""What a message may take beside its record: key, framing, and the header of a batch (under 200 bytes)."""

_KEY = Struct(">B16sBHHqq")


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
