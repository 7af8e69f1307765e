"""The entry of a PyFlink program to its agents."""

from __future__ import annotations

from typing import Any, NoReturn

from pyflink.datastream import DataStream, StreamExecutionEnvironment
from pyflink.java_gateway import get_gateway
from pyflink.util.java_utils import get_j_env_configuration, is_local_deployment

from flink_agents_durable.api.configuration import AgentConfiguration
from flink_agents_durable.api.errors import ConfigurationError
from flink_agents_durable.api.resources import ResourceType
from flink_agents_durable.flink import modes, requirements, tables
from flink_agents_durable.flink.builder import AgentBuilder
from flink_agents_durable.flink.inputs import Selector
from flink_agents_durable.flink.interpreter import (
    absolute_dependencies,
    interpreter_settings,
    jvm_environment_path,
)
from flink_agents_durable.flink.jar import bridge_jar


class AgentsExecutionEnvironment:
    """Agents of one PyFlink job. Get it by `get_execution_environment(env)`."""

    def __init__(self, env: StreamExecutionEnvironment, t_env: Any = None) -> None:
        if not isinstance(env, StreamExecutionEnvironment):
            raise ConfigurationError(
                f"get_execution_environment takes a StreamExecutionEnvironment, not {env!r}. Without Flink, "
                "use LocalRunner of flink_agents_durable.testing"
            )
        self._env = env
        self._t_env = t_env
        self._config = AgentConfiguration.from_flink(self._flink_config())
        self._resources: dict[tuple[ResourceType, str], Any] = {}
        self._builders: list[AgentBuilder] = []

    @staticmethod
    def get_execution_environment(
        env: StreamExecutionEnvironment, t_env: Any = None
    ) -> AgentsExecutionEnvironment:
        """The agents' side of a stream environment, and of the table environment of the same job."""
        return AgentsExecutionEnvironment(env, t_env)

    def get_config(self) -> AgentConfiguration:
        """The options of the agents: those of Flink's configuration, and what is set here."""
        return self._config

    @property
    def resources(self) -> dict[tuple[ResourceType, str], Any]:
        """Resources that all agents of the job share, by type and name."""
        return self._resources

    def add_resource(
        self, name: str, resource_type: ResourceType, instance: Any
    ) -> AgentsExecutionEnvironment:
        """Add a resource, or its descriptor, for all agents of the job. An agent's own go first."""
        if not isinstance(resource_type, ResourceType):
            raise ConfigurationError(
                f"the type of resource {name!r} is a ResourceType, not {resource_type!r}"
            )
        if (resource_type, name) in self._resources:
            raise ConfigurationError(f"resource {name!r} of type {resource_type.name} is defined twice")
        self._resources[(resource_type, name)] = instance
        return self

    def from_datastream(
        self, input: DataStream, key_selector: Selector | None = None, *, awakeables: DataStream | None = None
    ) -> AgentBuilder:
        """Each element is an input of an agent. Without a key selector the stream is a keyed one.

        `awakeables` carries what `awakeable_result` and `awakeable_failure` make, for those who wait for
        `ctx.awakeable()`. It passes the queues of the keys, and has no say in event time: it may be a stream
        without watermarks.
        """
        if not isinstance(input, DataStream):
            raise ConfigurationError(f"from_datastream takes a DataStream, not a {type(input).__name__}")
        if awakeables is not None and not isinstance(awakeables, DataStream):
            raise ConfigurationError(
                f"awakeables= takes a DataStream of awakeable_result(...) and awakeable_failure(...), not a"
                f" {type(awakeables).__name__}"
            )
        return AgentBuilder(self, input, key_selector, awakeables)

    def from_table(
        self, input: Any, key_selector: Selector | None = None, *, schema: Any = None
    ) -> AgentBuilder:
        """Each row of an append-only table is an input: a `Row`, readable by field name."""
        if key_selector is None:
            raise ConfigurationError(
                "from_table needs a key_selector: from_table(t, lambda row: row['user'])"
            )
        stream = tables.stream_of(input, self._table_environment(), schema)
        return AgentBuilder(self, stream, key_selector)

    def from_list(self, input: Any) -> NoReturn:
        """flink-agents' local inputs; `LocalRunner` has them here."""
        raise ConfigurationError(
            "from_list() is for local runs of flink-agents: use LocalRunner of flink_agents_durable.testing, "
            "or from_datastream(env.from_collection(...), key_selector=...)"
        )

    def execute(self, job_name: str | None = None) -> Any:
        """Run the job; the environment's own `execute` does the same."""
        for builder in self._builders:
            builder._check()
        return self._env.execute(job_name)

    def _table_environment(self) -> Any:
        self._t_env = tables.table_environment(self._env, self._t_env)
        return self._t_env

    @property
    def _j_env(self) -> Any:
        return self._env._j_stream_execution_environment

    @property
    def _is_local(self) -> bool:
        return bool(is_local_deployment(get_j_env_configuration(self._j_env)))

    def _flink_config(self) -> dict[str, str]:
        return dict(get_j_env_configuration(self._j_env).toMap())

    def _ship_secrets(self, options: AgentConfiguration) -> None:
        """Move them out of the options, which are in the plan, into the job's Flink configuration."""
        j_config = get_j_env_configuration(self._j_env)
        for key, value in options.secrets().items():
            j_config.setString(key, value)
            options.set(key, None)

    def _prepare_job(self) -> None:
        """Set what the job of an agent needs and the user did not set."""
        j_config = get_j_env_configuration(self._j_env)
        config = self._flink_config()
        jvm_path = jvm_environment_path(get_gateway())
        settings = interpreter_settings(config, local=self._is_local, jvm_path=jvm_path)
        settings.update(absolute_dependencies(config))
        if modes.BUNDLE_MILLIS not in config:
            settings[modes.BUNDLE_MILLIS] = modes.SHORT_BUNDLE_MILLIS
        for key, value in settings.items():
            j_config.setString(key, value)
        requirements.use_unaligned_checkpoints(j_config)
        self._env.add_jars(bridge_jar().as_uri())
