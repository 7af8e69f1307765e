"""How the end of a durable function becomes an outcome, and how a waiting task thread receives one."""

from __future__ import annotations

import asyncio
import contextvars
import threading
from asyncio import events
from collections.abc import Callable
from typing import Any

from flink_agents_durable.api.errors import DurableExecutionError
from flink_agents_durable.engine.ports import FAILED, SUCCEEDED, CallStart
from flink_agents_durable.runtime.functions import GENERATORS, is_awaitable, refuse_generator

SPIN_SECONDS = 0.001
"""How long a blocking call waits on a Python lock first: a hop through Java costs three times as much."""

AWAIT = -1
"""A plain function returned an awaitable, which is not its outcome yet."""

Outcome = tuple[int, object]
"""Status and value or exception."""


def run_plain(call: CallStart) -> Outcome:
    """Run a plain function, on a worker."""
    try:
        value = context_of(call).run(call.function, *call.args, **call.kwargs)
        if is_awaitable(value):
            return AWAIT, value
        if type(value) in GENERATORS:
            refuse_generator(call.name, value)
    except asyncio.CancelledError as error:
        return FAILED, _foreign_cancel(call.name, error)
    except BaseException as error:
        return FAILED, error
    return SUCCEEDED, value


def run_outside_loop(call: CallStart) -> Outcome:
    """Run a plain function in the middle of an action, for which no loop runs: it may use asyncio.run."""
    outer = events._get_running_loop()
    events._set_running_loop(None)
    try:
        return run_plain(call)
    finally:
        events._set_running_loop(outer)


def outcome_of(call: CallStart, task: asyncio.Task[Any]) -> Outcome:
    """The outcome of a task that is done."""
    try:
        value = task.result()
        if type(value) in GENERATORS:
            refuse_generator(call.name, value)
    except asyncio.CancelledError as error:
        return FAILED, _foreign_cancel(call.name, error)
    except BaseException as error:
        return FAILED, error
    return SUCCEEDED, value


def context_of(call: CallStart) -> contextvars.Context:
    """A copy: one context cannot be entered by two threads, and a batch may share one."""
    return contextvars.Context() if call.context is None else call.context.copy()


def _foreign_cancel(call_name: str, error: asyncio.CancelledError) -> DurableExecutionError:
    """A cancel that nobody asked for is a failure of the call, not a cancel of the action (I6)."""
    if isinstance(error.__context__, asyncio.CancelledError) and not error.args:
        error = error.__context__  # 3.10 makes a new one for the task and keeps the original there
    text = f"the durable call {call_name} ended with asyncio.CancelledError although nobody cancelled it"
    if str(error):
        text = f"{text}: {error}"
    failure = DurableExecutionError(text)
    failure.__cause__ = error
    return failure


class OutcomeBox:
    """Hands the outcome of a blocking call to the waiting task thread."""

    __slots__ = ("_in_wait", "_lock", "_outcome", "_signal")

    def __init__(self, signal: Callable[[], None]) -> None:
        self._lock = threading.Lock()
        self._lock.acquire()
        self._signal = signal
        self._in_wait = False
        self._outcome: Outcome = (FAILED, None)

    def put(self, status: int, value: object) -> None:
        self._outcome = (status, value)
        self._lock.release()
        if self._in_wait:
            self._signal()

    def take(self, wait: Callable[[], None] | None) -> Outcome:
        """Wait on a Python lock for a moment, then in `wait`, again and again; without `wait` on the lock."""
        if wait is None:
            self._lock.acquire()
        elif not self._lock.acquire(timeout=SPIN_SECONDS):
            self._in_wait = True  # before looking again: an outcome after this look signals
            while not self._lock.acquire(blocking=False):
                wait()
        return self._outcome

    def take_from(self, wait: Callable[[], None], fetch: Callable[[], None]) -> Outcome:
        """Wait in `wait` for an outcome that `fetch` puts in here."""
        while True:
            fetch()
            if self._lock.acquire(blocking=False):
                return self._outcome
            wait()
