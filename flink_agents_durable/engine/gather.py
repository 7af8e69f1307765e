"""What a batch of durable calls may consist of."""

from __future__ import annotations

from typing import Any

from flink_agents_durable.api.call_options import seconds
from flink_agents_durable.api.futures import DurableFuture


def check_batch(owner: Any, futures: Any) -> None:
    """Only distinct, unresolved single-call futures of the same context (F6)."""
    seen: set[int] = set()
    for place, future in enumerate(futures, 1):
        problem = ""
        if not isinstance(future, DurableFuture):
            problem = "is no DurableFuture of a single call"
        elif future._owner is not owner:
            problem = "belongs to another action execution"
        elif id(future) in seen:
            problem = "is given twice"
        elif future._outcome is not None or future._waiters is not None or future.batch is not None:
            problem = "was awaited or gathered already"
        if problem:
            raise ValueError(f"ctx.gather: argument {place}, {future!r}, {problem}; nothing was reserved")
        seen.add(id(future))


def batch_timeout(timeout: Any) -> float | None:
    """The timeout of a batch in seconds."""
    return None if timeout is None else max(seconds(timeout), 0.001)
