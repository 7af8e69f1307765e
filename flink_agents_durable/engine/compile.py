"""Compiling an agent written in Python into what the engine runs."""

from __future__ import annotations

from flink_agents_durable.api.agent import Agent, collect_actions
from flink_agents_durable.engine.driver import PythonDriver
from flink_agents_durable.engine.plan import CompiledAction, CompiledPlan


def compile_agent(agent: Agent) -> CompiledPlan:
    """The plan of an agent. Raises ConfigurationError for an agent that cannot run."""
    return CompiledPlan.of([CompiledAction(spec, PythonDriver) for spec in collect_actions(agent)])
