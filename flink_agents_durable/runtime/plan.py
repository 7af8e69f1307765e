"""An agent as it travels from the program to the tasks."""

from __future__ import annotations

import pickle
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import cloudpickle  # type: ignore[import-untyped]

from flink_agents_durable.api.agent import Agent


@dataclass(frozen=True)
class AgentPlan:
    """What `apply()` ships. It is pickled by cloudpickle, so that classes of the submitted script travel along."""

    agent: Agent
    uid: str
    """The agent's name in state and log."""
    plan_id: str
    """Made at `apply()`: the second half of a log id without `agents.job-id`, and the name of the plan's classes."""
    options: dict[str, Any] = field(default_factory=dict)
    """The values of an `AgentConfiguration`, typed."""
    resources: Mapping[Any, Any] = field(default_factory=dict)
    """Resources of the environment, by (type, name); the agent's own go first."""
    plan_classes: Mapping[str, type] = field(default_factory=dict)
    """Classes that travel by value, by the name under which records mention them."""

    def dump(self) -> bytes:
        data: bytes = cloudpickle.dumps(self, protocol=5)
        return data

    @staticmethod
    def load(data: bytes) -> AgentPlan:
        plan = pickle.loads(data)
        if not isinstance(plan, AgentPlan):
            raise TypeError(f"these bytes hold a {type(plan).__name__}, not an AgentPlan")
        return plan
