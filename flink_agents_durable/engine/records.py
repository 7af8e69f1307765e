"""Journal records: what the action state store and the keyed state `journal` hold.

A record is a versioned msgpack array. All records of a run share one counter (P1) and carry the digest of the
run's input (P7) and the time at which they were made (P12).
"""

from __future__ import annotations

import msgspec

from flink_agents_durable.api.errors import UnreadableRecordError

FORMAT = 1

BEGIN = 1  # the run's start time (P12)
RESERVED = 2  # slots that are PENDING, one record for a batch (P10)
OUTCOME = 3  # outcome of an awaited call: a delivery
SYNC_OUTCOME = 4  # outcome of a synchronous call: part of the step that asked (P17)
TIMER = 5  # a durable timer fired (P11)
BATCH_END = 6  # a batch with a timeout ended by it (P18)
CUT = 7  # voids the execution's records from a slot on (P13)
REOPEN = 8  # voids failures that nothing caught (P14)
ATTEMPT = 9  # a failed attempt that another one follows (P19)
AWAKENED = 10  # the resolution of an awakeable met who waits for it: a delivery
DEAD_LETTER = 11  # not written: that an input was given up follows from the deliveries

DELIVERIES = frozenset((OUTCOME, TIMER, BATCH_END, AWAKENED))

Reservation = tuple[int, int, str, bytes | None]
"""Execution, slot, function id, digest of the arguments."""


class Record(msgspec.Struct, array_like=True, gc=False):
    """One record of a run. Written as a bare tuple of its fields, of which the last ones may be left out."""

    format: int
    kind: int
    key: bytes
    sequence: int
    digest: bytes
    number: int
    time: int
    execution: int = 0
    slot: int = 0
    ok: bool = True
    function_id: str = ""
    arguments: bytes | None = None
    payload: bytes = b""
    reserved: list[Reservation] = []
    slots: list[int] = []


_encoder = msgspec.msgpack.Encoder()
_decoder = msgspec.msgpack.Decoder(Record)

_SIGNED = b"\xc1"  # how signed records begin

encode_record = _encoder.encode


def decode_record(data: bytes) -> Record:
    """Read a record. Raises UnreadableRecordError that names what is wrong."""
    try:
        record = _decoder.decode(data)
    except (msgspec.ValidationError, msgspec.DecodeError, RecursionError) as error:
        if data[:1] == _SIGNED:
            raise UnreadableRecordError(
                f"journal record of {len(data)} bytes is signed: set agents.store.signing-key-file, as the job "
                "that wrote it did"
            ) from None
        raise UnreadableRecordError(f"journal record of {len(data)} bytes cannot be read: {error}") from None
    if record.format != FORMAT or not BEGIN <= record.kind <= DEAD_LETTER:
        raise UnreadableRecordError(
            f"journal record {record.number} of run {record.sequence} has format {record.format} and kind"
            f" {record.kind}, which this version does not know: use the version that wrote it, or a newer one"
        )
    return record
