"""Memory of a key, versioned while a run has unfinished executions (P16).

Values are kept pickled, so that what an action does to a value it got changes nothing. Paths of sensory memory
carry a prefix that no user path can have.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from flink_agents_durable.api.memory import MemoryObject
from flink_agents_durable.engine.codec import Codec

SENSORY = "\x00"
OBJECT = b"\x00object"  # no pickle begins with NUL
NESTED = "NestedObject"

Writes = dict[str, bytes | None]
Commit = tuple[int, Writes]
"""Number of the last delivery of the run at the commit, and the values that were overwritten."""


class KeyMemory:
    """The committed values of a key; read from Flink state when a run first asks, kept while the key is live."""

    __slots__ = ("_load", "_values", "dirty")

    def __init__(self, load: Callable[[], Sequence[tuple[str, bytes]]]) -> None:
        self._load: Callable[[], Sequence[tuple[str, bytes]]] | None = load
        self._values: Writes = {}
        self.dirty: Writes = {}

    @property
    def values(self) -> Writes:
        """Path to pickled value; None where a value was removed since it was read."""
        if self._load is not None:
            load, self._load = self._load, None
            self._values = {**dict(load()), **self._values}
        return self._values

    def clear(self) -> None:
        """Remove everything."""
        for path in [path for path, value in self.values.items() if value is not None]:
            self.put(path, None)

    def put(self, path: str, value: bytes | None) -> None:
        """Change a value; the next snapshot writes it."""
        self._values[path] = value  # None stays in the map: a later load must not bring the value back
        self.dirty[path] = value


class RunMemory:
    """Memory as the executions of one run see it: committed values, and what each commit overwrote (P16)."""

    __slots__ = ("_key", "commits", "sensory")

    def __init__(self, key: KeyMemory, commits: list[Commit], sensory: Writes) -> None:
        self._key = key
        self.commits = commits
        self.sensory = sensory

    def version_before(self, number: int) -> int:
        """How many commits a delivery of this number sees: those made before it (P16)."""
        return bisect_left(self.commits, number, key=lambda commit: commit[0])

    def _current(self, path: str) -> bytes | None:
        return self.sensory.get(path) if path.startswith(SENSORY) else self._key.values.get(path)

    def read(self, path: str, version: int) -> bytes | None:
        """The value at a path as of a version."""
        for _, overwritten in self.commits[version:]:
            if path in overwritten:
                return overwritten[path]
        return self._current(path)

    def paths(self, version: int) -> Iterator[str]:
        """All paths that have a value as of a version."""
        names = {*self._key.values, *self.sensory}
        for _, overwritten in self.commits[version:]:
            names.update(overwritten)
        return (name for name in names if self.read(name, version) is not None)

    def commit(self, writes: Writes, number: int, keep: bool) -> None:
        """Make the writes of an execution visible; `keep` what they overwrite while others are unfinished."""
        if keep:
            self.commits.append((number, {path: self._current(path) for path in writes}))
        for path, value in writes.items():
            if path.startswith(SENSORY):
                self.sensory[path] = value
            else:
                self._key.put(path, value)


class MemoryView(MemoryObject):
    """Memory of one scope below one path, as one execution sees it."""

    __slots__ = ("_codec", "_memory", "_prefix", "_step", "_writes")

    def __init__(self, memory: RunMemory, writes: Writes, step: Any, codec: Codec, prefix: str) -> None:
        self._memory = memory
        self._writes = writes
        self._step = step
        self._codec = codec
        self._prefix = prefix

    def _read(self, path: str) -> bytes | None:
        if path in self._writes:
            return self._writes[path]
        return self._memory.read(path, self._step.version)

    def _paths(self) -> set[str]:
        names = {
            name for name in self._memory.paths(self._step.version) if self._writes.get(name, b"") is not None
        }
        names.update(name for name, value in self._writes.items() if value is not None)
        return {
            name for name in names if name.startswith(self._prefix) and (self._prefix or name[0] != SENSORY)
        }

    def _below(self, path: str) -> set[str]:
        return {name for name in self._paths() if name.startswith(path + ".")}

    def get(self, path: str, default: Any = None) -> Any:
        full = self._full(path)
        data = self._read(full)
        if data is not None and data != OBJECT:
            return self._codec.loads(data)
        if data == OBJECT or self._below(full):
            return MemoryView(self._memory, self._writes, self._step, self._codec, full + ".")
        return default

    def set(self, path: str, value: Any) -> None:
        full = self._full(path)
        data = self._codec.dumps(value)
        if self._read(full) == OBJECT or self._below(full):
            raise ValueError(f"{path!r} is an object in memory; remove it, or set a field below it")
        self._check_parents(full)
        self._writes[full] = data

    def is_exist(self, path: str) -> bool:
        full = self._full(path)
        return self._read(full) is not None or bool(self._below(full))

    def remove(self, path: str) -> None:
        full = self._full(path)
        for name in [full, *self._below(full)]:
            self._writes[name] = None

    def new_object(self, path: str, overwrite: bool = False) -> MemoryObject:
        full = self._full(path)
        data = self._read(full)
        if data is not None and data != OBJECT and not overwrite:
            raise ValueError(
                f"there is a value at {path!r} in memory; overwrite=True replaces it by an object"
            )
        self._check_parents(full)
        self._writes[full] = OBJECT
        return MemoryView(self._memory, self._writes, self._step, self._codec, full + ".")

    def get_field_names(self, prefix: str = "") -> list[str]:
        base = self._full(prefix) + "." if prefix else self._prefix
        return sorted({name[len(base) :].split(".", 1)[0] for name in self._paths() if name.startswith(base)})

    def get_fields(self) -> dict[str, Any]:
        fields = {}
        for name in self.get_field_names():
            value = self.get(name)
            fields[name] = NESTED if isinstance(value, MemoryObject) else value
        return fields

    def _full(self, path: str) -> str:
        if not isinstance(path, str) or not path or "\x00" in path:
            raise ValueError(f"a memory path is a text of names joined by dots, not {path!r}")
        self._step.check_thread("memory")
        return self._prefix + path

    def _check_parents(self, full: str) -> None:
        end = full.rfind(".")
        while end > 0:
            data = self._read(full[:end])
            if data is not None and data != OBJECT:
                raise ValueError(
                    f"{full[:end].lstrip(SENSORY)!r} is a value in memory and can have no fields"
                )
            end = full.rfind(".", 0, end)
