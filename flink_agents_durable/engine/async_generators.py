"""Async generators of actions that are left before their end: their `finally` blocks may await."""

from __future__ import annotations

import logging
import sys
from asyncio import events
from collections.abc import AsyncGenerator
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from flink_agents_durable.engine.loop import ActionLoop

logger = logging.getLogger(__name__)

_owners: dict[int, ActionLoop] = {}
"""The loop of each generator that has begun, by the generator's id: weak references are gone when one is left."""


def install(kind: type[ActionLoop]) -> None:
    """Let loops of this kind close the generators that are left while they run, as asyncio's loops do.

    The hooks belong to the thread and stay: to set and reset them at each step costs more than the step. What
    another loop of the thread has set goes on behind them; that loop takes them away when it ends, so every
    loop that is made looks again.
    """
    hooks = sys.get_asyncgen_hooks()
    if type(getattr(hooks.finalizer, "__self__", None)) is not _Hooks:
        ours = _Hooks(kind, hooks)
        sys.set_asyncgen_hooks(ours.begun, ours.left)


def forget(loop: ActionLoop) -> None:
    """The loop has ended; what it has not closed is not closed in a loop any more (L6)."""
    for number in loop.generators:
        if _owners.get(number) is loop:
            del _owners[number]


class _Hooks:
    def __init__(self, kind: type[ActionLoop], outer: Any) -> None:
        self._kind = kind
        self._outer = outer

    def begun(self, generator: AsyncGenerator[Any, Any]) -> None:
        loop = events._get_running_loop()
        if isinstance(loop, self._kind):
            loop.generators.append(id(generator))
            _owners[id(generator)] = loop
        else:
            _owners.pop(id(generator), None)  # of one that had this id before
            if self._outer.firstiter is not None:
                self._outer.firstiter(generator)

    def left(self, generator: AsyncGenerator[Any, Any]) -> None:
        """Nobody refers to a suspended generator any more: close it in a task of its loop, if that runs.

        The collector may find one of an abandoned action in the middle of another action's step.
        """
        loop = _owners.pop(id(generator), None)
        if loop is not None and events._get_running_loop() is loop:
            loop.create_task(generator.aclose())
        elif loop is None and self._outer.finalizer is not None:
            self._outer.finalizer(generator)
        else:
            _close(generator)


def _close(generator: AsyncGenerator[Any, Any]) -> None:
    """Without a loop: as Python does, until its first await; of an abandoned action nothing is wanted."""
    closing: Any = generator.aclose()
    try:
        closing.send(None)
        closing.close()
    except StopIteration:
        return
    except BaseException:
        logger.debug("an async generator could not be closed without its loop", exc_info=True)
