"""Objects that cannot be shipped, such as clients and connections: made where they are used."""

from __future__ import annotations

import inspect
import threading
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, Generic, TypeVar

from flink_agents_durable.api._current import current

T = TypeVar("T")

_loaded: ContextVar[list[Lazy[Any]] | None] = ContextVar("flink_agents_durable_lazy", default=None)


class _Place:
    """Where one object is made, by one thread, and closed."""

    __slots__ = ("_lock", "_made", "is_closed")

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._made: list[Any] = []
        self.is_closed = False

    def get(self, factory: Callable[[], Any]) -> Any:
        made = self._made
        if not made:
            with self._lock:
                if not made:
                    if self.is_closed:
                        raise RuntimeError(f"lazy({factory!r}) is asked for after its operator was closed")
                    made.append(factory())
        return made[0]

    def close(self) -> Awaitable[Any] | None:
        if not self._made:
            return None
        made = self._made.pop()
        end = getattr(made, "close", None) or getattr(made, "aclose", None)
        result = end() if callable(end) else None
        return result if inspect.isawaitable(result) else None


class LazyObjects:
    """The objects of one subtask: several subtasks of a process, and its attempts, import the same `Lazy`.

    An object may be bound to the loop of its subtask, as asynchronous clients are.
    """

    def __init__(self) -> None:
        self._places: dict[Lazy[Any], _Place] = {}
        self._lock = threading.Lock()
        self._is_closed = False

    def place_of(self, lazy: Lazy[Any]) -> _Place:
        place = self._places.get(lazy)
        if place is None:
            with self._lock:
                place = self._places.setdefault(lazy, _Place())
                place.is_closed = self._is_closed
        return place

    def add(self, lazies: list[Lazy[Any]]) -> None:
        """Lazy objects that came with the plan, and so are of this subtask alone."""
        self._places.update((lazy, lazy._place) for lazy in lazies)

    def close(self) -> list[Callable[[], Awaitable[Any] | None]]:
        """What closes each object and gives what is to be awaited. None is made after this."""
        with self._lock:
            self._is_closed = True
            places = list(self._places.values())
            self._places.clear()
        for place in places:
            place.is_closed = True
        return [place.close for place in places]


class Lazy(Generic[T]):
    """Made by `lazy`: calling it gives the object."""

    def __init__(self, factory: Callable[[], T]) -> None:
        if not callable(factory):
            raise TypeError(f"lazy(...) takes a function that makes the object, not {factory!r}")
        self._factory = factory
        self._place = _Place()
        self._came_with_plan = False

    def __call__(self) -> T:
        """The object; made on first use, by one thread."""
        place = self._place
        if not self._came_with_plan:
            reference = current.get()
            if reference is not None and reference.lazies is not None:
                place = reference.lazies.place_of(self)
        made: T = place.get(self._factory)
        return made

    def close(self) -> Awaitable[Any] | None:
        """Close the object that was made outside of a subtask; gives what is to be awaited."""
        return self._place.close()

    def __reduce__(self) -> tuple[Any, tuple[Callable[[], T]]]:
        return _load, (self._factory,)


def _load(factory: Callable[[], T]) -> Lazy[T]:
    """Unpickled. Not in `Lazy` itself: a plan that is loaded may import modules, whose objects all share."""
    lazy = Lazy(factory)
    loaded = _loaded.get()
    if loaded is not None:
        lazy._came_with_plan = True
        loaded.append(lazy)
    return lazy


def lazy(factory: Callable[[], T]) -> Lazy[T]:
    """An object that is made once per subtask, on first use, and closed with the operator.

    `client = lazy(AsyncOpenAI)` at the top of a script or module, then `client()` in durable functions. It is
    pickled as its factory, so that what cannot be pickled, or holds a credential, never travels with the plan.

    The subtask is known by context variables, which `asyncio.to_thread` takes along. A thread that a function
    starts without them finds an object of the process, which nobody closes.
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
