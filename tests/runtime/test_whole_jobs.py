"""What a subtask promises over its whole life: bounded memory, the drain, real requests under way, its end."""

from __future__ import annotations

import pickle
import threading
import urllib.request
from collections import Counter
from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from flink_agents_durable import Agent, InputEvent, OutputEvent, RunnerContext, lazy
from flink_agents_durable.engine.keys import encode_key
from flink_agents_durable.engine.ports import QUEUED
from tests.runtime.fake_flink import DEADLINE, FakeFlink, plan_of
from tests.runtime.harness import eventually
from tests.runtime.slow_server import SlowServer


@pytest.fixture
def server() -> Iterator[SlowServer]:
    server = SlowServer()
    yield server
    server.close()


def fetch(url: str) -> str:
    """On a worker."""
    with urllib.request.build_opener(urllib.request.ProxyHandler({})).open(url, timeout=DEADLINE) as response:
        return str(response.read().decode())


async def fetch_async(url: str) -> str:
    """On the loop of calls."""
    async with httpx.AsyncClient(trust_env=False, timeout=DEADLINE) as client:
        return (await client.get(url)).text


async def fetching(event: Any, ctx: RunnerContext) -> None:
    outcomes = await ctx.gather(
        ctx.durable_execute_async(fetch, f"{event.input}/plain"),
        ctx.durable_execute_async(fetch_async, f"{event.input}/async"),
    )
    for outcome in outcomes:
        ctx.send_event(OutputEvent(output=outcome.value))


@pytest.mark.parametrize("store", ["none", "sqlite"])
def test_case_10_i4_requests_under_way_when_the_job_is_cancelled_are_made_again(
    server: SlowServer, store: str, tmp_path: Any
) -> None:
    """Nothing of them is recorded, neither at the cancel nor when the server answers the old attempt."""
    options = {"store__type": store, "store__sqlite__path": str(tmp_path), "close_timeout": 0.2}
    plan = plan_of(Agent().add_action("act", [InputEvent], fetching), **options)
    first = FakeFlink(plan)
    first.process("k", server.url)
    first.run_until_seen(lambda: server.requests.keys() == {"/plain", "/async"}, "both requests")
    snapshot = first.snapshot()
    assert not first.close(), "the plain function is still inside"
    second = FakeFlink(plan, snapshot)
    second.run_until_seen(lambda: server.requests == {"/plain": 2, "/async": 2}, "both are made again")
    server.let_go.set()
    eventually(lambda: not first.rt._executor._workers.busy, "the late answer has come")
    second.run_until_idle()
    assert second.values == ["answer to /plain", "answer to /async"]
    assert first.values == []
    assert server.requests == {"/plain": 2, "/async": 2}
    assert second.close()


class Held:
    def __init__(self) -> None:
        self.calls: Counter[Any] = Counter()
        self.release = threading.Event()


HELD = Held()


@pytest.fixture(autouse=True)
def _held() -> Iterator[None]:
    HELD.__init__()  # type: ignore[misc]
    yield
    HELD.release.set()


def count(value: Any) -> Any:
    HELD.calls[value] += 1
    return value


def count_and_wait(value: Any) -> Any:
    HELD.calls[value] += 1
    assert HELD.release.wait(DEADLINE)
    return value


async def first_waits(event: Any, ctx: RunnerContext) -> None:
    if event.input == 0:
        await ctx.durable_execute_async(count_and_wait, event.input)
    ctx.send_event(OutputEvent(output=event.input))


def test_case_32_ten_thousand_inputs_behind_one_call(tmp_path: Any) -> None:
    """Each waits as its bytes in the keyed state, none as a run; all count for back-pressure; order is kept.

    Java stops the inputs at `agents.max-in-flight-runs`, which is what these counts are for.
    """
    options = {
        "store__type": "sqlite",
        "store__sqlite__path": str(tmp_path),
    }
    flink = FakeFlink(plan_of(Agent().add_action("act", [InputEvent], first_waits), **options))
    key = encode_key("k")
    for number in range(10_000):
        flink.process("k", number)
        assert flink.in_flight == number + 1
    engine = flink.rt._engine
    assert engine is not None
    live = engine.keys[key]
    assert live.run is not None
    assert len(live.run.executions) == 1
    assert HELD.calls == {0: 1}
    snapshot = flink.snapshot()
    queued = [value for (state, _), value in snapshot.state[key].items() if state == QUEUED]
    assert len(queued) == 9_999
    assert sum(map(len, queued)) < 9_999 * 200
    HELD.release.set()
    flink.run_until_idle()
    assert flink.values == list(range(10_000))
    assert flink.in_flight == 0
    assert all(state != QUEUED for state, _ in flink.snapshot(2).state.get(key, {}))
    flink.close()


async def two_calls(event: Any, ctx: RunnerContext) -> None:
    value = await ctx.durable_execute_async(count, event.input)
    waited = await ctx.durable_execute_async(count_and_wait, f"{value} waits")
    ctx.send_event(OutputEvent(output=waited))


def test_case_50_a_failure_in_the_drain_at_the_end_of_input(tmp_path: Any) -> None:
    """500 runs wait, the end of input has come, a checkpoint completes, the task fails and drains again."""
    options = {
        "store__type": "sqlite",
        "store__sqlite__path": str(tmp_path),
        "call__workers": 16,
        "close_timeout": 0.2,
    }
    plan = plan_of(Agent().add_action("act", [InputEvent], two_calls), **options)
    first = FakeFlink(plan)
    for number in range(500):
        first.process(number, number)
    engine = first.rt._engine
    assert engine is not None
    first._apply(first.rt.end_input())
    snapshot = first.snapshot()
    # A second call has started once the record of the first one is durable.
    first.run_until_seen(lambda: engine.stats.calls_executed == len(engine.calls) == 500)
    assert first.live == 500
    assert first.values == []
    first.close()
    HELD.release.set()
    second = FakeFlink(plan, snapshot)
    second._apply(second.rt.end_input())
    second.run_until_idle()
    assert sorted(second.values) == sorted(f"{number} waits" for number in range(500))
    assert {value: calls for value, calls in HELD.calls.items() if isinstance(value, int) and calls > 1} == {}
    second.rt.finish()
    assert second.close()


class Client:
    """What a script makes once: it counts how it is made and closed."""

    made = 0
    closed: list[str] = []  # noqa: RUF012

    def __init__(self) -> None:
        type(self).made += 1

    async def aclose(self) -> None:
        type(self).closed.append(threading.current_thread().name)


CLIENT = lazy(Client)


class Asking(Agent):
    def __init__(self) -> None:
        self.client = CLIENT
        self.unused = lazy(Client)

    def ask(self, value: Any) -> Any:
        return type(self.client()).__name__ + str(value)


def test_a_lazy_object_is_closed_with_its_operator_and_made_anew_in_the_next() -> None:
    """On the loop of calls, where it was used; one that nobody used is neither made nor closed."""
    Client.made, Client.closed = 0, []
    agent = Asking()

    async def act(event: Any, ctx: RunnerContext, agent: Asking = agent) -> None:
        ctx.send_event(OutputEvent(output=await ctx.durable_execute_async(agent.ask, event.input)))

    plan = plan_of(Agent().add_action("act", [InputEvent], act))
    for attempt in (1, 2):
        flink = FakeFlink(plan)
        for number in range(3):
            flink.process("k", number)
        flink.run_until_idle()
        assert flink.values == ["Client0", "Client1", "Client2"]
        assert Client.made == attempt
        assert len(Client.closed) == attempt - 1
        assert flink.close()
        assert Client.closed == ["durable-calls"] * attempt
    assert pickle.loads(pickle.dumps(CLIENT))._place._made == []


SHARED = lazy(Client)


async def ask_shared(value: Any) -> Any:
    return SHARED()


async def ask_the_shared_client(event: Any, ctx: RunnerContext) -> None:
    client = await ctx.durable_execute_async(ask_shared, event.input)
    again = await ctx.durable_execute_async(ask_shared_plainly, event.input)
    ctx.send_event(
        OutputEvent(output=(id(client), id(again), id(ctx.durable_execute(ask_shared_plainly, 1))))
    )


def ask_shared_plainly(value: Any) -> Any:
    return SHARED()


def test_a_lazy_object_of_a_module_is_made_once_in_each_subtask_and_attempt() -> None:
    """All of them import the same one; a client that is bound to the loop of another one does not work."""
    Client.made, Client.closed = 0, []
    plan = plan_of(Agent().add_action("act", [InputEvent], ask_the_shared_client))
    subtasks = [FakeFlink(plan), FakeFlink(plan)]
    found = set()
    for flink in subtasks:
        flink.process("k", 1)
        flink.process("k", 2)
        flink.run_until_idle()
        (one,) = {id for ids in flink.values for id in ids}
        found.add(one)
    assert len(found) == Client.made == 2
    assert subtasks[0].close()
    assert Client.closed == ["durable-calls"]
    assert subtasks[1].close()
    assert Client.closed == ["durable-calls"] * 2
    restarted = FakeFlink(plan)
    restarted.process("k", 1)
    restarted.run_until_idle()
    assert Client.made == 3
    assert restarted.close()
