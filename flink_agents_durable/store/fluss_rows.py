"""The rows of the Fluss store, and what makes one of them count.

Fluss takes rows from everybody who may write to a table; nothing fences a writer there. So readers do it: each row
names its attempt, and a bucket belongs to the highest attempt that has a row in it, from that row on. What an older
attempt appends behind that is void for everybody who reads the bucket, the older attempt included. The log of a
bucket is one for all its readers, so they agree on what counts, and an attempt that has read its own row back
without a higher one before it knows that its successors count it too.

Rows of an attempt are numbered in each bucket, and only the next number counts. So one whose fate is not known may
be sent again: which copy comes first does not matter, and what comes later, or out of order, is void.
"""

from __future__ import annotations

from dataclasses import dataclass
from struct import Struct
from typing import NamedTuple

FORMAT = 1
"""Version of stamps and values; the first byte of each stamp."""

CLAIM, RECORDS, CUT = range(3)

Attempt = tuple[int, int]
"""Epoch, and a random number that tells apart two attempts with the same one. The higher is the later."""

_STAMP = Struct(">B16sB5q")


class Stamp(NamedTuple):
    """What a row says about itself, beside its records."""

    log: bytes
    """Digest of the log id."""
    kind: int
    epoch: int
    nonce: int
    number: int
    """Of the rows of this attempt in this bucket; the claim is 0."""
    after: int
    """One more than the offset of the last records of this log before this row; 0: there are none."""
    cut: int
    """Of a CUT: records before this offset are not needed."""

    @property
    def attempt(self) -> Attempt:
        return self.epoch, self.nonce

    def to_bytes(self) -> bytes:
        return _STAMP.pack(FORMAT, *self)


def read_stamp(data: bytes | None) -> Stamp | None:
    """None for a row that this store has not written."""
    if data is None or len(data) != _STAMP.size or data[0] != FORMAT:
        return None
    return Stamp._make(_STAMP.unpack(data)[1:])


@dataclass
class Bucket:
    """What one who reads a bucket in its order knows so far. Keeps P21, P22, K13.

    Reading may begin at any row that counts, or at the first that is left of a bucket that has lost its head.
    """

    owner: Attempt = (-1, 0)
    number: int = -1
    """Of the owner's last row that counts."""
    after: int = 0
    """One more than the offset of the last records that count."""
    cut: int = 0

    def counts(self, offset: int, stamp: Stamp) -> bool:
        """Whether the next row of this log counts; takes note of it if so."""
        attempt = stamp.attempt
        if attempt > self.owner:
            self.owner = attempt  # by its claim; where that is lost, by the first row that is left
            self.number = stamp.number
        elif attempt == self.owner and stamp.number == self.number + 1:
            self.number = stamp.number
        else:
            return False
        if stamp.kind == RECORDS:
            self.after = offset + 1
        else:
            self.after = max(self.after, stamp.after)
            self.cut = max(self.cut, stamp.cut)
        return True
