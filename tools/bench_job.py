"""Inputs per second of a whole job on this machine: source, key, agent, output, in one subtask.

.venv/bin/python tools/bench_job.py rate [--inputs 60000] [--calls 0] [--store none]
.venv/bin/python tools/bench_job.py waiting [--inputs 5000] [--seconds 0.5]
"""

from __future__ import annotations

import argparse
import asyncio
import json
import tempfile
import time
from pathlib import Path
from typing import Any

from pyflink.common import Configuration, Types
from pyflink.datastream import StreamExecutionEnvironment
from pyflink.java_gateway import get_gateway

from flink_agents_durable import Agent, AgentsExecutionEnvironment, InputEvent, OutputEvent, action


async def nothing(number: int) -> int:
    return number


async def wait(seconds: float) -> None:
    await asyncio.sleep(seconds)


class Clock:
    """Notes in a file when the first input came and the last one was done. One per subtask."""

    def __init__(self, total: int, file: str) -> None:
        self.left, self.file, self.first, self.cpu = total, file, 0.0, 0.0

    def begin(self) -> None:
        if not self.first:
            self.first, self.cpu = time.monotonic(), time.process_time()

    def end(self) -> None:
        self.left -= 1
        if self.left == 0:
            spent = [time.monotonic() - self.first, time.process_time() - self.cpu]
            Path(self.file).write_text(json.dumps(spent))


class BenchAgent(Agent):
    def __init__(self, clock: Clock, calls: int, seconds: float) -> None:
        self.clock, self.calls, self.seconds = clock, calls, seconds

    @action(InputEvent)
    async def work(self, event: Any, ctx: Any) -> None:
        self.clock.begin()
        for _ in range(self.calls):
            await ctx.durable_execute_async(nothing, event.input)
        if self.seconds:
            await ctx.durable_execute_async(wait, self.seconds)
        ctx.send_event(OutputEvent(output=event.input))
        self.clock.end()


def run(inputs: int, calls: int, seconds: float, store: str) -> tuple[float, float]:
    folder = tempfile.mkdtemp()
    result = Path(folder) / "result"
    config = Configuration()
    config.set_string("agents.store.type", store)
    config.set_string("agents.store.sqlite.path", folder)
    env = StreamExecutionEnvironment.get_execution_environment(config)
    env.set_parallelism(1)
    agents = AgentsExecutionEnvironment.get_execution_environment(env)
    source = env.from_collection(list(range(inputs)), Types.LONG())
    agent = BenchAgent(Clock(inputs, str(result)), calls, seconds)
    stream = agents.from_datastream(source, key_selector=lambda number: number % 5000).apply(agent)
    sink = get_gateway().jvm.org.apache.flink.streaming.api.functions.sink.v2.DiscardingSink()
    stream.to_datastream(Types.LONG())._j_data_stream.sinkTo(sink)
    agents.execute("benchmark")
    seconds_and_cpu: tuple[float, float] = tuple(json.loads(result.read_text()))
    return seconds_and_cpu


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("what", choices=["rate", "waiting"])
    parser.add_argument("--inputs", type=int)
    parser.add_argument("--calls", type=int, default=0)
    parser.add_argument("--seconds", type=float, default=0.5)
    parser.add_argument("--store", default="none")
    options = parser.parse_args()
    if options.what == "rate":
        inputs = options.inputs or 60_000
        spent, cpu = run(inputs, options.calls, 0, options.store)
        rate, each = inputs / spent, 1e6 * cpu / inputs
        print(f"{rate:,.0f} inputs/s with {options.calls} calls each ({spent:.2f} s, CPU {each:.0f} us each)")
    else:
        inputs = options.inputs or 5_000
        spent, cpu = run(inputs, 0, options.seconds, options.store)
        print(f"{inputs} inputs that wait {options.seconds} s each: {spent:.2f} s, {cpu:.2f} s of CPU")


if __name__ == "__main__":
    main()
