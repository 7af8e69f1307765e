"""The runner context of the action that runs, carried by a context variable as asyncio carries its own."""

from __future__ import annotations

from contextvars import ContextVar
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from flink_agents_durable.api.context import RunnerContext
    from flink_agents_durable.api.lazy import LazyObjects


class ContextRef:
    """Leads to a context until its execution has ended.

    Durable calls carry a copy of the action's context variables. One that is abandoned may live for long: what
    it holds must not lead to the engine and to Java (K11).
    """

    __slots__ = ("context", "lazies")

    def __init__(self, context: RunnerContext | None, lazies: LazyObjects | None = None) -> None:
        self.context = context
        self.lazies = lazies
        """Of the subtask; durable functions that outlive the execution use them too."""


current: ContextVar[ContextRef | None] = ContextVar("flink_agents_durable_context", default=None)


def current_or_none() -> RunnerContext | None:
    """The context of the running action; None elsewhere, also inside a durable function."""
    reference = current.get()
    context = None if reference is None else reference.context
    return context if context is not None and context._is_stepping() else None
