"""Records of one key group as the value of one message, and the log ids that messages carry."""

from __future__ import annotations

import hashlib
from collections.abc import Container, Iterable, Sequence

import msgspec

from flink_agents_durable.store.protocol import Record

MAX_READABLE_CHARS = 200
"""Of the log id in a claim, which is there for people who look into the topic or table."""

_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(list[bytes]).decode


def digest(log_id: str) -> bytes:
    return hashlib.blake2b(log_id.encode("utf-8", "surrogatepass"), digest_size=16).digest()


def claim_value(log_id: str) -> bytes:
    return log_id[:MAX_READABLE_CHARS].encode("utf-8", "surrogatepass")


def by_group(records: Iterable[Record], owned: Container[int]) -> dict[int, list[bytes]]:
    """The records of each key group, in order. Raises ValueError for one that is not in `owned`."""
    groups: dict[int, list[bytes]] = {}
    for group, record in records:
        try:
            groups[group].append(record)
        except KeyError:
            if group not in owned:
                raise ValueError(f"records of key group {group} are not ours") from None
            groups[group] = [record]
    return groups


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
