"""The agents and jobs of tools/bench: each runs one PyFlink job in one subtask and reports what it measured."""

from __future__ import annotations

import asyncio
import json
import sys
import tempfile
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from pyflink.common import Configuration, Types
from pyflink.datastream import StreamExecutionEnvironment
from pyflink.java_gateway import get_gateway

from flink_agents_durable import Agent, AgentsExecutionEnvironment, InputEvent, OutputEvent, action


@dataclass(frozen=True)
class Load:
    """One job: so many inputs over so many keys, and what each input does."""

    inputs: int
    keys: int
    calls: int = 0
    kind: str = "async"  # or sync, wait, wait-plain, idle, kilobyte
    seconds: float = 0.0
    store: str = "none"
    bootstrap: str = ""  # of the broker or server, for the stores kafka and fluss
    key_groups: int = 128  # the max parallelism: partitions or buckets of these stores


@dataclass
class Measured:
    """From the first input's begin to the last one's end, in the process of the TaskManager."""

    seconds: float
    idle_cpu: float = 0.0
    log_bytes: int = 0


async def nothing(number: int) -> int:
    return number


def nothing_plain(number: int) -> int:
    return number


async def kilobyte(number: int) -> bytes:
    return b"x" * 1000


async def wait(number: int, seconds: float) -> int:
    await asyncio.sleep(seconds)
    return number


def wait_plain(number: int, seconds: float) -> int:
    time.sleep(seconds)
    return number


async def watch(seconds: float) -> float:
    """CPU seconds of the whole process, Flink's threads included, while it waits; after a second to settle."""
    await asyncio.sleep(1.0)
    begin = time.process_time()
    await asyncio.sleep(seconds - 1.0)
    return time.process_time() - begin


class Clock:
    """Notes in a file when the last input was done. One per subtask; `self` of an agent is shared by all keys."""

    def __init__(self, total: int, file: str) -> None:
        self.left, self.file, self.first, self.idle_cpu = total, file, 0.0, 0.0

    def begin(self) -> None:
        if not self.first:
            self.first = time.monotonic()

    def end(self) -> None:
        self.left -= 1
        if self.left == 0:
            spent = {"seconds": time.monotonic() - self.first, "idle_cpu": self.idle_cpu}
            Path(self.file).write_text(json.dumps(spent))


class BenchAgent(Agent):
    """Makes the calls of a load."""

    def __init__(self, load: Load, file: str) -> None:
        self.load = load
        self.clock = Clock(load.inputs, file)

    @action(InputEvent)
    async def work(self, event: Any, ctx: Any) -> None:
        load, number = self.load, event.input
        self.clock.begin()
        if load.kind == "async":
            for place in range(load.calls):
                await ctx.durable_execute_async(nothing, place)
        elif load.kind == "sync":
            for place in range(load.calls):
                ctx.durable_execute(nothing_plain, place)
        elif load.kind == "kilobyte":
            for place in range(load.calls):
                await ctx.durable_execute_async(kilobyte, place)
        elif load.kind == "idle" and number == 0:
            self.clock.idle_cpu = await ctx.durable_execute_async(watch, load.seconds)
        elif load.kind in ("wait", "idle"):
            await ctx.durable_execute_async(wait, number, load.seconds)
        elif load.kind == "wait-plain":
            await ctx.durable_execute_async(wait_plain, number, load.seconds)
        ctx.send_event(OutputEvent(output=number))
        self.clock.end()


def run(load: Load) -> Measured:
    """Run the job of a load on a MiniCluster in this process."""
    folder = tempfile.mkdtemp(prefix="flink-agents-durable-bench-")
    result = Path(folder) / "result.json"
    config = Configuration()
    config.set_string("agents.store.type", load.store)
    config.set_string("agents.store.sqlite.path", folder)
    if load.store == "kafka":
        config.set_string("agents.store.kafka.bootstrap-servers", load.bootstrap)
        config.set_string("agents.store.kafka.topic", Path(folder).name)
    elif load.store == "fluss":
        config.set_string("agents.store.fluss.bootstrap-servers", load.bootstrap)
        config.set_string("agents.store.fluss.table", Path(folder).name)
        config.set_string("agents.store.fluss.replication-factor", "1")
    env = StreamExecutionEnvironment.get_execution_environment(config)
    env.set_parallelism(1)
    env.set_max_parallelism(load.key_groups)
    agents = AgentsExecutionEnvironment.get_execution_environment(env)
    source = env.from_collection(list(range(load.inputs)), Types.LONG())
    keys = load.keys
    stream = agents.from_datastream(source, key_selector=lambda number: number % keys)
    output = stream.apply(BenchAgent(load, str(result))).to_datastream()
    sink = get_gateway().jvm.org.apache.flink.streaming.api.functions.sink.v2.DiscardingSink()
    output._j_data_stream.sinkTo(sink)
    agents.execute("benchmark")
    measured = Measured(**json.loads(result.read_text()))
    measured.log_bytes = sum(file.stat().st_size for file in Path(folder).glob("*.db*"))
    return measured


if __name__ == "__main__":
    print(json.dumps(asdict(run(Load(**json.loads(sys.argv[1]))))))
