"""Durable futures and the outcomes of a batch."""

from __future__ import annotations

import asyncio
import contextvars
from asyncio import Future
from collections.abc import Callable, Coroutine, Generator, Sequence
from threading import get_ident
from typing import TYPE_CHECKING, Any, Generic, TypeVar

import msgspec

if TYPE_CHECKING:
    from flink_agents_durable.api.call_options import CallOptions

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)


class Outcome(msgspec.Struct, Generic[T], eq=False):
    """What became of one call of a batch: a value, or an error."""

    _value: Any
    _error: BaseException | None

    @classmethod
    def success(cls, value: T) -> Outcome[T]:
        """The outcome of a call that returned a value."""
        return cls(value, None)

    @classmethod
    def failure(cls, error: BaseException) -> Outcome[T]:
        """The outcome of a call that failed."""
        if not isinstance(error, BaseException):
            raise TypeError(f"Outcome.failure takes an exception, not {error!r}")
        return cls(None, error)

    def is_success(self) -> bool:
        """Whether the call returned a value."""
        return self._error is None

    def is_failure(self) -> bool:
        """Whether the call failed."""
        return self._error is not None

    @property
    def value(self) -> T:
        """The value; raises the error of a failed call."""
        if self._error is not None:
            raise self._error
        result: T = self._value
        return result

    @property
    def error(self) -> BaseException | None:
        """The error, or None."""
        return self._error

    def __repr__(self) -> str:
        return (
            f"Outcome.success({self._value!r})"
            if self._error is None
            else f"Outcome.failure({self._error!r})"
        )


NOBODY: list[asyncio.Future[None]] = []
"""No waiters; shared and never changed."""

NO_KEYWORDS: dict[str, Any] = {}
"""Shared by all calls without keyword arguments, and never changed."""


class CallSpec(msgspec.Struct, eq=False):
    """What a durable call is to do: shared by the future, the driver and the engine."""

    function: Callable[..., Any]
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    reconciler: Callable[[], Any] | None = None
    options: CallOptions | None = None
    function_id: str = ""
    arguments: bytes | None = None
    context: contextvars.Context | None = None
    started: int = 0
    """Recorded time of the step that first awaits it; set for calls with a `total_timeout` only."""


class FutureOwner(Coroutine[Any, Any, T_co]):
    """Shared by futures that an action awaits: cold, a coroutine to asyncio, resolved by the driver.

    A subclass says how the first await plans its work. Each await has a waiter of its own, so that one
    cancelled waiter does not cancel the others.
    """

    __slots__ = ("_hash", "_iterators", "_outcome", "_owner", "_waiters", "slot")

    def __init__(self, owner: Any, hash_: int) -> None:
        self._owner = owner
        self._hash = hash_
        self._outcome: Outcome[Any] | None = None
        self._waiters: list[asyncio.Future[None]] | None = None
        self._iterators: dict[Any, Generator[Any, Any, Any]] | None = None
        self.slot = -1

    def __hash__(self) -> int:
        # asyncio keeps awaitables in sets; hashes by address would make their order differ on replay.
        return self._hash

    def _plan(self) -> None:
        raise NotImplementedError

    def _abandoned(self) -> None:
        raise NotImplementedError

    def _needed(self) -> bool:
        """Whether somebody else than the waiters needs the outcome."""
        return False

    def __await__(self) -> Generator[Any, Any, T_co]:
        outcome = self._outcome
        if outcome is None:
            owner = self._owner
            loop = owner.loop
            if loop is None or owner.thread != get_ident():
                owner.refuse_await()
            waiter: asyncio.Future[None] = Future(loop=loop)
            if self._waiters is None:
                self._waiters = [waiter]
                self._plan()
            else:
                self._waiters.append(waiter)
            try:
                yield from waiter
            except BaseException:
                self._leave(waiter)
                raise
            outcome = self._outcome
            if outcome is None:
                raise asyncio.CancelledError
        if outcome._error is not None:
            raise outcome._error
        value: T_co = outcome._value
        return value

    def resolve(self, outcome: Outcome[Any]) -> None:
        """Give the outcome to all who wait (driver only)."""
        self._outcome = outcome
        waiters = self._waiters
        self._waiters = NOBODY
        for waiter in waiters or NOBODY:
            if not waiter.done():
                waiter.set_result(None)

    def _leave(self, waiter: asyncio.Future[None]) -> None:
        """The last waiter that is cancelled cancels the work; an outcome that is there already stays."""
        if self._outcome is not None or self._waiters is None:
            return
        if waiter in self._waiters:
            self._waiters.remove(waiter)
        if not self._waiters and not self._needed():
            self._outcome = Outcome.failure(asyncio.CancelledError())
            self._abandoned()

    # As a coroutine it may be given to several tasks, at once or one after the other (F3, F12).

    def send(self, value: Any) -> Any:
        return self._step("send", value)

    def throw(self, *exc_info: Any) -> Any:
        return self._step("throw", *exc_info)

    def close(self) -> None:
        iterators, self._iterators = self._iterators, None
        for iterator in (iterators or {}).values():
            iterator.close()

    def _step(self, method: str, *args: Any) -> Any:
        loop = self._owner.loop
        task = None if loop is None else asyncio.current_task(loop)
        if self._iterators is None:
            self._iterators = {}
        iterator = self._iterators.get(task)
        if iterator is None:
            iterator = self._iterators[task] = self.__await__()
        try:
            return getattr(iterator, method)(*args)
        except BaseException:
            if self._iterators is not None:
                self._iterators.pop(task, None)
            raise


class DurableFuture(FutureOwner[T_co]):
    """A durable call that has not been made yet: it starts when it is first awaited or gathered (F1).

    Awaiting it again returns the same value or raises the same error (F3); awaiting it while it is in flight
    joins it. It belongs to the action execution that made it.
    """

    __slots__ = ("batch", "spec")

    def __init__(self, owner: Any, hash_: int, spec: CallSpec) -> None:
        # As in FutureOwner, without the hop: one of these is made for every call.
        self._owner = owner
        self._hash = hash_
        self._outcome = None
        self._waiters = None
        self._iterators = None
        self.slot = -1
        self.spec = spec
        self.batch: GatherFuture | None = None

    def _plan(self) -> None:
        self._owner.plan_call(self)

    def _abandoned(self) -> None:
        self._owner.abandon_call(self)

    def _needed(self) -> bool:
        return self.batch is not None

    def __repr__(self) -> str:
        name = self.spec.function_id or getattr(self.spec.function, "__qualname__", repr(self.spec.function))
        state = "done" if self._outcome is not None else "pending" if self._waiters else "cold"
        return f"<DurableFuture {name} {state}>"


class GatherFuture(FutureOwner[list[Outcome[Any]]]):
    """A batch of durable calls, planned as a whole when it is first awaited (F4, F5)."""

    __slots__ = ("children", "open", "timeout")

    def __init__(
        self, owner: Any, hash_: int, children: Sequence[DurableFuture[Any]], timeout: float | None
    ) -> None:
        super().__init__(owner, hash_)
        self.children = children
        self.timeout = timeout
        self.open = len(children)

    def _plan(self) -> None:
        self._owner.plan_batch(self)

    def _abandoned(self) -> None:
        self._owner.abandon_batch(self)
