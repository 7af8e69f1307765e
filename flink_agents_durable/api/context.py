"""The context that an action works with."""

from __future__ import annotations

import datetime
import logging
import random
import uuid
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable
from typing import Any, ParamSpec, TypeVar, overload

from flink_agents_durable.api._current import current_or_none
from flink_agents_durable.api.awakeables import Awakeable
from flink_agents_durable.api.call_options import CallOptions, Duration
from flink_agents_durable.api.events import Event
from flink_agents_durable.api.futures import DurableFuture, Outcome
from flink_agents_durable.api.memory import MemoryObject

P = ParamSpec("P")
T = TypeVar("T")
T1 = TypeVar("T1")
T2 = TypeVar("T2")
T3 = TypeVar("T3")
T4 = TypeVar("T4")
T5 = TypeVar("T5")


class RunnerContext(ABC):
    """What an action may do. It belongs to one action execution and to the task thread.

    The reserved keywords `reconciler=` (a zero-argument callable that finds out what became of a call that
    was in doubt when a failure came) and `options=` (`CallOptions`) go to the durable call, not to the
    function.
    """

    # The overloads with a reserved keyword come first: behind those with ParamSpec they would never match.
    @overload
    def durable_execute(
        self,
        func: Callable[..., Awaitable[T]],
        /,
        *args: Any,
        reconciler: Callable[[], Any] | None,
        options: CallOptions | None = ...,
        **kwargs: Any,
    ) -> T: ...
    @overload
    def durable_execute(
        self,
        func: Callable[..., T],
        /,
        *args: Any,
        reconciler: Callable[[], Any] | None,
        options: CallOptions | None = ...,
        **kwargs: Any,
    ) -> T: ...
    @overload
    def durable_execute(
        self,
        func: Callable[..., Awaitable[T]],
        /,
        *args: Any,
        options: CallOptions | None,
        **kwargs: Any,
    ) -> T: ...
    @overload
    def durable_execute(
        self,
        func: Callable[..., T],
        /,
        *args: Any,
        options: CallOptions | None,
        **kwargs: Any,
    ) -> T: ...
    @overload
    def durable_execute(self, func: Callable[P, Awaitable[T]], /, *args: P.args, **kwargs: P.kwargs) -> T: ...
    @overload
    def durable_execute(self, func: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> T: ...
    @abstractmethod
    def durable_execute(self, func: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
        """Call a function on a worker and wait for it; the outcome is journaled and replayed after a failure.

        It holds the task thread of its subtask, and its checkpoints, while it runs. Raises what the function
        raised; `DurableSerializationError` or `RecordTooLargeError` if the result cannot be recorded.
        """

    @overload
    def durable_execute_async(
        self,
        func: Callable[..., Awaitable[T]],
        /,
        *args: Any,
        reconciler: Callable[[], Any] | None,
        options: CallOptions | None = ...,
        **kwargs: Any,
    ) -> DurableFuture[T]: ...
    @overload
    def durable_execute_async(
        self,
        func: Callable[..., T],
        /,
        *args: Any,
        reconciler: Callable[[], Any] | None,
        options: CallOptions | None = ...,
        **kwargs: Any,
    ) -> DurableFuture[T]: ...
    @overload
    def durable_execute_async(
        self,
        func: Callable[..., Awaitable[T]],
        /,
        *args: Any,
        options: CallOptions | None,
        **kwargs: Any,
    ) -> DurableFuture[T]: ...
    @overload
    def durable_execute_async(
        self,
        func: Callable[..., T],
        /,
        *args: Any,
        options: CallOptions | None,
        **kwargs: Any,
    ) -> DurableFuture[T]: ...
    @overload
    def durable_execute_async(
        self, func: Callable[P, Awaitable[T]], /, *args: P.args, **kwargs: P.kwargs
    ) -> DurableFuture[T]: ...
    @overload
    def durable_execute_async(
        self, func: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs
    ) -> DurableFuture[T]: ...
    @abstractmethod
    def durable_execute_async(
        self, func: Callable[..., Any], /, *args: Any, **kwargs: Any
    ) -> DurableFuture[Any]:
        """A cold future of a durable call: `func` may be `def`, `async def` or return an awaitable.

        Nothing happens until it is awaited or gathered. The outcome is recorded before the action sees it.
        """

    @overload
    def gather(
        self, f1: DurableFuture[T1], /, *, timeout: Duration | None = None
    ) -> Awaitable[tuple[Outcome[T1]]]: ...
    @overload
    def gather(
        self, f1: DurableFuture[T1], f2: DurableFuture[T2], /, *, timeout: Duration | None = None
    ) -> Awaitable[tuple[Outcome[T1], Outcome[T2]]]: ...
    @overload
    def gather(
        self,
        f1: DurableFuture[T1],
        f2: DurableFuture[T2],
        f3: DurableFuture[T3],
        /,
        *,
        timeout: Duration | None = None,
    ) -> Awaitable[tuple[Outcome[T1], Outcome[T2], Outcome[T3]]]: ...
    @overload
    def gather(
        self,
        f1: DurableFuture[T1],
        f2: DurableFuture[T2],
        f3: DurableFuture[T3],
        f4: DurableFuture[T4],
        /,
        *,
        timeout: Duration | None = None,
    ) -> Awaitable[tuple[Outcome[T1], Outcome[T2], Outcome[T3], Outcome[T4]]]: ...
    @overload
    def gather(
        self,
        f1: DurableFuture[T1],
        f2: DurableFuture[T2],
        f3: DurableFuture[T3],
        f4: DurableFuture[T4],
        f5: DurableFuture[T5],
        /,
        *,
        timeout: Duration | None = None,
    ) -> Awaitable[tuple[Outcome[T1], Outcome[T2], Outcome[T3], Outcome[T4], Outcome[T5]]]: ...
    @overload
    def gather(
        self, *futures: DurableFuture[T], timeout: Duration | None = None
    ) -> Awaitable[list[Outcome[T]]]: ...
    @abstractmethod
    def gather(self, *futures: DurableFuture[Any], timeout: Duration | None = None) -> Any:
        """Await several durable calls at once: a list of `Outcome` in argument order.

        All slots are recorded as PENDING in one append before the first call starts. Nothing is raised for a
        call that fails. After `timeout` (seconds or timedelta) what has not finished is a `CallTimeoutError`.
        Raises ValueError for anything but distinct, unresolved single-call futures of this context.
        """

    @abstractmethod
    def awakeable(self) -> tuple[str, Awakeable[Any]]:
        """The id of something that comes from outside (an approval, a callback), and what waits for it.

        Hand the id to whoever is to answer; `awakeable_result(key, id, value)` in the stream `awakeables=`
        resolves it. Waiting takes no thread and survives failures. A deadline: `asyncio.wait_for(result, seconds)`.
        Raises `AwakeableFailedError` where it is awaited if it was resolved by `awakeable_failure`.
        """

    @abstractmethod
    def send_event(self, event: Event) -> None:
        """Send an event: it triggers the actions that name its type; an `OutputEvent` is emitted."""

    @property
    @abstractmethod
    def short_term_memory(self) -> MemoryObject:
        """Memory of the key, kept in Flink state."""

    @property
    @abstractmethod
    def sensory_memory(self) -> MemoryObject:
        """Memory of this run alone, gone when the run ends."""

    @abstractmethod
    def get_resource(self, name: str, type: Any) -> Any:
        """A resource of the agent or the environment, by its name and `ResourceType` or class."""

    @property
    @abstractmethod
    def logger(self) -> logging.LoggerAdapter[logging.Logger]:
        """A logger that names job, key and action; silent during replay."""

    @property
    @abstractmethod
    def config(self) -> Any:
        """The configuration of the agents of this job."""

    @property
    @abstractmethod
    def action_config(self) -> dict[str, Any]:
        """The configuration given with the action (`add_action(..., **config)`)."""

    @abstractmethod
    def get_action_config_value(self, key: str) -> Any:
        """One value of `action_config`, or None."""

    @property
    @abstractmethod
    def agent_metric_group(self) -> Any:
        """Metrics of the agent; updates made during replay are not counted again."""

    @property
    @abstractmethod
    def action_metric_group(self) -> Any:
        """Metrics of this action; updates made during replay are not counted again."""

    @property
    @abstractmethod
    def key(self) -> Any:
        """The key of the input."""

    @property
    @abstractmethod
    def run_id(self) -> str:
        """Id of the run, the same on every attempt."""

    @abstractmethod
    def now(self) -> datetime.datetime:
        """The recorded time, in UTC: that of the last delivery to this action. The same on replay."""

    @abstractmethod
    def random(self) -> random.Random:
        """A random generator of this action execution, with the same numbers on replay."""

    @abstractmethod
    def uuid4(self) -> uuid.UUID:
        """A random UUID, the same on replay and independent of `random()`."""

    @abstractmethod
    def _is_stepping(self) -> bool: ...

    @abstractmethod
    def _event_id(self) -> Callable[[], uuid.UUID]: ...


def current_context() -> RunnerContext:
    """The context of the action that runs, for code that a framework calls. Raises RuntimeError elsewhere."""
    context = current_or_none()
    if context is None:
        raise RuntimeError(
            "there is no running action here: current_context() works in actions, not in durable functions"
        )
    return context
