"""A task thread for tests: drives a `CallExecutor` as the operator does, waiting for wake-ups alone."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from flink_agents_durable.engine.ports import CallStart, Completion
from flink_agents_durable.runtime.executor import CallExecutor

DEADLINE = 20.0
"""Bounds a test that waits for something that never comes."""


class TaskThread:
    """Starts calls and collects their completions, woken by the executor alone."""

    def __init__(self, **options: Any) -> None:
        self.woken = threading.Event()
        self.signalled = threading.Event()
        self.wakes = 0
        self.wake_threads: set[str] = set()
        options.setdefault("is_interruption", lambda error: False)
        self.executor = CallExecutor(on_complete=self._wake, signal=self.signalled.set, **options)
        self.done: dict[int, Completion] = {}
        self.order: list[int] = []
        self._ids = 0

    def _wake(self) -> None:
        self.wakes += 1
        self.wake_threads.add(threading.current_thread().name)
        self.woken.set()

    def call(self, function: Callable[..., object], *args: object, **settings: Any) -> CallStart:
        self._ids += 1
        settings.setdefault("timeout", None)
        kwargs = settings.pop("kwargs", {})
        name = getattr(function, "__name__", repr(function))
        return CallStart(self._ids, function, args, kwargs, name=name, **settings)

    def start(self, function: Callable[..., object], *args: object, **settings: Any) -> int:
        call = self.call(function, *args, **settings)
        self.executor.start([call])
        return call.id

    def drain(self) -> None:
        for completion in self.executor.drain(1_000):
            assert completion[0] not in self.done, "a call reported twice"
            self.done[completion[0]] = completion
            self.order.append(completion[0])

    def result(self, id: int) -> tuple[int, Any]:
        """Status and value of a call, waiting for wake-ups only: a lost one fails the test."""
        deadline = time.monotonic() + DEADLINE
        self.drain()
        while id not in self.done:
            assert self.woken.wait(max(0.0, deadline - time.monotonic())), f"call {id}: no wake-up"
            self.woken.clear()
            self.drain()
        return self.done[id][1:]

    def run(self, function: Callable[..., object], *args: object, **settings: Any) -> tuple[int, Any]:
        return self.result(self.start(function, *args, **settings))

    def wait_signal(self) -> None:
        self.signalled.wait(0.1)
        self.signalled.clear()

    def block(self, function: Callable[..., object], *args: object, **settings: Any) -> tuple[int, Any]:
        return self.executor.run_blocking(self.call(function, *args, **settings), self.wait_signal)[1:]


@contextmanager
def task_thread(**options: Any) -> Iterator[TaskThread]:
    thread = TaskThread(**options)
    try:
        yield thread
    finally:
        thread.executor.close(5.0)


def eventually(condition: Callable[[], bool], what: str = "condition") -> None:
    """Wait until a condition holds that no event announces."""
    deadline = time.monotonic() + DEADLINE
    pause = threading.Event()
    while not condition():
        assert time.monotonic() < deadline, f"never: {what}"
        pause.wait(0.005)
