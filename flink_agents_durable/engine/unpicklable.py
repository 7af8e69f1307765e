"""Finds the part of a value that cannot be pickled, so that an error can name it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

# Bounds the time that naming a culprit takes in large values.
_MAX_DEPTH = 8
_MAX_ATTEMPTS = 500


def describe_culprit(value: object, dumps: Callable[[object], object], error: Exception) -> str:
    """`"a _thread.lock at value.client.lock (cannot pickle ...)"`. Never raises."""
    search = _Search(dumps)
    try:
        path, culprit = search.find("value", value, 0, frozenset())
    except Exception:
        path, culprit = "value", value
    cls = type(culprit)
    where = "" if path == "value" else f" at {path}"
    whole = f" in a {_class_path(type(value))}" if culprit is not value else ""
    return f"a {_class_path(cls)}{where}{whole} ({type(error).__name__}: {_text(error)})"


class _Search:
    def __init__(self, dumps: Callable[[object], object]) -> None:
        self._dumps = dumps
        self._attempts = 0

    def find(self, path: str, value: object, depth: int, seen: frozenset[int]) -> tuple[str, object]:
        if depth < _MAX_DEPTH:
            for name, part in _parts(value):
                if id(part) in seen or not self._fails(part):
                    continue
                return self.find(f"{path}{name}", part, depth + 1, seen | {id(value)})
        return path, value

    def _fails(self, part: object) -> bool:
        self._attempts += 1
        if self._attempts > _MAX_ATTEMPTS or part is None or isinstance(part, (str, int, float, bytes)):
            return False
        try:
            self._dumps(part)
        except Exception:
            return True
        return False


def _parts(value: Any) -> Iterator[tuple[str, object]]:
    if isinstance(value, dict):
        for key, part in list(value.items()):
            yield f"[{_text(key)!r}]" if not isinstance(key, int) else f"[{key}]", part
    elif isinstance(value, (list, tuple)):
        for index, part in enumerate(value):
            yield f"[{index}]", part
    elif isinstance(value, (set, frozenset)):
        for part in list(value):
            yield "{...}", part
    if not isinstance(value, type):
        for place in ("__dict__", "__pydantic_extra__"):
            attributes = getattr(value, place, None)
            if isinstance(attributes, dict):
                yield from ((f".{name}", part) for name, part in list(attributes.items()))


def _class_path(cls: type) -> str:
    module = getattr(cls, "__module__", "")
    return cls.__qualname__ if module == "builtins" else f"{module}.{cls.__qualname__}"


def _text(value: object) -> str:
    try:
        return str(value)[:500]
    except Exception:
        return f"<{type(value).__name__}>"
