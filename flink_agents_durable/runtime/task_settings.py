"""What Java tells a subtask about itself, and the store that its options ask for."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from flink_agents_durable.api.configuration import AgentConfiguration, AgentOptions, ConfigOption
from flink_agents_durable.api.errors import ConfigurationError
from flink_agents_durable.store.none import NoActionStateStore
from flink_agents_durable.store.protocol import ActionStateStore
from flink_agents_durable.store.sqlite import SqliteActionStateStore

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class TaskSettings:
    """One subtask of the operator."""

    job_id: str
    job_name: str
    uid: str
    subtask: int
    groups: range
    """The key groups that it owns."""
    restored: bool
    num_retained: int
    local: bool
    """It runs in a MiniCluster."""
    unaligned: bool
    max_parallelism: int = 128
    store_properties: Mapping[str, str] = field(default_factory=dict, repr=False)
    """Options that may be secrets: they come in the job's configuration, not in the plan."""

    @classmethod
    def of(cls, settings: Mapping[str, Any]) -> TaskSettings:
        return cls(
            job_id=settings["job_id"],
            job_name=settings["job_name"],
            uid=settings["uid"],
            subtask=int(settings["subtask"]),
            groups=range(int(settings["first_group"]), int(settings["last_group"]) + 1),
            restored=bool(settings["restored"]),
            num_retained=int(settings.get("num_retained", 1)),
            local=bool(settings.get("local", False)),
            unaligned=bool(settings.get("unaligned", True)),
            max_parallelism=int(settings.get("max_parallelism", 128)),
            store_properties=dict(settings.get("store_properties", {})),
        )


def make_store(options: AgentConfiguration, task: TaskSettings) -> ActionStateStore:
    """The store of `agents.store.type`; `auto` is sqlite in local execution and none elsewhere."""
    kind = options.get(AgentOptions.STORE_TYPE)
    if kind == "auto":
        kind = "sqlite" if task.local else "none"
    if kind == "none":
        _say_once(task, "there is no action state store: results are as durable as the last checkpoint")
        return NoActionStateStore()
    append_timeout = options.get(AgentOptions.STORE_APPEND_TIMEOUT).total_seconds()
    if kind == "kafka":
        return _kafka(options, task, append_timeout)
    if kind == "fluss":
        return _fluss(options, task, append_timeout)
    return SqliteActionStateStore(options.get(AgentOptions.STORE_SQLITE_PATH), append_timeout=append_timeout)


def _kafka(options: AgentConfiguration, task: TaskSettings, append_timeout: float) -> ActionStateStore:
    from flink_agents_durable.store.kafka import KafkaActionStateStore  # an extra

    return KafkaActionStateStore(
        _required(options, AgentOptions.KAFKA_BOOTSTRAP_SERVERS),
        _required(options, AgentOptions.KAFKA_TOPIC),
        partitions=task.max_parallelism,
        replication_factor=options.get(AgentOptions.KAFKA_REPLICATION_FACTOR),
        properties=AgentConfiguration(task.store_properties).under(AgentOptions.KAFKA_PROPERTIES),
        append_timeout=append_timeout,
    )


def _fluss(options: AgentConfiguration, task: TaskSettings, append_timeout: float) -> ActionStateStore:
    from flink_agents_durable.store.fluss import FlussActionStateStore  # its library is installed apart

    return FlussActionStateStore(
        _required(options, AgentOptions.FLUSS_BOOTSTRAP_SERVERS),
        options.get(AgentOptions.FLUSS_DATABASE),
        _required(options, AgentOptions.FLUSS_TABLE),
        buckets=task.max_parallelism,
        replication_factor=options.get(AgentOptions.FLUSS_REPLICATION_FACTOR),
        properties=AgentConfiguration(task.store_properties).under(AgentOptions.FLUSS_PROPERTIES),
        append_timeout=append_timeout,
    )


def _required(options: AgentConfiguration, option: ConfigOption[str | None]) -> str:
    value = options.get(option)
    if value is None:
        kind = options.get(AgentOptions.STORE_TYPE)
        raise ConfigurationError(f"{AgentOptions.STORE_TYPE.key} = {kind!r} needs {option.key}")
    return value


def check_store(options: AgentConfiguration) -> None:
    """What can be told about the store at `apply()`. Raises ConfigurationError."""
    kind = options.get(AgentOptions.STORE_TYPE)
    if kind == "kafka":
        _required(options, AgentOptions.KAFKA_BOOTSTRAP_SERVERS)
        _required(options, AgentOptions.KAFKA_TOPIC)
    elif kind == "fluss":
        _required(options, AgentOptions.FLUSS_BOOTSTRAP_SERVERS)
        _required(options, AgentOptions.FLUSS_TABLE)


def warn_about_setup(task: TaskSettings) -> None:
    """What works, and not as well as the user may think."""
    if not task.unaligned:  # K1
        _say_once(
            task,
            "unaligned checkpoints are off: under back-pressure and in the drain at the end of input, "
            "checkpoints wait for the durable calls",
        )


def _say_once(task: TaskSettings, text: str) -> None:
    if task.subtask == 0:
        _log.warning("agent %s of job %s: %s", task.uid, task.job_name, text)
