"""Adds one agent to a job: from its input to its output."""

from __future__ import annotations

import logging
import os
import sys
import uuid
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NoReturn

import cloudpickle  # type: ignore[import-untyped]
from pyflink.common.typeinfo import TypeInformation
from pyflink.datastream import DataStream
from pyflink.java_gateway import get_gateway

from flink_agents_durable.agents.builtin_actions import builtin_actions
from flink_agents_durable.api.agent import ActionSpec, Agent, collect_actions
from flink_agents_durable.api.configuration import AgentConfiguration, AgentOptions
from flink_agents_durable.api.errors import ConfigurationError
from flink_agents_durable.api.unsupported import unsupported
from flink_agents_durable.flink import awakeables, inputs, outputs, requirements, tables
from flink_agents_durable.flink.jar import bridge_jar
from flink_agents_durable.flink.shipping import make_plan
from flink_agents_durable.flink.types import type_info
from flink_agents_durable.runtime.plan import AgentPlan
from flink_agents_durable.runtime.resources import ResourceRegistry
from flink_agents_durable.runtime.task_settings import check_store

if TYPE_CHECKING:
    from pyflink.table import Schema, Table

    from flink_agents_durable.flink.environment import AgentsExecutionEnvironment

logger = logging.getLogger(__name__)

OPERATOR_MODULE = "flink_agents_durable.runtime.operator"
# A class of the script that drags more along than this is no class of records.
_LARGEST_CLASS_BYTES = 1 << 20


class AgentBuilder:
    """Made by `AgentsExecutionEnvironment.from_datastream` and `from_table`."""

    def __init__(
        self,
        environment: AgentsExecutionEnvironment,
        stream: DataStream,
        key_selector: inputs.Selector | None,
        awakeables: DataStream | None = None,
    ) -> None:
        self._environment = environment
        self._input = stream
        self._key_selector = key_selector
        self._awakeables = awakeables
        self._output: DataStream | None = None
        self._dead_letters: DataStream | None = None
        self._emits_dead_letters = False
        self._name = "agent"

    def apply(self, agent: Agent, *, uid: str | None = None) -> AgentBuilder:
        """Add the agent to the job. `uid` names it in state and log; by default its class does."""
        if self._output is not None:
            raise ConfigurationError("one input takes one agent: call from_datastream again for another one")
        _check_agent(agent)
        ResourceRegistry.of(agent, self._environment.resources).check()
        own_actions = {spec.name for spec in collect_actions(agent)}
        uid = type(agent).__name__ if uid is None else uid
        j_env = self._environment._j_env
        config = self._environment._flink_config()
        requirements.refuse_duplicate_uid(j_env, uid)
        for stream in (self._input, self._awakeables):
            if stream is not None:
                requirements.refuse_batch(config, stream._j_data_stream.getTransformation())
        self._environment._prepare_job()
        options = _resolved(self._environment.get_config())
        self._environment._ship_secrets(options)
        extra = tuple(spec for spec in builtin_actions() if spec.name not in own_actions)
        self._emits_dead_letters = _emits_dead_letters(options, collect_actions(agent))
        self._output = self._add(agent, uid, options, extra)
        self._environment._builders.append(self)
        return self

    def _add(
        self, agent: Agent, uid: str, options: AgentConfiguration, extra_actions: tuple[ActionSpec, ...]
    ) -> DataStream:
        plan_id = uuid.uuid4().hex
        main_classes = _classes_of_main()
        plan, data = make_plan(
            AgentPlan(
                agent,
                uid,
                plan_id,
                dict(options),
                dict(self._environment.resources),
                extra_actions=extra_actions,
            ),
            main_classes,
        )
        names = tuple(name for name, cls in plan.classes.items() if main_classes.get(name) is cls)
        self._name = uid
        rows = self._rows(plan_id, plan.classes, names if self._environment._is_local else ())
        j_stream = _java_entry().apply(
            rows,
            uid,
            uid,
            bytearray(data),
            options.get(AgentOptions.MAX_IN_FLIGHT_RUNS),
            round(options.get(AgentOptions.CLOSE_TIMEOUT).total_seconds() * 1000),
            self._emits_dead_letters,
            OPERATOR_MODULE,
        )
        j_stream.setMaxParallelism(requirements.max_parallelism(self._environment._j_env))
        return outputs.pickled(j_stream)

    def _rows(self, plan_id: str, classes: Mapping[str, type], main_names: tuple[str, ...]) -> Any:
        """The Java stream of the inputs, with the resolutions of awakeables among them."""
        name = f"{self._name}: key"
        shipped = (plan_id, classes, main_names)
        if self._awakeables is None:
            return inputs.encode(self._input, self._key_selector, name, *shipped)._j_data_stream
        rows = inputs.encode(self._input, self._key_selector, name, *shipped, more_fields=1)
        name = f"{self._name}: awakeables"
        resolutions = awakeables.encode(self._awakeables, name, *shipped)
        return _java_entry().withAwakeables(
            rows._j_data_stream, resolutions._j_data_stream, f"{name} without event time"
        )

    def to_datastream(self, output_type: TypeInformation | type | None = None) -> DataStream:
        """The outputs: pickled Python objects, or elements of `output_type`.

        Dicts, dataclasses, pydantic models and rows become rows by field name.
        """
        stream = self._applied()
        if output_type is None:
            return stream
        return outputs.typed(stream, type_info(output_type), f"{self._name}: output")

    def to_table(
        self, schema: Schema | None = None, output_type: TypeInformation | type | None = None
    ) -> Table:
        """The outputs as a table; a schema or an output type suffices."""
        stream = self._applied()
        t_env = self._environment._table_environment()
        rows = outputs.typed(stream, tables.row_type(schema, output_type, t_env), f"{self._name}: output")
        return t_env.from_data_stream(rows) if schema is None else t_env.from_data_stream(rows, schema)

    def dead_letters(self) -> DataStream:
        """The `DeadLetter`s of actions that failed under `dead-letter`, exactly once as the outputs are.

        Where `dead-letter` is chosen they must be read: a job in which nobody does fails when it is submitted,
        and one whose stream of dead letters leads nowhere when its tasks open, before they take any input.
        """
        outputs_of_agent = self._applied()
        if self._dead_letters is None:
            if not self._emits_dead_letters:
                logger.warning(
                    "agent %s: dead_letters() will be empty, for no action fails by dead-letter: set "
                    "agents.action-failure, or on_failure of an action",
                    self._name,
                )
            self._dead_letters = outputs.dead_letters(outputs_of_agent)
        return self._dead_letters

    def _check(self) -> None:
        """What a job must have before it is submitted. Keeps K14; Flink's own `execute` has a check in Java."""
        if self._emits_dead_letters and self._dead_letters is None:
            raise ConfigurationError(
                f"agent {self._name} emits dead letters (agents.action-failure or on_failure is dead-letter) and "
                "nothing reads them: call dead_letters() of the builder and give that stream a sink"
            )

    def to_list(self) -> NoReturn:
        """flink-agents' local results; `LocalRunner` has them here."""
        raise ConfigurationError(
            "to_list() is for local runs of flink-agents: use `LocalRunner.outputs` of "
            "flink_agents_durable.testing, or to_datastream().execute_and_collect()"
        )

    def _applied(self) -> DataStream:
        if self._output is None:
            raise ConfigurationError("no agent yet: call apply(agent) first")
        return self._output


def _emits_dead_letters(options: AgentConfiguration, actions: list[ActionSpec]) -> bool:
    policies = {spec.on_failure for spec in actions}
    return "dead-letter" in policies or options.get(AgentOptions.ACTION_FAILURE) == "dead-letter"


def _check_agent(agent: Any) -> None:
    if isinstance(agent, str):
        unsupported("load_yaml")
    if isinstance(agent, type) and issubclass(agent, Agent):
        raise ConfigurationError(f"apply takes an agent, not its class: apply({agent.__name__}())")
    if not isinstance(agent, Agent):
        raise ConfigurationError(f"apply takes an Agent, not a {type(agent).__name__}")


def _resolved(config: AgentConfiguration) -> AgentConfiguration:
    """The options as the tasks need them: a task's working directory is not this program's."""
    options = config.copy()
    check_store(options)
    for option in (AgentOptions.STORE_SQLITE_PATH, AgentOptions.STORE_SIGNING_KEY_FILE):
        path = options.get(option)
        if path is not None:
            options.set(option, os.path.abspath(path))
    return options


def _classes_of_main() -> dict[str, type]:
    """Classes of the submitted script, whose objects may be inputs though no action mentions them."""
    main = vars(sys.modules["__main__"])
    own = {cls for cls in main.values() if isinstance(cls, type) and cls.__module__ == "__main__"}
    return {cls.__qualname__: cls for cls in own if main.get(cls.__qualname__) is cls and _travels(cls)}


def _travels(cls: type) -> bool:
    try:
        return len(cloudpickle.dumps(cls)) <= _LARGEST_CLASS_BYTES
    except Exception:
        return False


def _java_entry() -> Any:
    entry = get_gateway().jvm.org.flinkagents.durable.DurableAgents
    if not hasattr(entry, "apply"):
        raise ConfigurationError(f"Flink's JVM did not load the Java operator from {bridge_jar()}")
    return entry
