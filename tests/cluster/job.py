"""The job of the cluster tests: calls of every kind, counted in a ledger, into a transactional sink.

As a program it reads the fields of a `Spec` as JSON from each line of its standard input, submits the job, and
answers with the id of the job. The input of a job is a folder that is watched: tests add files.
"""

from __future__ import annotations

import asyncio
import dataclasses
import json
import os
import sys
import traceback
from functools import partial
from pathlib import Path
from typing import Any

from pyflink.common import Configuration, Duration, Types, WatermarkStrategy
from pyflink.common.serialization import Encoder
from pyflink.datastream import StreamExecutionEnvironment
from pyflink.datastream.connectors.file_system import FileSink, FileSource, RollingPolicy, StreamFormat

from flink_agents_durable import (
    Agent,
    AgentsExecutionEnvironment,
    Event,
    InputEvent,
    OutputEvent,
    RunnerContext,
    action,
)
from tests.cluster.ledger import note
from tests.cluster.trigger_points import pass_point, watch

CALL_SECONDS = 0.03
"""What a fast model or tool takes."""
PHASES = 5


@dataclasses.dataclass(frozen=True)
class Spec:
    folder: str
    name: str = "orders"
    parallelism: int = 2
    options: dict[str, str] = dataclasses.field(default_factory=dict)
    agent: str = "Order"
    """A class of this module."""
    relays: int = 0
    """So many agents before it, one behind the other."""


async def ask(folder: str, question: str, phase: int, name: str) -> str:
    pass_point("call-begins")
    note(folder, "starts", question, phase, name, os.getpid())
    await asyncio.sleep(CALL_SECONDS)
    pass_point("call-done")
    return answer_of(question, name)


def ask_plainly(folder: str, question: str, phase: int, name: str) -> str:
    note(folder, "starts", question, phase, name, os.getpid())
    return answer_of(question, name)


def pay(folder: str, question: str, phase: int, name: str) -> str:
    """An effect outside that must not be had twice."""
    note(folder, "starts", question, phase, name, os.getpid())
    note(folder, "effects", f"{question}: {name}")
    pass_point("effect-done")
    return answer_of(question, name)


def find_payment(folder: str, question: str, name: str) -> str:
    """The reconciler of `pay`: had it the effect? If not, now."""
    note(folder, "reconciled", question, name)
    effects = Path(folder, "effects")
    line = json.dumps([f"{question}: {name}"])
    if not effects.exists() or line not in effects.read_text().splitlines():
        note(folder, "effects", f"{question}: {name}")
    return answer_of(question, name)


def answer_of(question: str, name: str) -> str:
    return f"{name} of {question}"


NAMES = ["plain", "first", "paid", "left", "right", "paid too", "last"]
EFFECTS = ["paid", "paid too"]


class Order(Agent):
    """Five phases for each input, then an output and a change of memory."""

    def __init__(self, folder: str) -> None:
        self.folder = folder

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        watch(self.folder)

    @action(InputEvent)
    async def handle(self, event: Event, ctx: RunnerContext) -> None:
        question = InputEvent.from_event(event).input
        where = (self.folder, question)

        def paid(phase: int, name: str) -> Any:
            reconciler = partial(find_payment, *where, name)
            return ctx.durable_execute_async(pay, *where, phase, name, reconciler=reconciler)

        answers = [
            ctx.durable_execute(ask_plainly, *where, 0, "plain"),
            await ctx.durable_execute_async(ask, *where, 1, "first"),
            await paid(2, "paid"),
        ]
        batch = await ctx.gather(
            ctx.durable_execute_async(ask, *where, 3, "left"),
            ctx.durable_execute_async(ask_plainly, *where, 3, "right"),
            paid(3, "paid too"),
        )
        answers += [outcome.value for outcome in batch]
        answers.append(await ctx.durable_execute_async(ask, *where, 4, "last"))
        seen = [*ctx.short_term_memory.get("seen", []), question]
        ctx.short_term_memory.set("seen", seen)
        ctx.send_event(OutputEvent(output=json.dumps([question, seen, answers])))


class Steps(Agent):
    """Three calls, of which the last one waits for a file: what has changed meanwhile is found on replay."""

    def __init__(self, folder: str) -> None:
        self.folder = folder

    @action(InputEvent)
    async def handle(self, event: Event, ctx: RunnerContext) -> None:
        question = InputEvent.from_event(event).input
        answers = [
            await ctx.durable_execute_async(ask, self.folder, question, 0, "one"),
            await self.second(question, ctx),
            await ctx.durable_execute_async(ask_when_open, self.folder, question, 2, "three"),
        ]
        ctx.send_event(OutputEvent(output=json.dumps([question, answers])))

    async def second(self, question: str, ctx: RunnerContext) -> str:
        return await ctx.durable_execute_async(ask, self.folder, question, 1, "two")


async def ask_when_open(folder: str, question: str, phase: int, name: str) -> str:
    note(folder, "starts", question, phase, name, os.getpid())
    while not Path(folder, "open").exists():
        await asyncio.sleep(CALL_SECONDS)
    return answer_of(question, name)


async def ask_under_another_name(folder: str, question: str, phase: int, name: str) -> str:
    return await ask(folder, question, phase, name)


class RenamedCall(Steps):
    async def second(self, question: str, ctx: RunnerContext) -> str:
        return await ctx.durable_execute_async(ask_under_another_name, self.folder, question, 1, "two")


class AddedAction(Steps):
    @action(InputEvent)
    async def audit(self, event: Event, ctx: RunnerContext) -> None:
        question = InputEvent.from_event(event).input
        ctx.send_event(OutputEvent(output=json.dumps([question, "audited"])))


class OtherClass(Agent):
    """The same action in a class that has nothing in common with the one before."""

    __slots__ = ("place",)

    def __init__(self, folder: str) -> None:
        self.place = folder

    @action(InputEvent)
    async def handle(self, event: Event, ctx: RunnerContext) -> None:
        await Steps(self.place).handle(event, ctx)


class Relay(Agent):
    """One call, then the input goes on."""

    def __init__(self, folder: str) -> None:
        self.folder = folder

    @action(InputEvent)
    async def hand_on(self, event: Event, ctx: RunnerContext) -> None:
        question = InputEvent.from_event(event).input
        ctx.send_event(OutputEvent(output=await ctx.durable_execute_async(same, question)))


async def same(question: str) -> str:
    return question


def key_of(question: str) -> str:
    return question.rsplit(" ", 1)[0]


def expected_outputs(questions: list[str]) -> list[list[object]]:
    """One output for each, in the order of its key, with the answers of all its calls."""
    outputs: list[list[object]] = []
    seen: dict[str, list[str]] = {}
    for question in questions:
        earlier = seen.setdefault(key_of(question), [])
        earlier.append(question)
        outputs.append([question, list(earlier), [answer_of(question, name) for name in NAMES]])
    return sorted(outputs)


def environment(spec: Spec) -> StreamExecutionEnvironment:
    config = Configuration()
    for key, value in spec.options.items():
        config.set_string(key, value)
    env = StreamExecutionEnvironment.get_execution_environment(config)
    env.set_parallelism(spec.parallelism)
    return env


def submit(spec: Spec) -> str:
    env = environment(spec)
    agents = AgentsExecutionEnvironment.get_execution_environment(env)
    source = (
        FileSource.for_record_stream_format(StreamFormat.text_line_format(), f"file://{spec.folder}/inputs")
        .monitor_continuously(Duration.of_millis(100))
        .build()
    )
    stream = env.from_source(source, WatermarkStrategy.no_watermarks(), "questions").uid("questions")
    stream.set_parallelism(1)
    agent: Agent = globals()[spec.agent](spec.folder)
    for number in range(spec.relays):
        relay = agents.from_datastream(stream, key_selector=key_of).apply(
            Relay(spec.folder), uid=f"relay {number}"
        )
        stream = relay.to_datastream(Types.STRING())
    keyed = agents.from_datastream(stream, key_selector=key_of)
    answers = keyed.apply(agent, uid="orders").to_datastream(Types.STRING())
    sink = (
        FileSink.for_row_format(f"file://{spec.folder}/sink", Encoder.simple_string_encoder())
        .with_rolling_policy(RollingPolicy.on_checkpoint_rolling_policy())
        .build()
    )
    answers.sink_to(sink).uid("sink")
    return str(env.execute_async(spec.name).get_job_id())


def main() -> None:
    for line in sys.stdin:
        try:
            answer = {"job": submit(Spec(**json.loads(line)))}
        except Exception:
            answer = {"error": traceback.format_exc()}
        print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    main()
