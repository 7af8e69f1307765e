"""Which value of the bucket column a row needs to come into a given bucket.

A client of Fluss sends a row to the bucket of the hash of its bucket key: for an integer, Murmur3 over its
variable-length encoding, each odd byte mixed in as a word of its own, and once more over the result.
"""

from __future__ import annotations

_SEED = 42
_WORD = 0xFFFFFFFF


def bucket_values(buckets: int) -> list[int]:
    """For each bucket the smallest natural number that leads to it."""
    values: dict[int, int] = {}
    value = 0
    while len(values) < buckets:
        values.setdefault(bucket_of(value, buckets), value)
        value += 1
    return [values[bucket] for bucket in range(buckets)]


def bucket_of(value: int, buckets: int) -> int:
    return _spread(_hash(_encode(value))) % buckets


def _encode(value: int) -> bytes:
    encoded = bytearray()
    while value >= 0x80:
        encoded.append(value & 0x7F | 0x80)
        value >>= 7
    encoded.append(value)
    return bytes(encoded)


def _hash(data: bytes) -> int:
    state = _SEED
    words = len(data) // 4 * 4
    for start in range(0, words, 4):
        state = _mix(state, int.from_bytes(data[start : start + 4], "little"))
    for byte in data[words:]:
        state = _mix(state, byte)
    return _avalanche(state ^ len(data))


def _spread(code: int) -> int:
    """A hash as a natural number, by absolute value as Java has it."""
    result = _avalanche(_mix(0, code) ^ 4)
    return result if result < 0x80000000 else (0x100000000 - result) % 0x80000000


def _mix(state: int, word: int) -> int:
    word = _rotated(word * 0xCC9E2D51 & _WORD, 15) * 0x1B873593 & _WORD
    return _rotated(state ^ word, 13) * 5 + 0xE6546B64 & _WORD


def _rotated(word: int, bits: int) -> int:
    return (word << bits | word >> (32 - bits)) & _WORD


def _avalanche(word: int) -> int:
    word = (word ^ word >> 16) * 0x85EBCA6B & _WORD
    word = (word ^ word >> 13) * 0xC2B2AE35 & _WORD
    return word ^ word >> 16
