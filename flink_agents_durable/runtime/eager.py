"""Tasks that make their first step at once.

Calls that wait for nothing (a cache hit, a fake in a test) end in their first step; making it eagerly saves
a turn of the loop and a callback for each. Bare `coro.send` would be faster still, but `asyncio.timeout`,
`TaskGroup` and `current_task` need a task.
"""

from __future__ import annotations

import asyncio
import contextvars
import sys
from collections.abc import Callable, Coroutine
from functools import partial
from typing import Any

Spawn = Callable[[Coroutine[Any, Any, Any], contextvars.Context, str], "asyncio.Task[Any]"]
"""Of a coroutine, its context, and the name of its task, which asyncio would else make up for each."""


def eager_spawner(loop: asyncio.AbstractEventLoop) -> Spawn:
    """A function that starts a task in a context, its first step made if the Python version allows it.

    It may raise KeyboardInterrupt or SystemExit when the first step does.
    """
    if sys.version_info >= (3, 12):
        return lambda coro, context, name: asyncio.Task(
            coro, loop=loop, name=name, context=context, eager_start=True
        )
    if sys.version_info >= (3, 11):
        return _CapturedFirstStep(loop).spawn
    return lambda coro, context, name: context.run(partial(loop.create_task, name=name), coro)


class _CapturedFirstStep:
    """For 3.11: catches the first step that a new task schedules, and runs it.

    `call_soon` of this loop is shadowed only while the task object is made, which runs no user code.
    """

    __slots__ = ("_capture", "_loop", "_step")

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._step: Callable[[], object] | None = None
        self._capture = self._keep

    def spawn(
        self, coro: Coroutine[Any, Any, Any], context: contextvars.Context, name: str
    ) -> asyncio.Task[Any]:
        loop = self._loop
        loop.call_soon = self._capture  # type: ignore[method-assign, assignment]
        try:
            if sys.version_info >= (3, 11):
                task = asyncio.Task(coro, loop=loop, name=name, context=context)
        finally:
            del loop.call_soon
        step, self._step = self._step, None
        assert step is not None
        try:  # noqa: SIM105 (of each call)
            context.run(step)
        except (KeyboardInterrupt, SystemExit):
            pass  # the task has them as its exception
        return task

    def _keep(self, step: Callable[[], object], *, context: contextvars.Context | None = None) -> None:
        self._step = step
