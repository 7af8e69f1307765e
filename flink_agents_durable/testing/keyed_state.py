"""Flink's keyed state for tests: entries by key, written by snapshots, and the bytes of a checkpoint."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from flink_agents_durable.engine.expiry import EVERYTHING
from flink_agents_durable.engine.ports import (
    ACTIVE,
    EARLY,
    JOURNAL,
    MEMORY,
    QUEUED,
    SEQUENCE,
    UNCLAIMED,
    StateEntry,
)

MAX_PARALLELISM = 128


def key_group(key: bytes) -> int:
    """The key group of a key (Flink's own is a murmur hash; any stable function does here)."""
    return zlib.crc32(key) % MAX_PARALLELISM


class Checkpoint(msgspec.Struct, array_like=True):
    """What Flink would hold."""

    log_id: str
    positions: dict[int, int]
    keys: list[tuple[bytes, list[tuple[int, Any, bytes]]]]
    floors: dict[int, int] = {}


class KeyedState:
    """The state backend of one subtask."""

    def __init__(self) -> None:
        self._keys: dict[bytes, dict[tuple[int, Any], bytes]] = {}
        self.floors: dict[int, int] = {}
        """Of the key groups, as the raw keyed state of an operator has them (P25)."""

    def apply(self, updates: list[tuple[bytes, list[StateEntry]]]) -> None:
        """Write the updates of a snapshot."""
        for key, entries in updates:
            known = self._keys.setdefault(key, {})
            for state, subkey, value in entries:
                if state == MEMORY and subkey is EVERYTHING:
                    for path in [entry for entry in known if entry[0] == MEMORY]:
                        del known[path]
                elif value is None:
                    known.pop((state, subkey), None)
                else:
                    known[state, subkey] = bytes(value)

    def part(self, owned: Callable[[bytes], bool]) -> KeyedState:
        """A copy of the keys that are `owned`."""
        part = KeyedState()
        part._keys = {key: dict(known) for key, known in self._keys.items() if owned(key)}
        part.floors = dict(self.floors)
        return part

    def add(self, other: KeyedState) -> None:
        """Take copies of the keys of another subtask."""
        self._keys.update({key: dict(known) for key, known in other._keys.items()})
        for group, floor in other.floors.items():
            self.floors[group] = max(self.floors.get(group, 0), floor)

    def load(self, key: bytes) -> list[StateEntry]:
        """All of a key but its memory."""
        known = self._keys.get(key, {})
        return [(state, subkey, value) for (state, subkey), value in known.items() if state != MEMORY]

    def memory(self, key: bytes) -> list[tuple[str, bytes]]:
        """The memory of a key."""
        known = self._keys.get(key, {})
        return [(subkey, value) for (state, subkey), value in known.items() if state == MEMORY]

    def active_keys(self) -> list[bytes]:
        """Keys that have work, which is what an operator resumes."""
        work = {ACTIVE, QUEUED, UNCLAIMED}
        return [key for key, known in self._keys.items() if any(state in work for state, _ in known)]

    def entries(self) -> int:
        """How many entries there are beside memory and sequence numbers."""
        return sum(
            1
            for known in self._keys.values()
            for state, _ in known
            if state in (ACTIVE, JOURNAL, QUEUED, UNCLAIMED, EARLY)
        )

    def sequences(self) -> list[tuple[bytes, int, bytes]]:
        """Key, key group and state `sequence` of all keys, as the sweep of an operator finds them."""
        found = [(key, known.get((SEQUENCE, None))) for key, known in self._keys.items()]
        return [(key, key_group(key), sequence) for key, sequence in found if sequence is not None]

    def to_checkpoint(self, log_id: str, positions: Mapping[int, int]) -> bytes:
        """The bytes of a checkpoint."""
        keys = [
            (key, [(state, subkey, value) for (state, subkey), value in known.items()])
            for key, known in self._keys.items()
        ]
        return msgspec.msgpack.encode(Checkpoint(log_id, dict(positions), keys, self.floors))

    @classmethod
    def from_checkpoint(cls, data: bytes) -> tuple[KeyedState, Checkpoint]:
        """The state in a checkpoint, and the checkpoint."""
        checkpoint = msgspec.msgpack.decode(data, type=Checkpoint)
        state = cls()
        state.apply([(key, list(entries)) for key, entries in checkpoint.keys])
        state.floors = checkpoint.floors
        return state, checkpoint
