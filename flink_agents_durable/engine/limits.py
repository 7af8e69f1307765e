"""Names of limits: which there are, and what a call says that names another one."""

from __future__ import annotations

from flink_agents_durable.api.configuration import AgentConfiguration, AgentOptions
from flink_agents_durable.api.errors import ConfigurationError
from flink_agents_durable.api.options import did_you_mean


def limit_names(config: AgentConfiguration) -> frozenset[str]:
    """The names under `agents.limits.`."""
    most, rate = config.under(AgentOptions.LIMIT_MAX_CONCURRENCY), config.under(AgentOptions.LIMIT_PER_SECOND)
    return frozenset({*most, *rate})


def check_limit(name: str, known: frozenset[str]) -> None:
    """Raise ConfigurationError, at the call, for a limit that the configuration does not have."""
    if name not in known:
        names = ", ".join(sorted(known)) or "none"
        raise ConfigurationError(
            f"there is no limit {name!r}{did_you_mean(name, known)} (known: {names}); set"
            f" agents.limits.{name}.max-concurrency or agents.limits.{name}.per-second"
        )
