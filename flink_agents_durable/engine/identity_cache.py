"""What was once found out about an object, for as long as the object lives."""

from __future__ import annotations

import weakref
from typing import Generic, TypeVar

T = TypeVar("T")


class IdentityCache(Generic[T]):
    """By identity, so that no `__eq__` of user code runs; weak, so that it keeps nothing alive."""

    __slots__ = ("_entries",)

    def __init__(self) -> None:
        self._entries: dict[int, tuple[weakref.ref[object], T]] = {}

    def get(self, obj: object) -> T | None:
        entry = self._entries.get(id(obj))
        # An address is used again after the object's death: the entry counts for this very object only.
        return entry[1] if entry is not None and entry[0]() is obj else None

    def put(self, obj: object, value: T) -> None:
        """Remember; not for an object that has no weak references."""
        number, entries = id(obj), self._entries

        def forget(reference: weakref.ref[object]) -> None:
            entry = entries.get(number)
            if entry is not None and entry[0] is reference:
                del entries[number]

        try:
            entries[number] = (weakref.ref(obj, forget), value)
        except TypeError:
            return
