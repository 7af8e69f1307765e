"""The deterministic asyncio loop on which one action execution runs.

The engine steps it on the task thread; nothing else moves it. Tasks and futures hash by their creation number,
so that asyncio's sets iterate in the same order on replay. A loop core after asyncio's own base loop.
"""

from __future__ import annotations

import asyncio
import contextvars
import logging
import sys
from asyncio import Task, events
from asyncio.events import _get_running_loop, _set_running_loop
from collections import deque
from collections.abc import Callable, Coroutine, Generator
from threading import get_ident
from types import FunctionType
from typing import Any, NoReturn

from flink_agents_durable.api.errors import RealIOError, StalledActionError
from flink_agents_durable.engine import async_generators

logger = logging.getLogger(__name__)

SPIN_LIMIT = 1_000_000
"""Callbacks in one step before it counts as endless: a coroutine that spins would hold the task thread for good."""


class ActionTask(asyncio.Task[Any]):
    """A task that hashes by its creation number, salted so that tasks of many loops do not collide."""

    def __init__(self, coro: Any, *, loop: ActionLoop, hash_: int, **kwargs: Any) -> None:
        self._number = hash_
        super().__init__(coro, loop=loop, **kwargs)

    def __hash__(self) -> int:
        return self._number


class ActionFuture(asyncio.Future[Any]):
    """A future that hashes by its creation number."""

    def __init__(self, *, loop: ActionLoop, hash_: int) -> None:
        self._number = hash_
        super().__init__(loop=loop)

    def __hash__(self) -> int:
        return self._number


class DurableTimer(asyncio.TimerHandle):
    """The handle of a durable timer; cancelling it cancels its slot."""

    slot = -1


class ActionLoop(asyncio.AbstractEventLoop):
    """An event loop without I/O whose clock is recorded time and whose timers are durable."""

    def __init__(self, timers: TimerPort, salt: int) -> None:
        self._timers = timers
        self._base = (salt & 0xFFFFFFFFFF) << 16
        self._created = 0
        self._ready: list[Any] = []
        self.children: dict[int, ActionTask] = {}
        self.generators: list[int] = []  # ids of the async generators that have begun here
        self.violation: BaseException | None = None
        self._failed: list[ActionTask] = []
        self._deadline = -1  # slot of the timer whose firing began this step
        self.timed_out: dict[
            int, tuple[BaseException, int]
        ] = {}  # exceptions that tasks ended with in such a step
        self._broken = False  # the engine raises what went wrong here

    # --- stepping ---

    def run_ready(self) -> None:
        """Run callbacks until nothing is ready (P1)."""
        ready = self._ready
        if not ready:
            return
        outer = _get_running_loop()
        _set_running_loop(self)
        spins = 0
        try:
            while ready:
                self._ready = []
                for item in ready:
                    if type(item) is tuple:
                        callback, args, context = item
                        context.run(callback, *args)
                    elif not item._cancelled:
                        item._run()
                spins += len(ready)
                ready = self._ready
                if spins > SPIN_LIMIT:
                    raise StalledActionError(
                        f"an action ran {SPIN_LIMIT} callbacks without waiting for anything"
                    )
        except BaseException:
            self._broken = True
            raise
        finally:
            self._deadline = -1
            _set_running_loop(outer)

    def next_hash(self) -> int:
        """Hash for the next thing made on this loop."""
        self._created += 1
        return self._base + self._created

    # --- what asyncio asks of a loop ---

    def call_soon(  # type: ignore[override]
        self, callback: Any, *args: Any, context: contextvars.Context | None = None
    ) -> Any:
        if self._timers.thread != get_ident():
            self._refuse("call_soon")
        kind = type(callback)
        if (kind is _WAKE_UP and isinstance(getattr(callback, "__self__", None), Task)) or kind is _STEP:
            self._ready.append((callback, args, context))  # asyncio's own: it never looks at the handle
            return None
        handle = asyncio.Handle(callback, args, self, context)
        self._ready.append(handle)
        return handle

    def call_later(  # type: ignore[override]
        self, delay: float, callback: Any, *args: Any, context: contextvars.Context | None = None
    ) -> Any:
        return self._schedule(delay, callback, args, context)

    def call_at(  # type: ignore[override]
        self, when: float, callback: Any, *args: Any, context: contextvars.Context | None = None
    ) -> Any:
        return self._schedule(when - self.time(), callback, args, context)

    def _schedule(self, delay: float, callback: Any, args: Any, context: contextvars.Context | None) -> Any:
        if delay <= 0:
            return self.call_soon(callback, *args, context=context)
        timer = DurableTimer(self.time() + delay, callback, args, self, context)
        timer.slot = self._timers.start_timer(delay, timer)
        return timer

    def fire(self, timer: DurableTimer) -> None:
        """Make the callback of a timer ready."""
        self._deadline = timer.slot
        self._ready.append(timer)

    def _timer_handle_cancelled(self, handle: asyncio.TimerHandle) -> None:
        self._timers.cancel_timer(getattr(handle, "slot", -1))

    def time(self) -> float:
        return self._timers.time()

    def create_future(self) -> asyncio.Future[Any]:
        return ActionFuture(loop=self, hash_=self.next_hash())

    def create_task(
        self,
        coro: Generator[Any, None, Any] | Coroutine[Any, Any, Any],
        *,
        name: str | None = None,
        context: contextvars.Context | None = None,
        **kwargs: Any,
    ) -> Any:
        number = self.next_hash()
        if context is not None and sys.version_info >= (3, 11):
            kwargs["context"] = context
        task = ActionTask(coro, loop=self, hash_=number, name=name or f"Task-{number - self._base}", **kwargs)
        task._log_destroy_pending = False  # type: ignore[attr-defined]
        self.children[number] = task
        task.add_done_callback(self._child_done)
        return task

    def create_main_task(self, coro: Any, context: contextvars.Context) -> asyncio.Task[Any]:
        """The task of the action itself. There is one, so that its hash orders nothing."""
        return context.run(self._main_task, coro)

    def _main_task(self, coro: Any) -> asyncio.Task[Any]:
        task: asyncio.Task[Any] = asyncio.Task(coro, loop=self, name="action")
        task._log_destroy_pending = False  # type: ignore[attr-defined]  # a crash leaves it where it is
        return task

    def _child_done(self, task: ActionTask) -> None:
        self.children.pop(task._number, None)
        if task.cancelled():
            return
        if task._log_traceback:
            self._failed.append(task)
        error = task._exception
        if error is not None and self._deadline >= 0:
            self.timed_out[id(error)] = (error, self._deadline)

    def unretrieved(self) -> BaseException | None:
        """The exception of a task that failed and that nobody looked at: it must not be lost in silence."""
        for task in self._failed:
            if task._log_traceback:
                return task.exception()
        return None

    get_debug = staticmethod(bool)  # False; asyncio asks for each future, and C answers fastest

    def set_debug(self, enabled: bool) -> None:
        pass

    def is_running(self) -> bool:
        return events._get_running_loop() is self

    def is_closed(self) -> bool:
        return False

    def get_task_factory(self) -> None:
        return None

    def get_exception_handler(self) -> None:
        return None

    def set_task_factory(self, factory: Any) -> None:
        if factory is not None:
            raise NotImplementedError("the loop of an action makes its own tasks: their order has to replay")

    def set_exception_handler(self, handler: Any) -> None:
        if handler is not None:
            raise NotImplementedError(
                "the loop of an action has no exception handler: errors fail the action"
            )

    def default_exception_handler(self, context: dict[str, Any]) -> None:
        self.call_exception_handler(context)

    def call_exception_handler(self, context: dict[str, Any]) -> None:
        if self._broken:
            return  # the engine raises it; a task that is freed later must not report it from the collector
        logger.error("in an action: %s", context.get("message"), exc_info=context.get("exception"))

    async def shutdown_asyncgens(self) -> None:
        pass

    async def shutdown_default_executor(self, timeout: float | None = None) -> None:
        pass

    def call_soon_threadsafe(  # type: ignore[override]
        self, callback: Any, *args: Any, context: Any = None
    ) -> NoReturn:
        self._refuse("call_soon_threadsafe")

    def _refuse(self, name: str) -> NoReturn:
        foreign = name == "call_soon"
        reason = "was called by another thread, which" if foreign else "needs real I/O or a thread, which"
        error = RealIOError(
            f"loop.{name}() {reason} would not be the same on replay:"
            " do it in a function and await ctx.durable_execute_async(function, ...)"
        )
        if self.violation is None:
            self.violation = error
        self._broken = True
        raise error

    def abandon(self) -> None:
        """Close every coroutine of this loop, on the task thread; what they still do is ignored (case 26)."""
        for task in list(self.children.values()):
            close_task(task)
        self.children.clear()
        self._ready.clear()


def make_loop(timers: TimerPort, salt: int) -> ActionLoop:
    """A loop. Its abstract methods are the I/O that is refused, see below."""
    make: Any = ActionLoop
    loop: ActionLoop = make(timers, salt)
    async_generators.install(make)
    return loop


def watch_async_generators() -> None:
    """Let the loops close their async generators on this thread too: the hooks belong to a thread."""
    kind: Any = ActionLoop
    async_generators.install(kind)


class TimerPort:
    """What the loop needs of its driver: recorded time, and durable timers."""

    __slots__ = ()

    thread: int
    """The thread that moves the loop at present; 0: nothing does, and nothing may become ready."""

    def time(self) -> float:
        raise NotImplementedError

    def start_timer(self, delay: float, timer: DurableTimer) -> int:
        raise NotImplementedError

    def cancel_timer(self, slot: int) -> None:
        raise NotImplementedError


def close_task(task: asyncio.Task[Any]) -> None:
    """End a suspended task without running the loop."""
    if task.done():
        return
    task._log_destroy_pending = False  # type: ignore[attr-defined]
    coro: Any = task.get_coro()
    for _ in range(100):  # a coroutine may await again in its finally
        try:
            coro.close()
            return
        except RuntimeError:
            continue
        except BaseException:
            logger.debug("an abandoned action raised while it was closed", exc_info=True)
            return


def _refused(name: str) -> Callable[..., NoReturn]:
    def refuse(self: ActionLoop, *args: Any, **kwargs: Any) -> NoReturn:
        self._refuse(name)

    refuse.__name__ = name
    return refuse


for _name in [
    "run_in_executor",
    "set_default_executor",
    "getaddrinfo",
    "getnameinfo",
    "create_connection",
    "create_server",
    "start_tls",
    "sendfile",
    "create_unix_connection",
    "create_unix_server",
    "connect_accepted_socket",
    "create_datagram_endpoint",
    "connect_read_pipe",
    "connect_write_pipe",
    "subprocess_shell",
    "subprocess_exec",
    "add_reader",
    "remove_reader",
    "add_writer",
    "remove_writer",
    "sock_recv",
    "sock_recv_into",
    "sock_recvfrom",
    "sock_recvfrom_into",
    "sock_sendall",
    "sock_sendto",
    "sock_connect",
    "sock_accept",
    "sock_sendfile",
    "add_signal_handler",
    "remove_signal_handler",
    "run_forever",
    "run_until_complete",
    "stop",
    "close",
]:
    setattr(ActionLoop, _name, _refused(_name))
ActionLoop.__abstractmethods__ = frozenset()  # type: ignore[attr-defined]


def _task_callbacks() -> tuple[type, type]:
    """Types of the callbacks that asyncio's tasks hand to `call_soon`: the first step, and the wake-up."""
    seen: list[type] = []

    class Probe(asyncio.AbstractEventLoop):
        def call_soon(  # type: ignore[override]
            self, callback: Any, *args: Any, context: Any = None
        ) -> Any:
            seen.append(type(callback))
            queue.append((callback, args, context))

        def get_debug(self) -> bool:
            return False

        def call_exception_handler(self, context: dict[str, Any]) -> None:
            pass

    async def wait() -> None:
        await waiter

    queue: deque[Any] = deque()
    Probe.__abstractmethods__ = frozenset()  # type: ignore[attr-defined]
    make: Any = Probe
    loop: Any = make()
    waiter: asyncio.Future[None] = asyncio.Future(loop=loop)
    outer = events._get_running_loop()
    events._set_running_loop(loop)
    try:
        task: asyncio.Task[None] = asyncio.Task(wait(), loop=loop)
        while queue or not waiter.done():
            if not queue:
                waiter.set_result(None)
            callback, args, context = queue.popleft()
            context.run(callback, *args)
        assert task.done()
    finally:
        events._set_running_loop(outer)
    return seen[0], seen[1]


_STEP, _WAKE_UP = _task_callbacks()


def _in_order(futures: Any) -> Any:
    """What is given to `as_completed` on an action loop, as tasks that were made in the order of the arguments."""
    loop = events._get_running_loop()
    if not isinstance(loop, ActionLoop) or asyncio.isfuture(futures) or asyncio.iscoroutine(futures):
        return futures
    return [asyncio.ensure_future(future, loop=loop) for future in dict.fromkeys(futures)]


def _order_as_completed() -> None:
    """Let `asyncio.as_completed` keep the order of its arguments (D5), also for who imported it by name.

    It makes its tasks while it iterates over a set, and coroutines hash by address: their order would be
    another one on replay. Loops of others are not touched.
    """
    original = asyncio.as_completed
    namespace: dict[str, Any] = vars(asyncio.tasks)
    namespace["_as_completed_unordered"] = FunctionType(
        original.__code__, namespace, "as_completed", original.__defaults__, original.__closure__
    )
    namespace["_as_completed_unordered"].__kwdefaults__ = original.__kwdefaults__
    namespace["_as_completed_in_order"] = _in_order

    def as_completed(fs: Any, *, timeout: Any = None) -> Any:
        yield from _as_completed_unordered(  # type: ignore[name-defined]  # noqa: F821
            _as_completed_in_order(fs),  # type: ignore[name-defined]  # noqa: F821
            timeout=timeout,
        )

    original.__code__ = as_completed.__code__


_order_as_completed()
