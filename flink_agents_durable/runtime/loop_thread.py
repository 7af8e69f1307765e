"""The loop thread of a subtask: asyncio for `async def` calls, and the only Python thread that calls Java."""

from __future__ import annotations

import asyncio
import contextvars
import logging
import threading
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

_log = logging.getLogger(__name__)


class _CountingPool(ThreadPoolExecutor):
    """The pool behind `asyncio.to_thread`; knows how many of its threads are inside a function."""

    def __init__(self) -> None:
        super().__init__(thread_name_prefix="durable-call-to-thread")
        self._count_lock = threading.Lock()
        self.inside = 0

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        with self._count_lock:
            self.inside += 1
        try:
            future = super().submit(fn, *args, **kwargs)
        except BaseException:
            self._left(None)
            raise
        future.add_done_callback(self._left)
        return future

    def _left(self, _: Future[Any] | None) -> None:
        with self._count_lock:
            self.inside -= 1


class LoopThread:
    """One daemon thread that runs one asyncio loop until `close`.

    It is long-lived because pemja attaches every Python thread that calls Java to the JVM for good.
    """

    def __init__(self, name: str = "durable-calls") -> None:
        self.loop = asyncio.new_event_loop()
        # A context of its own: without it every posted callback would run in, and keep alive, a copy of the
        # poster's context, which inside an action reaches the engine.
        self.context = contextvars.Context()
        self._to_thread = _CountingPool()
        self.loop.set_default_executor(self._to_thread)
        self._stopping = False
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._thread.start()

    def post(self, callback: Callable[..., object], *args: object) -> bool:
        """Run a callback soon on the loop thread; from any thread. False when the loop has ended."""
        try:
            self.loop.call_soon_threadsafe(callback, *args, context=self.context)
        except RuntimeError:  # the loop is closed: whoever posts late has nobody to tell (I4)
            return False
        return True

    def call_at(self, when: float, callback: Callable[..., object], *args: object) -> asyncio.TimerHandle:
        """Run a callback at a time of `loop.time()`; on the loop thread only."""
        return self.loop.call_at(when, callback, *args, context=self.context)

    def is_current(self) -> bool:
        return threading.current_thread() is self._thread

    def close(self, timeout: float) -> bool:
        """Cancel what runs, then end the thread. Bounded; True when no thread is left in user code (S10)."""
        if not self._stopping:
            self._stopping = True
            # Half the time for tasks that answer their cancel slowly, the rest for the thread to end.
            self.post(self._begin_stop, timeout / 2)
        self._thread.join(timeout)
        return not self._thread.is_alive() and self._to_thread.inside == 0

    def _run(self) -> None:
        asyncio.set_event_loop(self.loop)
        while True:
            try:
                self.loop.run_forever()
            except BaseException:  # asyncio lets KeyboardInterrupt and SystemExit of a task through (I5)
                if not self._stopping:
                    continue
                _log.debug("ignored while the loop thread ends", exc_info=True)
            if self._stopping:
                break
        try:
            self.loop.close()
        finally:
            asyncio.set_event_loop(None)

    def _begin_stop(self, grace: float) -> None:
        self.loop.set_exception_handler(lambda loop, context: None)  # late failures interest nobody (I4)
        tasks = asyncio.all_tasks(self.loop)
        for task in tasks:
            task.cancel()
        stopper = self.loop.create_task(self._stop_when_done(tasks, grace))
        stopper.add_done_callback(lambda _: self.loop.stop())

    async def _stop_when_done(self, tasks: set[asyncio.Task[Any]], grace: float) -> None:
        if tasks:
            await asyncio.wait(tasks, timeout=grace)
        await self.loop.shutdown_asyncgens()


class Notifier:
    """Runs one action on the loop thread after any number of `notify()` from any thread, coalesced.

    The flag is cleared before the action looks at the state, and set after the state was changed, so that no
    change is missed; a second run that finds nothing is harmless.
    """

    __slots__ = ("_action", "_posted", "_thread")

    def __init__(self, thread: LoopThread, action: Callable[[], None]) -> None:
        self._thread = thread
        self._action = action
        self._posted = False

    def notify(self) -> None:
        if not self._posted:
            self._posted = True
            self._thread.post(self._run)

    def _run(self) -> None:
        self._posted = False
        self._action()
