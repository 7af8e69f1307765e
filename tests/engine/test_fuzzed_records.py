"""No bytes make a decoder of records do anything but return or raise UnreadableRecordError (X6)."""

from __future__ import annotations

import contextlib
import random
import struct
from collections.abc import Callable
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from flink_agents_durable.api.errors import UnreadableRecordError
from flink_agents_durable.engine.attempts import FailedAttempt, decode_attempt, encode_attempt
from flink_agents_durable.engine.failures import MARKER, VERSION, decode_failure, encode_failure
from flink_agents_durable.engine.json_codec import JsonCodec
from flink_agents_durable.engine.ports import ACTIVE, QUEUED, SEQUENCE, UNCLAIMED
from flink_agents_durable.engine.records import FORMAT, OUTCOME, decode_record, encode_record
from flink_agents_durable.engine.snapshot import (
    ExecutionImage,
    QueuedImage,
    RunImage,
    SequenceImage,
    StoredKey,
    UnclaimedImage,
)
from flink_agents_durable.runtime.log_positions import GroupBlob, read_blob
from tests.engine.exceptions.own import Reason, Refused, chained, noted

CODEC = JsonCodec()
HEAD = MARKER + bytes([VERSION])


def failure(data: bytes) -> object:
    """Without pickle: what a pickle does nobody can bound, so signed records are verified before they get here."""
    return decode_failure(data, CODEC)


def state(kind: Any) -> Callable[[bytes], object]:
    return lambda data: StoredKey([(kind, 1, data)])


def nested_cause(depth: int) -> bytes:
    """A chain of failures, written by hand as an encoder would refuse it."""
    one = b"\x83\xa4path\xa1x\xa7message\xc4\x01x\xa5cause"
    return HEAD + one * depth + b"\xc0"


RECORD = encode_record(
    (FORMAT, OUTCOME, b"key", 3, b"digest00", 7, 1_700_000_000_000, 12, 0, True, "m.f", b"args", b"1")
)
EXECUTION = ExecutionImage(1, "a", b"t", b"e", 1, 1, 1, [b"x"], {1: 2}, [(1, 2)])
DECODERS: dict[str, tuple[Callable[[bytes], object], list[bytes]]] = {
    "journal record": (decode_record, [RECORD]),
    "failure": (
        failure,
        [encode_failure(error, CODEC) for error in (Refused(1, Reason.DOWN), chained(), noted(), OSError(2, "x"))],
    ),
    "value": (CODEC.loads, [CODEC.dumps({"a": [1, (2, b"x")], "e": Reason.DOWN})]),
    "attempt": (
        lambda data: decode_attempt(msgspec.structs.replace(decode_record(RECORD), payload=data)),
        [encode_attempt(FailedAttempt(1, 2, "text"))],
    ),
    "sequence": (state(SEQUENCE), [msgspec.msgpack.encode(SequenceImage(1, 2, 3, 4))]),
    "queued": (state(QUEUED), [msgspec.msgpack.encode(QueuedImage(1, 2, b"d", b"p", None, [RECORD]))]),
    "unclaimed": (state(UNCLAIMED), [msgspec.msgpack.encode(UnclaimedImage(1, b"d", [RECORD], b"r"))]),
    "active": (
        state(ACTIVE),
        [msgspec.msgpack.encode(RunImage(1, 2, b"d", b"p", None, 1, 1, 1, True, 1, [EXECUTION], [], [], {}, b"r"))],
    ),
    "group blob": (lambda data: read_blob(3, data), [GroupBlob(1, "log", "sqlite", 7, "encoded-1").to_bytes()]),
}  # fmt: skip


def read(name: str, data: bytes) -> None:
    decode, _ = DECODERS[name]
    with contextlib.suppress(UnreadableRecordError):
        decode(data)


LENGTHS = [b"\xdd", b"\xdf", b"\xc6", b"\xdb", b"\xc9"]
"""Array, map, bytes, text and extension whose length follows in four bytes."""


@pytest.mark.parametrize("name", DECODERS)
@pytest.mark.parametrize("kind", LENGTHS)
def test_x6_lengths_that_lie_take_no_memory(name: str, kind: bytes) -> None:
    for prefix in (b"", HEAD, *(sample[:place] for sample in DECODERS[name][1] for place in range(0, 40, 3))):
        read(name, prefix + kind + struct.pack(">I", 0xFFFF_FFFF) + b"\x01")


@pytest.mark.parametrize("name", DECODERS)
@pytest.mark.parametrize("opening", [b"\x91", b"\x81\xa1a", b"[", b'{"a":', b"\xc7\x02\x02"])
def test_x6_deep_nesting_is_refused(name: str, opening: bytes) -> None:
    for prefix in (b"", HEAD, HEAD + b"\x83\xa4path\xa1x\xa7message\xc4\x01x\xaaattributes\x81\xa1a"):
        read(name, prefix + opening * 100_000)


def test_x6_a_chain_of_causes_without_end_is_refused() -> None:
    for depth in (10, 2_000, 100_000):
        read("failure", nested_cause(depth))


@pytest.mark.parametrize("name", DECODERS)
@settings(deadline=None)
@given(data=st.binary(max_size=80))
def test_x6_any_bytes_are_read_or_refused(name: str, data: bytes) -> None:
    read(name, data)
    read(name, HEAD + data)


@pytest.mark.parametrize("name", [name for name, (_, samples) in DECODERS.items() if samples])
@settings(deadline=None)
@given(chance=st.randoms(use_true_random=False), edits=st.integers(1, 4))
def test_x6_damaged_records_are_read_or_refused(name: str, chance: random.Random, edits: int) -> None:
    data = bytearray(chance.choice(DECODERS[name][1]))
    for _ in range(edits):
        place = chance.randrange(len(data))
        data[place : place + chance.randrange(3)] = chance.randbytes(chance.randrange(4))
    read(name, bytes(data))


EXT = msgspec.msgpack.Ext
NAMES = st.text(max_size=4) | st.sampled_from(["errno", "args", "__class__", "__dict__", "__cause__"])
PLAIN: Any = st.recursive(
    st.none() | st.booleans() | st.integers(-(1 << 63), (1 << 64) - 1) | st.floats() | st.binary(max_size=4)
    | st.text(max_size=6) | st.builds(msgspec.msgpack.Ext, st.integers(-1, 20), st.binary(max_size=12)),
    lambda inner: st.lists(inner, max_size=3)
    | st.dictionaries(NAMES, inner, max_size=3)
    | st.builds(lambda code, content: EXT(code, msgspec.msgpack.encode(content)), st.integers(1, 12), inner),
    max_leaves=8,
)  # fmt: skip
LINEAGE = st.lists(
    st.sampled_from(["builtins:OSError", "builtins:int", "os:system", "subprocess:Popen", "builtins:UnicodeDecodeError",
                     ":x",
                     "x", "builtins:BaseExceptionGroup", "asyncio:CancelledError", "builtins:SystemExit"]),
    max_size=3,
)  # fmt: skip


@settings(deadline=None)
@given(
    lineage=LINEAGE,
    args=st.none() | st.lists(PLAIN, max_size=3),
    attributes=st.dictionaries(NAMES, PLAIN, max_size=3),
)  # fmt: skip
def test_x6_failures_with_any_content_are_exceptions_or_refused(
    lineage: list[str], args: Any, attributes: Any
) -> None:
    fields = {"path": "a.B", "message": b"m", "lineage": lineage, "args": args, "attributes": attributes}
    try:
        again = decode_failure(HEAD + msgspec.msgpack.encode({**fields, "pickled": b"\x80\x05N."}), CODEC)
    except UnreadableRecordError:
        return
    assert isinstance(again, Exception)
    str(again)
