"""What `apply()` ships to the subtasks: the agent and how to run it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import cloudpickle  # type: ignore[import-untyped]

from flink_agents_durable.api.agent import ActionSpec, Agent
from flink_agents_durable.api.configuration import AgentConfiguration, AgentOptions
from flink_agents_durable.engine.codec import Codec
from flink_agents_durable.engine.compile import compile_agent
from flink_agents_durable.engine.plan import CompiledPlan
from flink_agents_durable.runtime.codecs import make_codec

KEY_ENCODING = "encoded-1"
"""Keys by the key encoding of this package (K3); a stream keyed before by pickled keys says so instead."""


@dataclass(frozen=True)
class AgentPlan:
    """The agent of one operator."""

    agent: Agent
    uid: str
    plan_id: str
    """Made at `apply()`: tells deployments apart that Flink runs under one job id; names the classes."""
    options: Mapping[str, Any] = field(default_factory=dict)
    """What was set under `agents.`, typed, without defaults."""
    resources: Mapping[Any, Any] = field(default_factory=dict)
    """Those of the environment; the agent has its own."""
    classes: Mapping[str, type] = field(default_factory=dict)
    """Classes that travel by value. In one pickle with the agent, so that they are those of its objects."""
    key_encoding: str = KEY_ENCODING
    encode_output: Callable[[Any], bytes] | None = None
    """Outputs and dead letters as the streams behind the operator want them; None: pickled."""
    extra_actions: Sequence[ActionSpec] = ()
    """Built-in actions, after the agent's own."""

    def dump(self) -> bytes:
        """The bytes to ship. Raises what pickling raises."""
        data: bytes = cloudpickle.dumps(self)
        return data

    @staticmethod
    def load(data: bytes) -> AgentPlan:
        plan = cloudpickle.loads(data)
        if not isinstance(plan, AgentPlan):
            raise TypeError(f"not the plan of an agent: {type(plan).__name__}")
        return plan

    def configuration(self) -> AgentConfiguration:
        return AgentConfiguration(self.options)

    def codec(self) -> Codec:
        return make_codec(self.configuration(), self.classes, self.plan_id)

    def compiled(self) -> CompiledPlan:
        """The actions, ready to run."""
        return compile_agent(self.agent, self.extra_actions)

    @property
    def explicit_log_id(self) -> str | None:
        """Log id = job + uid. The explicit job id wins over the log id in the state."""
        job_id = self.configuration().get(AgentOptions.JOB_ID)
        return None if job_id is None else f"{job_id}:{self.uid}"

    def first_log_id(self, flink_job_id: str) -> str:
        """The log of a job without an explicit id that starts from nothing; the same after a failover."""
        return f"{flink_job_id}-{self.plan_id}:{self.uid}"
