"""Dead letters of a job: a stream beside the outputs, which somebody has to read (K14)."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from py4j.protocol import Py4JJavaError
from pyflink.common import Configuration, Types, WatermarkStrategy
from pyflink.common.serialization import Encoder
from pyflink.common.watermark_strategy import TimestampAssigner
from pyflink.datastream import DataStream, ProcessFunction, StreamExecutionEnvironment
from pyflink.datastream.connectors.file_system import FileSink, RollingPolicy

from flink_agents_durable import (
    Agent,
    AgentsExecutionEnvironment,
    ConfigurationError,
    DeadLetter,
    Event,
    InputEvent,
    OutputEvent,
    RunnerContext,
    action,
)
from tests.flink.failover_job import OPTIONS, ask, is_first, note
from tests.flink.jobs import Pass, collect, environment

CHOSEN = {"agents.action-failure": "dead-letter"}


def refuse(value: int) -> None:
    raise ValueError(f"{value} is refused")


class Picky(Agent):
    """Takes even numbers only."""

    @action(InputEvent)
    async def pick(self, event: Event, ctx: RunnerContext) -> None:
        value = InputEvent.from_event(event).input
        if value % 2:
            await ctx.durable_execute_async(refuse, value)
        ctx.send_event(OutputEvent(output=value))


class Stamps(TimestampAssigner):  # type: ignore[misc]
    def extract_timestamp(self, value: Any, record_timestamp: int) -> int:
        return 1_000 + int(value)


class WithTimestamp(ProcessFunction):  # type: ignore[misc]
    def process_element(self, value: Any, ctx: Any) -> Any:
        yield value, ctx.timestamp()


def applied(env: StreamExecutionEnvironment, agents: AgentsExecutionEnvironment, agent: Agent) -> Any:
    stream = env.from_collection([1, 2, 3, 4]).assign_timestamps_and_watermarks(
        WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(Stamps())
    )
    return agents.from_datastream(stream, key_selector=lambda value: value % 2).apply(agent)


def test_letters_are_a_stream_beside_the_outputs() -> None:
    """S8: with the timestamps of their inputs; asked for twice it is the same stream."""
    env, agents = environment(CHOSEN)
    builder = applied(env, agents, Picky())
    letters = builder.dead_letters()
    assert builder.dead_letters() is letters
    found = collect(letters.union(builder.to_datastream()).process(WithTimestamp()))
    dead = {item.input: (item, stamp) for item, stamp in found if isinstance(item, DeadLetter)}
    assert sorted(item for item, _ in found if not isinstance(item, DeadLetter)) == [2, 4]
    assert sorted(dead) == [1, 3]
    letter, stamp = dead[3]
    assert stamp == 1_003
    assert (letter.key, letter.action) == (1, "pick")
    assert letter.error == "builtins.ValueError: 3 is refused"
    assert "refuse" in letter.traceback


def test_k14_nobody_reads_them() -> None:
    """However the job is submitted; also when an action alone has chosen it."""

    class Chosen(Agent):
        @action(InputEvent, on_failure="dead-letter")
        def act(self, event: Event, ctx: RunnerContext) -> None: ...

    env, agents = environment()
    applied(env, agents, Chosen()).to_datastream().print()
    with pytest.raises(ConfigurationError, match=r"agent Chosen emits dead letters.*dead_letters\(\)"):
        agents.execute()
    with pytest.raises(Py4JJavaError, match=r"Agent Chosen emits dead letters.*dead_letters\(\)"):
        env.execute()
    with pytest.raises(Py4JJavaError, match="Agent Chosen emits dead letters"):
        env.execute_async()


def test_k14_their_stream_leads_nowhere() -> None:
    """Then the task fails when it opens, before it takes an input."""
    env, agents = environment({**CHOSEN, "restart-strategy.type": "none"})
    builder = applied(env, agents, Picky())
    builder.dead_letters()
    with pytest.raises(Py4JJavaError) as caught:
        collect(builder.to_datastream())
    assert "Agent Picky emits dead letters" in causes(caught.value)


def causes(error: Py4JJavaError) -> str:
    text, cause = "", error.java_exception
    while cause is not None:
        text += f"{cause.getMessage()}\n"
        cause = cause.getCause()
    return text


def test_nobody_needs_to_read_them_where_nobody_has_chosen_them(caplog: pytest.LogCaptureFixture) -> None:
    env, agents = environment()
    builder = applied(env, agents, Pass())
    letters: DataStream = builder.dead_letters()
    assert "dead_letters() will be empty" in caplog.text
    assert sorted(collect(builder.to_datastream())) == [1, 2, 3, 4]
    letters.print()


class Failing(Agent):
    """Every second input is given up after a call; `last` fails the task once it is held no more."""

    def __init__(self, folder: str) -> None:
        self.folder = folder

    @action(InputEvent, on_failure="dead-letter")
    async def act(self, event: Event, ctx: RunnerContext) -> None:
        label = InputEvent.from_event(event).input
        await ctx.durable_execute_async(ask, self.folder, label, "fault" if label == "last" else "")
        if label.startswith("bad"):
            raise ValueError(label)
        ctx.send_event(OutputEvent(output=label))


class Shown:
    """Letters as lines; the letter or output named `last` fails the sink once."""

    def __init__(self, folder: str, name: str) -> None:
        self.folder, self.name = folder, name

    def __call__(self, value: Any) -> str:
        if value == "last" and is_first(self.folder, "failed"):
            raise RuntimeError("failed on purpose")
        shown = [value.input, value.error] if isinstance(value, DeadLetter) else [value]
        note(self.folder, self.name, json.dumps(shown))
        return json.dumps(shown)


@pytest.mark.parametrize("store", ["sqlite", "none"])
def test_p15_letters_are_there_once_after_a_failover(tmp_path: Path, store: str) -> None:
    """The task fails after letters were emitted: those before a checkpoint stay, the others come again."""
    from tests.flink.test_failover import Job, running

    job = Job(tmp_path)
    labels = ["good 1", "bad 1", "good 2", "bad 2", "bad 3", "last"]
    config = Configuration()
    settings = {
        **OPTIONS,
        "agents.store.type": store,
        "agents.store.sqlite.path": f"{tmp_path}/store",
        "execution.checkpointing.interval": "300 ms",
        "execution.checkpointing.dir": f"file://{tmp_path}/checkpoints",
        "io.tmp.dirs": str(tmp_path),
    }
    for key, value in settings.items():
        config.set_string(key, value)
    env = StreamExecutionEnvironment.get_execution_environment(config)
    env.set_parallelism(1)
    agents = AgentsExecutionEnvironment.get_execution_environment(env)
    builder = agents.from_datastream(env.from_collection(labels), key_selector=lambda label: label)
    builder.apply(Failing(str(tmp_path)))
    for name, stream in (("outputs", builder.to_datastream()), ("letters", builder.dead_letters())):
        sink = (
            FileSink.for_row_format(f"file://{tmp_path}/sink-{name}", Encoder.simple_string_encoder())
            .with_rolling_policy(RollingPolicy.on_checkpoint_rolling_policy())
            .build()
        )
        stream.map(Shown(str(tmp_path), name), Types.STRING()).sink_to(sink)
    with running(job, env.execute_async("dead letters")):
        job.await_calls(labels)
        job.eventually(lambda: len(set(job.lines("letters"))) == 3, "the letters")
        job.await_checkpoint()
        job.await_checkpoint()  # on a busy machine the source, which keeps no position, ends after the first
        job.open("fault")
    assert committed(tmp_path / "sink-outputs") == [["good 1"], ["good 2"], ["last"]]
    assert committed(tmp_path / "sink-letters") == [
        [f"bad {number}", f"builtins.ValueError: bad {number}"] for number in (1, 2, 3)
    ]
    once = Counter(dict.fromkeys(labels, 1))
    if store == "none":
        once["last"] = job.calls()["last"]  # it came after the checkpoint
    assert job.calls() == once


def committed(folder: Path) -> list[Any]:
    """What a transactional reader sees."""
    files = [path for path in folder.glob("*/part-*") if not path.name.startswith(".")]
    return sorted(json.loads(line) for path in files for line in path.read_text().splitlines())
