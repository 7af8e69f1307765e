"""What a job must be like is set, or refused with the remedy, at `apply()`."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyflink.common import Duration, WatermarkStrategy
from pyflink.datastream import RuntimeExecutionMode
from pyflink.datastream.connectors.file_system import FileSource, StreamFormat
from pyflink.util.java_utils import get_j_env_configuration

from flink_agents_durable import (
    Agent,
    AgentOptions,
    AgentsExecutionEnvironment,
    ResourceDescriptor,
    ResourceType,
)
from flink_agents_durable.api.errors import ConfigurationError
from flink_agents_durable.flink.requirements import UNALIGNED
from tests.flink.jobs import Echo, Pass, environment


def configuration(env: Any) -> dict[str, str]:
    return dict(get_j_env_configuration(env._j_stream_execution_environment).toMap())


def apply(env: Any, agents: AgentsExecutionEnvironment, agent: Any = None, **arguments: Any) -> Any:
    stream = env.from_collection([1])
    return agents.from_datastream(stream, key_selector=lambda v: v).apply(agent or Pass(), **arguments)


def test_k1_unaligned_checkpoints_are_turned_on() -> None:
    env, agents = environment()
    env.enable_checkpointing(1000)
    apply(env, agents)
    assert configuration(env)[UNALIGNED] == "true"
    assert env.get_checkpoint_config().is_unaligned_checkpoints_enabled()


@pytest.mark.parametrize("by_code", [False, True])
def test_k1_unless_they_were_set(by_code: bool) -> None:
    env, agents = environment({} if by_code else {UNALIGNED: "false"})
    env.enable_checkpointing(1000)
    if by_code:
        env.get_checkpoint_config().enable_unaligned_checkpoints(False)
    apply(env, agents)
    assert not env.get_checkpoint_config().is_unaligned_checkpoints_enabled()


@pytest.mark.parametrize("mode", [RuntimeExecutionMode.BATCH, RuntimeExecutionMode.AUTOMATIC])
def test_k8_batch_is_refused_also_when_automatic_means_it(mode: RuntimeExecutionMode) -> None:
    env, agents = environment()
    env.set_runtime_mode(mode)
    with pytest.raises(ConfigurationError, match=r"BATCH.*STREAMING"):
        apply(env, agents)


def test_k8_automatic_with_an_unbounded_source_is_streaming(tmp_path: Path) -> None:
    env, agents = environment()
    env.set_runtime_mode(RuntimeExecutionMode.AUTOMATIC)
    files = FileSource.for_record_stream_format(StreamFormat.text_line_format(), tmp_path.as_uri())
    source = files.monitor_continuously(Duration.of_seconds(1)).build()
    stream = env.from_source(source, WatermarkStrategy.no_watermarks(), "files")
    agents.from_datastream(stream, key_selector=lambda line: line).apply(Pass())


def test_two_agents_need_two_uids() -> None:
    env, agents = environment()
    apply(env, agents)
    with pytest.raises(ConfigurationError, match=r"uid 'Pass'.*apply\(agent, uid="):
        apply(env, agents)
    other = AgentsExecutionEnvironment.get_execution_environment(env)
    with pytest.raises(ConfigurationError, match="uid 'Pass'"):
        apply(env, other)
    apply(env, agents, uid="second")


@pytest.mark.parametrize(("own", "parallelism", "expected"), [(None, 2, 128), (None, 200, 256), (64, 2, 64)])
def test_the_max_parallelism_is_explicit(own: int | None, parallelism: int, expected: int) -> None:
    env, agents = environment(parallelism=parallelism)
    if own is not None:
        env.set_max_parallelism(own)
    stream = apply(env, agents).to_datastream()
    assert stream._j_data_stream.getTransformation().getMaxParallelism() == expected


def lost_model() -> Agent:
    """Its model names a connection that nobody has added."""
    descriptor = ResourceDescriptor(clazz="no.such.Model", connection="x")
    return Echo().add_resource("m", ResourceType.CHAT_MODEL, descriptor)


@pytest.mark.parametrize(
    ("use", "problem"),
    [
        (lambda env, agents: apply(env, agents, Echo), r"apply\(Echo\(\)\)"),
        (lambda env, agents: apply(env, agents, "agent.yaml"), "not supported yet"),
        (lambda env, agents: apply(env, agents, Agent()), "no actions"),
        (lambda env, agents: apply(env, agents, uid=""), "uid"),
        (lambda env, agents: apply(env, agents).apply(Echo()), "one input takes one agent"),
        (lambda env, agents: apply(env, agents).to_list(), "LocalRunner"),
        (lambda env, agents: apply(env, agents, lost_model()), "chat model 'm': there is no .* named 'x'"),
        (lambda env, agents: agents.from_list([1]), "LocalRunner"),
        (lambda env, agents: agents.from_datastream([1]), "takes a DataStream"),
        (
            lambda env, agents: agents.from_datastream(env.from_collection([1]), "user").apply(Echo()),
            "key_selector",
        ),
        (
            lambda env, agents: agents.from_datastream(env.from_collection([1]), awakeables=[1]),
            "awakeables= takes a DataStream",
        ),
        (lambda env, agents: agents.from_datastream(env.from_collection([1])).to_datastream(), "apply"),
        (lambda env, agents: agents.from_table("table", lambda row: row), "takes a Table"),
        (lambda env, agents: AgentsExecutionEnvironment.get_execution_environment(None), "LocalRunner"),
    ],
)
def test_what_cannot_work_is_named(use: Callable[[Any, Any], Any], problem: str) -> None:
    env, agents = environment()
    with pytest.raises(ConfigurationError, match=problem):
        use(env, agents)


def test_options_come_from_flink_and_from_code() -> None:
    _, agents = environment({"agents.call.workers": "3", "agents.close-timeout": "2 s"})
    assert agents.get_config().get(AgentOptions.CALL_WORKERS) == 3
    agents.get_config().set(AgentOptions.CALL_WORKERS, 4)
    assert agents.get_config().get(AgentOptions.CALL_WORKERS) == 4
    with pytest.raises(ConfigurationError, match=r"agents\.call\.workers"):
        environment({"agents.call.worker": "3"})


def test_the_folder_of_the_store_is_this_programs_not_the_tasks() -> None:
    from flink_agents_durable.flink.builder import _resolved

    _, agents = environment()
    assert _resolved(agents.get_config()).get(AgentOptions.STORE_SQLITE_PATH) == os.path.abspath(
        ".flink-agents-durable"
    )


def test_a_resource_is_defined_once() -> None:
    _, agents = environment()
    assert agents.add_resource("p", ResourceType.PROMPT, "text") is agents
    with pytest.raises(ConfigurationError, match="defined twice"):
        agents.add_resource("p", ResourceType.PROMPT, "text")
