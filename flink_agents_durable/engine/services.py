"""What actions use beside the engine: resources, metrics, configuration. Handed in by the runtime."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from flink_agents_durable.api.lazy import LazyObjects
from flink_agents_durable.engine.java_port import JavaPort


def _no_resource(name: str, type: Any) -> Any:
    raise KeyError(f"there is no resource {name!r} of type {type}")


@dataclass(frozen=True)
class Services:
    """Access to what lives beside the engine. `metric_group` takes an action's name or None, and whether a
    replay is going on (its updates do not count)."""

    job_name: str = "local"
    config: Any = None
    get_resource: Callable[[str, Any], Any] = _no_resource
    limits: frozenset[str] = frozenset()
    """Names that `CallOptions(limit=...)` may use."""
    lazies: LazyObjects | None = None
    """Where objects of `lazy` are kept; without it they are of the whole process."""
    metric_group: Callable[[str | None, Callable[[], bool]], Any] = lambda action, is_replaying: None
    java: JavaPort | None = None
    """Where actions written in Java run; only a Flink job has it."""
