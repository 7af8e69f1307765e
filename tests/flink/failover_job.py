"""A job whose calls are counted, held and lost: tests fail it, cancel it, or kill the process that runs it.

Tests and tasks meet in a folder: calls leave a line there when they start, and wait for files there.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
import time
import urllib.request
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import httpx
from pyflink.common import Configuration, JobClient, Types, WatermarkStrategy
from pyflink.common.serialization import Encoder
from pyflink.datastream import MapFunction, StreamExecutionEnvironment
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

HELD_SECONDS = 120
"""After so long a held call goes on, so that a test that failed leaves nothing behind for ever."""

OPTIONS = {
    "python.execution-mode": "thread",
    "restart-strategy.type": "fixed-delay",
    "restart-strategy.fixed-delay.attempts": "3",
    "restart-strategy.fixed-delay.delay": "100 ms",
}


def note(folder: str, name: str, line: str) -> None:
    """One line more in a file: in one write, so that lines of several threads and processes stay whole."""
    file = os.open(os.path.join(folder, name), os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    try:
        os.write(file, f"{line}\n".encode())
    finally:
        os.close(file)


def is_open(folder: str, gate: str) -> bool:
    return not gate or os.path.exists(os.path.join(folder, f"gate-{gate}"))


def is_first(folder: str, name: str) -> bool:
    """Whether nobody has asked before, in whatever attempt."""
    try:
        os.close(os.open(os.path.join(folder, name), os.O_CREAT | os.O_EXCL))
    except FileExistsError:
        return False
    return True


async def ask(folder: str, label: str, gate: str = "") -> str:
    """What a model would be asked: counted, and answered once the gate is open."""
    note(folder, "calls", label)
    end = time.monotonic() + HELD_SECONDS
    while not is_open(folder, gate) and time.monotonic() < end:
        await asyncio.sleep(0.02)
    return f"answer to {label}"


def ask_plainly(folder: str, label: str, gate: str = "") -> str:
    """The same in a plain function, which keeps its thread."""
    note(folder, "calls", label)
    end = time.monotonic() + HELD_SECONDS
    while not is_open(folder, gate) and time.monotonic() < end:
        time.sleep(0.02)
    return f"answer to {label}"


class Conversation(Agent):
    """Calls of every kind for each input; the last ones are two branches that the gates hold."""

    def __init__(self, folder: str) -> None:
        self.folder = folder

    @action(InputEvent)
    async def answer(self, event: Event, ctx: RunnerContext) -> None:
        question = InputEvent.from_event(event).input
        if question.startswith("fault"):
            await self.fail(question, ctx)
            return
        answers = [ctx.durable_execute(ask_plainly, self.folder, f"{question}: plain")]
        for number in range(steps_of(question)):
            answers.append(await ctx.durable_execute_async(ask, self.folder, f"{question}: step {number}"))
        ctx.send_event(OutputEvent(output=[question, "begun"]))
        batch = [
            ctx.durable_execute_async(function, self.folder, f"{question}: batch {number}")
            for number, function in enumerate([ask, ask_plainly, ask])
        ]
        answers += [outcome.value for outcome in await ctx.gather(*batch)]
        for branch in await asyncio.gather(*[self.branch(f"{question}: {name}", ctx) for name in SIDES]):
            answers += branch
        seen = [*ctx.short_term_memory.get("seen", []), question]
        ctx.short_term_memory.set("seen", seen)
        ctx.send_event(OutputEvent(output=[question, "ended", seen, answers]))

    async def branch(self, label: str, ctx: RunnerContext) -> list[str]:
        return [
            await ctx.durable_execute_async(ask, self.folder, f"{label} {gate}", gate)
            for gate in ("first", "second")
        ]

    async def fail(self, question: str, ctx: RunnerContext) -> None:
        await ctx.durable_execute_async(ask, self.folder, question, "fault")
        if question == "fault in action" and is_first(self.folder, "failed"):
            raise RuntimeError("failed on purpose")
        ctx.send_event(OutputEvent(output=[question]))


class Stuck(Agent):
    """A call in a plain function that only its gate ends: on a worker, or with the task waiting for it.

    The second of a key's synchronous calls runs in its action's own thread (K5); the first is called "begin".
    """

    def __init__(self, folder: str) -> None:
        self.folder = folder

    @action(InputEvent)
    async def answer(self, event: Event, ctx: RunnerContext) -> None:
        question = InputEvent.from_event(event).input
        arguments = (self.folder, question, "second")
        if question.endswith("begin"):
            answer = ctx.durable_execute(ask_plainly, self.folder, question)
        elif question.startswith("sync"):
            answer = ctx.durable_execute(ask_plainly, *arguments)
        else:
            answer = await ctx.durable_execute_async(ask_plainly, *arguments)
        ctx.send_event(OutputEvent(output=answer))


def fetch(url: str) -> str:
    """A real request, on a worker."""
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    with opener.open(url, timeout=HELD_SECONDS) as response:
        return str(response.read().decode())


async def fetch_async(url: str) -> str:
    """A real request, on the loop of calls."""
    async with httpx.AsyncClient(trust_env=False, timeout=HELD_SECONDS) as client:
        return (await client.get(url)).text


class Fetching(Agent):
    """Inputs are the kind of the call and the address to ask."""

    def __init__(self, folder: str) -> None:
        self.folder = folder

    @action(InputEvent)
    async def answer(self, event: Event, ctx: RunnerContext) -> None:
        kind, url = InputEvent.from_event(event).input.split()
        if kind == "sync":
            answer = ctx.durable_execute(fetch, url)
        else:
            answer = await ctx.durable_execute_async(fetch if kind == "plain" else fetch_async, url)
        ctx.send_event(OutputEvent(output=answer))


SIDES = ("left", "right")


def steps_of(question: str) -> int:
    return 60 if question.startswith("long") else 2


def calls_of(question: str) -> dict[str, list[str]]:
    """The labels of an input's calls: those before the gates, those held at the first, and at the second."""
    if question.startswith("fault"):
        return {"before": [question], "first": [], "second": []}
    names = ["plain", *(f"step {n}" for n in range(steps_of(question))), *(f"batch {n}" for n in range(3))]
    return {
        "before": [f"{question}: {name}" for name in names],
        **{gate: [f"{question}: {side} {gate}" for side in SIDES] for gate in ("first", "second")},
    }


class Written(MapFunction):  # type: ignore[misc]
    """Outputs as lines. Each attempt has a file of its own: without checkpoints the last one counts."""

    def __init__(self, folder: str, name: str) -> None:
        self.folder, self.name = folder, name

    def open(self, context: Any) -> None:
        # Not by Flink's attempt number: PyFlink does not find it in thread mode.
        note(self.folder, f"{self.name}-attempts", "")
        attempts = Path(self.folder, f"{self.name}-attempts").read_text()
        self.name = f"{self.name}-{len(attempts)}"

    def map(self, value: Any) -> str:
        if value == ["fault in sink"] and is_first(self.folder, "failed"):
            raise RuntimeError("failed on purpose")
        line = json.dumps(value)
        note(self.folder, self.name, line)
        return line


def submit(
    folder: str,
    name: str,
    inputs: list[str],
    options: Mapping[str, str],
    agent: Callable[[str], Agent] = Conversation,
) -> JobClient:
    """Start the job: inputs from a file, keyed by their first word; outputs in `sink` once committed."""
    config = Configuration()
    settings = {
        **OPTIONS,
        "agents.store.sqlite.path": f"{folder}/store",
        "execution.checkpointing.dir": f"file://{folder}/checkpoints",
        "io.tmp.dirs": folder,
        **options,
    }
    for key, value in settings.items():
        config.set_string(key, value)
    Path(folder, "inputs").write_text("".join(f"{line}\n" for line in inputs))
    env = StreamExecutionEnvironment.get_execution_environment(config)
    env.set_parallelism(int(settings.get("parallelism.default", "2")))
    agents = AgentsExecutionEnvironment.get_execution_environment(env)
    source = FileSource.for_record_stream_format(
        StreamFormat.text_line_format(), f"file://{folder}/inputs"
    ).build()
    stream = env.from_source(source, WatermarkStrategy.no_watermarks(), "questions").set_parallelism(1)
    keyed = agents.from_datastream(stream, key_selector=lambda line: line.split()[0])
    answers = keyed.apply(agent(folder)).to_datastream()
    sink = (
        FileSink.for_row_format(f"file://{folder}/sink", Encoder.simple_string_encoder())
        .with_rolling_policy(RollingPolicy.on_checkpoint_rolling_policy())
        .build()
    )
    lines = answers.map(Written(folder, f"outputs-{name}"), Types.STRING()).set_parallelism(1)
    lines.sink_to(sink).set_parallelism(1)
    return env.execute_async(name)


def main(jobs: list[dict[str, Any]]) -> None:
    """Run jobs beside each other until they end, or until somebody kills this process."""
    for client in [submit(**job) for job in jobs]:
        client.get_job_execution_result().result()


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
