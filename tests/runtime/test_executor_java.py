"""Calls that Java runs, beside those of Python, in one queue; Java's workers are played by the test."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import Any

from flink_agents_durable.engine.java_port import JavaCall
from flink_agents_durable.engine.ports import SUCCEEDED, CallStart, Completion
from flink_agents_durable.runtime.admission import CallLimit
from tests.runtime.harness import TaskThread, eventually, task_thread


class PlayedJava:
    """In the place of `JavaCalls`: keeps what it is to start, and has what the test says has ended."""

    has_more = False

    def __init__(self, task: TaskThread) -> None:
        self.crossings: list[list[int]] = []
        self.threads: set[threading.Thread] = set()
        self._task = task
        self._ended: list[Completion] = []

    def start(self, calls: Sequence[CallStart]) -> None:
        self.crossings.append([call.id for call in calls])
        self.threads.add(threading.current_thread())

    def take(self, limit: int) -> list[Completion]:
        taken, self._ended = self._ended[:limit], self._ended[limit:]
        return taken

    def on_task_thread(self, function: Callable[..., Any], *args: Any) -> Any:
        return function(*args)

    def end(self, *ids: int) -> None:
        """These calls have ended, and the task hears of it."""
        self._ended += [(id, SUCCEEDED, b"") for id in ids]
        self._task.drain()

    @property
    def started(self) -> list[int]:
        return [id for crossing in self.crossings for id in crossing]


def with_java(task: TaskThread) -> PlayedJava:
    java: Any = PlayedJava(task)
    task.executor.use_java(java)
    return java


def java_calls(task: TaskThread, count: int, **settings: Any) -> list[int]:
    """Start calls together."""
    calls = [task.call(JavaCall(1, number, False), **settings) for number in range(count)]
    task.executor.start(calls)
    return [call.id for call in calls]


def answer(value: int) -> int:
    return value


def test_f11_calls_that_waited_start_together_and_on_the_task_thread() -> None:
    with task_thread(workers=2) as task:
        java = with_java(task)
        first, second, *later = java_calls(task, 6)
        assert java.crossings == [[first, second]]
        java.end(second, first)
        assert java.crossings[1:] == [later[:2]]
        java.end(*later[:2])
        assert java.started == [first, second, *later]
        assert java.threads == {threading.current_thread()}


def test_f11_java_calls_pass_no_call_of_python_that_came_before() -> None:
    with task_thread(workers=1) as task:
        java = with_java(task)
        (first,) = java_calls(task, 1)
        python = task.start(answer, 5)
        (last,) = java_calls(task, 1)
        assert java.started == [first]
        java.end(first)
        assert task.result(python) == (SUCCEEDED, 5)
        eventually(lambda: java.started == [first, last], "its place is taken over")


def test_k7_nothing_starts_while_paused() -> None:
    with task_thread(workers=1) as task:
        java = with_java(task)
        first, second = java_calls(task, 2)
        task.executor.pause()
        java.end(first)
        assert java.started == [first]
        task.executor.resume()
        eventually(lambda: java.started == [first, second], "it goes on")


def test_a_limit_holds_back_java_calls_alone() -> None:
    with task_thread(workers=8, limits={"api": CallLimit(max_concurrency=1)}) as task:
        java = with_java(task)
        first, second = java_calls(task, 2, limit="api")
        assert java.started == [first]
        (free,) = java_calls(task, 1)
        assert java.started == [first, free]
        java.end(first)
        assert java.started == [first, free, second]


def test_a_rate_opens_for_java_calls_though_nothing_ends() -> None:
    with task_thread(workers=8, limits={"api": CallLimit(per_second=4)}) as task:
        java = with_java(task)
        calls = java_calls(task, 5, limit="api")
        assert java.started == calls[:4]
        eventually(lambda: java.started == calls, "the second is over")


def test_a_call_with_a_timeout_is_started_where_its_timer_is() -> None:
    with task_thread(workers=1) as task:
        java = with_java(task)
        (first,) = java_calls(task, 1)
        (timed,) = java_calls(task, 1, timeout=60.0)
        java.end(first)
        eventually(lambda: java.started == [first, timed], "the loop thread starts it")
        assert threading.current_thread() in java.threads
        assert len(java.threads) == 2


def test_i4_a_call_that_is_cancelled_while_it_waits_never_starts() -> None:
    with task_thread(workers=1) as task:
        java = with_java(task)
        first, second, third = java_calls(task, 3)
        task.executor.cancel([second])
        java.end(first)
        assert java.started == [first, third]
