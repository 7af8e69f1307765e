"""Objects that cannot be shipped, such as clients and connections: made where they are used."""

from __future__ import annotations

import inspect
import threading
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, Generic, TypeVar

T = TypeVar("T")

_loaded: ContextVar[list[Lazy[Any]] | None] = ContextVar("flink_agents_durable_lazy", default=None)


class Lazy(Generic[T]):
    """Made by `lazy`: calling it gives the object."""

    def __init__(self, factory: Callable[[], T]) -> None:
        if not callable(factory):
            raise TypeError(f"lazy(...) takes a function that makes the object, not {factory!r}")
        self._factory = factory
        self._lock = threading.Lock()
        self._made: list[T] = []
        loaded = _loaded.get()
        if loaded is not None:
            loaded.append(self)

    def __call__(self) -> T:
        """The object; made on first use, by one thread."""
        made = self._made
        if not made:
            with self._lock:
                if not made:
                    made.append(self._factory())
        return made[0]

    def close(self) -> Awaitable[Any] | None:
        """Close the object if it was made and can be closed; gives what is to be awaited."""
        if not self._made:
            return None
        made = self._made.pop()
        end = getattr(made, "close", None) or getattr(made, "aclose", None)
        result = end() if callable(end) else None
        return result if inspect.isawaitable(result) else None

    def __reduce__(self) -> tuple[Any, tuple[Callable[[], T]]]:
        return Lazy, (self._factory,)


def lazy(factory: Callable[[], T]) -> Lazy[T]:
    """An object that is made once per subtask, on first use, and closed with the operator.

    `client = lazy(AsyncOpenAI)` at the top of a script, then `client()` in durable functions. It is pickled as
    its factory, so that what cannot be pickled, or holds a credential, never travels with the plan.
    """
    return Lazy(factory)


@contextmanager
def collect_lazy() -> Iterator[list[Lazy[Any]]]:
    """Collect what is unpickled meanwhile: the lazy objects of one subtask."""
    collected: list[Lazy[Any]] = []
    token = _loaded.set(collected)
    try:
        yield collected
    finally:
        _loaded.reset(token)
