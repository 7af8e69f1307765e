"""Attempts of one durable call: what is recorded of a failed one, and what the call keeps between them (P19)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from flink_agents_durable.api.errors import UnreadableRecordError
from flink_agents_durable.engine.records import Record
from flink_agents_durable.engine.run import BACKOFF, GONE, RECORDED, REPLAYED, RUNNING

if TYPE_CHECKING:
    from flink_agents_durable.engine.run import Slot


class FailedAttempt(msgspec.Struct, array_like=True, gc=False):
    """Payload of an ATTEMPT record: the next attempt may start `delay` ms after the record's time."""

    failed: int
    """Attempts that ran and failed, this one included; 0 when the call starts anew after a reopening (P14)."""
    delay: int
    text: str
    """Of the failure, bounded and without credentials."""


_encoder = msgspec.msgpack.Encoder()
_decoder = msgspec.msgpack.Decoder(FailedAttempt)


def encode_attempt(attempt: FailedAttempt) -> bytes:
    """The payload of an ATTEMPT record."""
    return _encoder.encode(attempt)


def decode_attempt(record: Record) -> FailedAttempt:
    """Read an ATTEMPT record. Raises UnreadableRecordError that names it."""
    try:
        return _decoder.decode(record.payload)
    except (msgspec.ValidationError, msgspec.DecodeError, RecursionError) as error:
        raise UnreadableRecordError(
            f"journal record {record.number} of run {record.sequence}, a failed attempt of {record.function_id},"
            f" cannot be read: {error}"
        ) from None


def counted_anew(record: Record) -> Record:
    """An ATTEMPT record after its call was reopened: the count is fresh, and the call still not in doubt (P14)."""
    payload = encode_attempt(FailedAttempt(0, 0, decode_attempt(record).text))
    return msgspec.structs.replace(record, payload=payload)


class Attempts:
    """What a call with a retry policy or a `total_timeout` keeps. Without them a slot has none of it."""

    __slots__ = ("expires_at", "failed", "last", "numbers", "resume_at", "settled", "shortened")

    def __init__(self) -> None:
        self.failed = 0  # attempts that ran and failed
        self.last = ""  # text of the last failure
        self.resume_at = 0  # end of the back-off
        self.expires_at: int | None = None  # end of `total_timeout`
        self.settled = False  # the final failure is one of the function itself: nothing is in doubt
        self.shortened = False  # the running attempt has only what is left of `total_timeout`
        self.numbers: list[int] = []  # records that the next failed attempt makes superfluous


class Deadline:
    """The end of a back-off or of a `total_timeout` among the engine's timers; it looks like an armed slot."""

    __slots__ = ("deadline", "slot", "total")

    def __init__(self, slot: Slot, deadline: int, *, total: bool) -> None:
        self.total = total
        self.slot = slot
        self.deadline = deadline

    @property
    def state(self) -> int:
        """RUNNING while somebody waits for it; what became superfluous needs no word to the timers."""
        slot = self.slot
        attempts = slot.attempts
        if attempts is None:
            return GONE
        if self.total:
            waits = slot.state not in (RECORDED, REPLAYED, GONE) and attempts.expires_at == self.deadline
        else:
            waits = slot.state == BACKOFF and attempts.resume_at == self.deadline
        return RUNNING if waits else GONE
