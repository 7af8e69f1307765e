"""Memory of a key as actions see it: values under dotted paths."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any


class MemoryObject(ABC):
    """A view of memory below one path. Values are anything picklable; `get` gives a copy, `set` persists.

    An execution reads its own writes and those of executions that have completed. Its writes become visible to
    others, and part of the next checkpoint, when it completes; the last to complete wins, path by path.
    """

    @abstractmethod
    def get(self, path: str, default: Any = None) -> Any:
        """The value at a path, a `MemoryObject` for an object, or the default."""

    @abstractmethod
    def set(self, path: str, value: Any) -> None:
        """Put a copy of the value at the path; objects on the way are made as needed."""

    @abstractmethod
    def is_exist(self, path: str) -> bool:
        """Whether there is a value or an object at the path."""

    @abstractmethod
    def remove(self, path: str) -> None:
        """Remove the value or the whole object at the path, if any."""

    @abstractmethod
    def new_object(self, path: str, overwrite: bool = False) -> MemoryObject:
        """Make an object at the path. Raises ValueError if a value is there and `overwrite` is off."""

    @abstractmethod
    def get_field_names(self, prefix: str = "") -> list[str]:
        """Names of the fields directly below, sorted."""

    @abstractmethod
    def get_fields(self) -> dict[str, Any]:
        """Fields directly below with their values; objects as `"NestedObject"`."""
