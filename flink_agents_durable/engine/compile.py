"""Compiling an agent into what the engine runs."""

from __future__ import annotations

from collections.abc import Sequence

from flink_agents_durable.api.agent import ActionSpec, Agent, collect_actions
from flink_agents_durable.api.java import JavaFunction
from flink_agents_durable.engine.driver import PythonDriver
from flink_agents_durable.engine.java_driver import JavaDriver
from flink_agents_durable.engine.plan import CompiledAction, CompiledPlan


def compile_agent(agent: Agent, extra: Sequence[ActionSpec] = ()) -> CompiledPlan:
    """The plan of an agent with the built-in actions. Raises ConfigurationError for one that cannot run."""
    specs = [*collect_actions(agent), *extra]
    return CompiledPlan.of(
        [
            CompiledAction(spec, JavaDriver if isinstance(spec.function, JavaFunction) else PythonDriver)
            for spec in specs
        ]
    )
