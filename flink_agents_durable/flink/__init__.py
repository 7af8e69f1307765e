"""PyFlink: the environment, shipping of agents, and what a job needs to find jar and interpreter."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from flink_agents_durable.flink.interpreter import put_interpreter_first_on_path
from flink_agents_durable.flink.java import use_packaged_java

if TYPE_CHECKING:
    from flink_agents_durable.flink.builder import AgentBuilder as AgentBuilder
    from flink_agents_durable.flink.environment import (
        AgentsExecutionEnvironment as AgentsExecutionEnvironment,
    )

__all__ = ["AgentBuilder", "AgentsExecutionEnvironment"]

# Before a program starts PyFlink's JVM, which gets its environment variables only then.
put_interpreter_first_on_path()
use_packaged_java()


def __getattr__(name: str) -> Any:
    """Loaded on first use: tasks import modules of this package that need neither tables nor builders."""
    if name == "AgentBuilder":
        from flink_agents_durable.flink.builder import AgentBuilder

        return AgentBuilder
    if name == "AgentsExecutionEnvironment":
        from flink_agents_durable.flink.environment import AgentsExecutionEnvironment

        return AgentsExecutionEnvironment
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
