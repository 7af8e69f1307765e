"""One attempt of a job in a process of its own: `python other_process.py FOLDER ATTEMPT`.

The first attempt kills itself with no clean-up when the batch is half done; the second one finishes it. Both
print the calls that they made; they run under different hash seeds.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
from pathlib import Path
from typing import Any

from flink_agents_durable import Agent, RunnerContext
from flink_agents_durable.testing import LocalRunner
from tests.contracts.functions import ask
from tests.contracts.kit import WatchedStore, agent_of, out, until

SLOW = "slow"


async def with_a_set(what: frozenset[str] | set[str]) -> Any:
    """A call whose argument has no order."""
    return sorted(what)


async def act(event: Any, ctx: RunnerContext) -> None:
    words = {"one", "two", "three", "four", "five", event.input}
    out(ctx, await ctx.durable_execute_async(with_a_set, words))
    outcomes = await ctx.gather(
        ctx.durable_execute_async(ask, SLOW),
        ctx.durable_execute_async(ask, "medium"),
        ctx.durable_execute_async(ask, "fast"),
    )
    out(ctx, [outcome.value for outcome in outcomes])
    order = []
    for next_one in asyncio.as_completed(
        [ctx.durable_execute_async(ask, f"c{number}") for number in range(3)]
    ):
        order.append(await next_one)
    tasks = [asyncio.create_task(ctx.durable_execute_async(ask, f"w{number}")) for number in range(30)]
    done, _ = await asyncio.wait(tasks)
    out(ctx, [task.result() for task in done])  # in the order of a set
    futures = [asyncio.get_running_loop().create_future() for _ in range(30)]
    for number, future in enumerate(futures):
        future.set_result(number)
    done, _ = await asyncio.wait(futures)
    out(ctx, [future.result() for future in done])
    out(ctx, [len(order), ctx.run_id, str(ctx.uuid4()), ctx.random().random()])


def agent() -> Agent:
    return agent_of(act)


def main(folder: str, attempt: str) -> None:
    """Run one attempt and print what it did."""
    killing = asyncio.Event()

    async def ask_until_the_end(what: str) -> str:
        if what == SLOW and attempt == "1":
            await killing.wait()  # for ever
        return f"{what}!"

    store = WatchedStore(Path(folder))
    runner = LocalRunner.restore(agent(), None, store=store, fakes={ask: ask_until_the_end})
    runner.process("k", "six")
    if attempt == "1":
        until(runner, lambda: runner.stats.calls_executed == 3 and store.settled)
    else:
        runner.run_until_idle()
    calls = [list(map(str, map(_sorted, call.args))) for call in runner.calls]
    print(json.dumps({"calls": calls, "outputs": runner.outputs, "mismatches": runner.stats.mismatches}))
    sys.stdout.flush()
    os._exit(9 if attempt == "1" else 0)


def _sorted(value: Any) -> Any:
    return sorted(value) if isinstance(value, (set, frozenset)) else value


if __name__ == "__main__":
    main(*sys.argv[1:])
