"""Settings of the engine, as the runtime reads them from the configuration."""

from __future__ import annotations

import sys
from dataclasses import dataclass

from flink_agents_durable.api.configuration import AgentConfiguration, AgentOptions


@dataclass(frozen=True)
class EngineSettings:
    """Behaviour that users choose by `agents.*` options."""

    strict_values: bool = False
    """Deliver values as recorded, also on the first attempt."""
    mismatch_policy: str = "reexecute"
    """`reexecute` or `fail` when a replay asks for another call than the recorded one (P13)."""
    uncaught_failure: str = "retry"
    """`retry` or `replay` a durable failure that nothing caught (P14)."""
    action_failure: str = "fail"
    """`fail` the task, or `skip` the action or emit a `dead-letter` when it ends with an exception."""
    memory_ttl: int | None = None
    """Milliseconds after its last use at which the memory of a key is gone (P25); None: never."""
    call_parallelism: int = sys.maxsize
    """How many calls of one gather run at a time (F11)."""

    @classmethod
    def of(cls, config: AgentConfiguration) -> EngineSettings:
        """The settings of a configuration."""
        ttl = config.get(AgentOptions.SHORT_TERM_MEMORY_TTL)
        return cls(
            strict_values=config.get(AgentOptions.STRICT_VALUES),
            mismatch_policy=config.get(AgentOptions.MISMATCH_POLICY),
            uncaught_failure=config.get(AgentOptions.UNCAUGHT_FAILURE),
            action_failure=config.get(AgentOptions.ACTION_FAILURE),
            memory_ttl=None if ttl is None else max(1, round(ttl.total_seconds() * 1000)),
            call_parallelism=config.get(AgentOptions.CALL_PARALLELISM) or sys.maxsize,
        )
