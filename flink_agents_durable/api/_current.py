"""The runner context of the action that runs, carried by a context variable as asyncio carries its own."""

from __future__ import annotations

from contextvars import ContextVar
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from flink_agents_durable.api.context import RunnerContext

current: ContextVar[RunnerContext | None] = ContextVar("flink_agents_durable_context", default=None)


def current_or_none() -> RunnerContext | None:
    """The context of the running action; None elsewhere, also inside a durable function."""
    context = current.get()
    return context if context is not None and context._is_stepping() else None
