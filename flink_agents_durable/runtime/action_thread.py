"""A thread that runs the engine and its actions while the task thread waits."""

from __future__ import annotations

import threading
from collections.abc import Callable
from queue import Empty, SimpleQueue
from threading import get_ident
from typing import Any

from flink_agents_durable.api.errors import AttemptEndedError
from flink_agents_durable.engine.loop import watch_async_generators
from flink_agents_durable.runtime.outcomes import SPIN_SECONDS

ENDED, FAILED, ASKS = range(3)


class ActionThread:
    """Steps the engine on a thread of its own: a synchronous call then runs in place, without a hand-over.

    A function that blocks cannot be interrupted, and a task thread inside one could not be cancelled (K5). So
    either each call goes to a worker and back, or the whole step does; this is the second, for operators whose
    actions make synchronous calls. The hand-over is strict: while a step runs here the task thread waits, and does
    only what no other thread may (`ask`). When it is interrupted it is free at once. The step then runs on to
    the end of its call, hears of the interruption there, and nothing is recorded any more (I4).
    """

    def __init__(self, wait: Callable[[], None], post_signal: Callable[[], object]) -> None:
        """`wait`: a short wait of the task thread that a signal ends, and an interrupt with an error."""
        self._wait = wait
        self._post_signal = post_signal
        self._steps: SimpleQueue[Callable[[], Any] | None] = SimpleQueue()
        self._news: SimpleQueue[tuple[int, Any]] = SimpleQueue()
        self._answers: SimpleQueue[tuple[int, Any]] = SimpleQueue()
        self._in_wait = False
        self._signalled = threading.Event()
        self._thread: threading.Thread | None = None
        self._ident = 0
        self.interruption: BaseException | None = None
        """What freed the task thread while a step ran; the attempt is over."""

    def is_current(self) -> bool:
        """Whether the caller runs on this thread."""
        return self._ident == get_ident()

    # ---- task thread

    def run(self, step: Callable[[], Any]) -> Any:
        """Run a step here and wait for its end; gives or raises what it does.

        Raises the interruption of the task, and from then on `AttemptEndedError`.
        """
        if self.interruption is not None:
            raise AttemptEndedError("this attempt of the task has ended") from self.interruption
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name="durable-actions", daemon=True)
            self._thread.start()
        self._steps.put(step)
        del step
        while True:
            try:
                kind, value = self._next_news()
            except BaseException as interruption:
                self.interruption = interruption
                self._answers.put((FAILED, interruption))
                self._signalled.set()
                raise
            if kind == ENDED:
                return value
            if kind == FAILED:
                raise value
            self._answers.put(_result_of(value))
            del value

    def _next_news(self) -> tuple[int, Any]:
        try:
            return self._news.get(timeout=SPIN_SECONDS)
        except Empty:
            pass
        self._in_wait = True  # before looking again: what comes after this look signals
        try:
            while True:
                try:
                    return self._news.get_nowait()
                except Empty:
                    self._wait()
        finally:
            self._in_wait = False

    def close(self, timeout: float) -> bool:
        """End the thread, in bounded time. False when it is still inside user code."""
        if self._thread is None:
            return True
        self._steps.put(None)
        self._thread.join(timeout)
        return not self._thread.is_alive()

    # ---- loop thread

    def signal(self) -> None:
        """End the `wait` of a step, or its next one."""
        self._signalled.set()

    # ---- this thread

    def ask(self, act: Callable[[], Any]) -> Any:
        """Let the task thread do something: Java's state and continuations belong to it."""
        if self.interruption is not None:
            raise self.interruption
        self._tell(ASKS, act)
        kind, value = self._answers.get()
        if kind == FAILED:
            raise value
        return value

    def wait(self, seconds: float) -> None:
        """Wait for a signal, in the middle of a step; an interruption of the task ends it with an error."""
        self._signalled.wait(seconds)
        self._signalled.clear()
        if self.interruption is not None:
            self._signalled.set()
            raise self.interruption

    def _tell(self, kind: int, value: Any) -> None:
        self._news.put((kind, value))
        if self._in_wait:
            self._post_signal()

    def _run(self) -> None:
        self._ident = get_ident()
        watch_async_generators()
        while (step := self._steps.get()) is not None:
            result = [_result_of(step)]
            del step  # an idle thread keeps nothing of a step alive
            self._tell(*result.pop())


def _result_of(act: Callable[[], Any]) -> tuple[int, Any]:
    try:
        return ENDED, act()
    except BaseException as error:
        return FAILED, error
