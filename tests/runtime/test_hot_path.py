"""The hot path stays short: what a durable call without options costs the task thread, counted instead of timed."""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import FrameType
from typing import Any

from flink_agents_durable.api.agent import Agent
from flink_agents_durable.api.events import InputEvent
from tests.runtime.fake_flink import FakeFlink, plan_of
from tests.runtime.harness import eventually

KEYS = 50
MOST_CALLS = 29
"""Python functions that the task thread enters for each durable call. A feature that costs all calls something,
and not only those that use it, shows here, where a timing would drown in the noise of the machine."""


async def nothing(number: int) -> int:
    return number


async def work(event: Any, ctx: Any) -> None:
    for place in range(4):
        await ctx.durable_execute_async(nothing, place)


def test_a_call_without_options_enters_few_python_functions() -> None:
    flink = FakeFlink(plan_of(Agent().add_action("act", [InputEvent], work)))
    try:
        flink.rt._executor.pause()
        for key in range(KEYS):
            flink.process(key, key)
        flink.mail()  # starts what still lingers
        _await_outcomes(flink)
        flink.mail()  # fills caches
        _await_outcomes(flink)
        entered = _count_entered(flink.mail)
        flink.rt._executor.resume()
        flink.run_until_idle()
    finally:
        flink.close()
    assert KEYS * 10 < entered <= KEYS * MOST_CALLS, f"{entered / KEYS:.1f} Python functions for each call"


def _await_outcomes(flink: FakeFlink) -> None:
    """One of each key. The next drain takes all at once, and asks for as many calls, which do not run yet."""
    executor = flink.rt._executor
    executor.resume()
    eventually(lambda: executor.completed == KEYS)
    executor.pause()


def _count_entered(act: Callable[[], object]) -> int:
    entered = 0

    def count(frame: FrameType, event: str, argument: Any) -> None:
        nonlocal entered
        entered += event == "call"

    before = sys.getprofile()
    sys.setprofile(count)  # this thread only
    try:
        act()
    finally:
        sys.setprofile(before)
    return entered
