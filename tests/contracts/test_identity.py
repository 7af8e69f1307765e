"""D1 to D6: which call is which, in another attempt, in another process, with rebuilt arguments."""

from __future__ import annotations

import asyncio
import dataclasses
import datetime
import decimal
import enum
import json
import logging
import os
import subprocess
import sys
import threading
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pydantic
import pytest

from flink_agents_durable import CallOptions, Event, NonDeterministicActionError, RunnerContext
from flink_agents_durable.api.errors import AttemptEndedError
from flink_agents_durable.testing import LocalRunner
from tests.contracts.functions import ask, check, never
from tests.contracts.kit import Attempts, Gate, agent_of, called, out, until, values

ROOT = Path(__file__).parents[2]
PROCESS_SECONDS = 120
"""A Python process that imports the package takes seconds on a loaded machine; one that hangs must not."""


async def echo(*args: Any, **kwargs: Any) -> str:
    """A durable function of any arguments."""
    return "first"


def one_call(make: Callable[[], Any]) -> Any:
    """An agent that makes one call with these arguments."""

    async def act(event: Any, ctx: RunnerContext) -> None:
        args, kwargs = make()
        out(ctx, await ctx.durable_execute_async(echo, *args, **kwargs))

    return agent_of(act)


def replays(attempts: Attempts, first: Callable[[], Any], second: Callable[[], Any]) -> bool:
    """Whether the second attempt's call is the first one's to the journal."""
    runner = attempts.start(one_call(first))
    runner.process("k", 1)
    runner.run_until_idle()

    async def again(*args: Any, **kwargs: Any) -> str:
        return "again"

    runner = attempts.start(one_call(second), fakes={echo: again})
    runner.process("k", 1)
    runner.run_until_idle()
    return values(runner) == ["first"]


class Color(enum.Enum):
    RED = 1
    BLUE = 2


@dataclasses.dataclass
class Point:
    x: int
    y: list[int] = dataclasses.field(default_factory=list)


class Review(pydantic.BaseModel):
    text: str
    score: int = 0


MESSAGES = [
    {"role": "system", "content": "be brief"},
    {"role": "user", "content": "hi", "parts": ({"type": "text", "n": 1.5}, None, True)},
]
NUMBERS = {"tries": 3, "nested": {"a": [1, 2.0, "x"], "b": None}}


@pytest.mark.parametrize(
    ("first", "second"),
    [
        pytest.param(
            lambda: ((MESSAGES,), {}), lambda: ((json.loads(json.dumps(MESSAGES)),), {}), id="case 13"
        ),
        pytest.param(lambda: (((1, 2),), {}), lambda: (([1, 2],), {}), id="tuple and list"),
        pytest.param(lambda: (({1: "a"},), {}), lambda: (({"1": "a"},), {}), id="int keys as JSON has them"),
        pytest.param(lambda: ((), {"a": 1, "b": 2}), lambda: ((), {"b": 2, "a": 1}), id="keyword order"),
        pytest.param(lambda: (({"a": 1, "b": 2},), {}), lambda: (({"b": 2, "a": 1},), {}), id="dict order"),
        pytest.param(
            lambda: ((NUMBERS, NUMBERS), {}),
            lambda: ((NUMBERS, json.loads(json.dumps(NUMBERS))), {}),
            id="sharing",
        ),
        pytest.param(lambda: ((set("abcdefgh"),), {}), lambda: ((set("hgfedcba"),), {}), id="set order"),
        pytest.param(
            lambda: ((Color.RED, datetime.date(2024, 1, 2), decimal.Decimal("1.50"), uuid.UUID(int=5)), {}),
            lambda: ((Color(1), datetime.date(2024, 1, 2), decimal.Decimal("1.50"), uuid.UUID(int=5)), {}),
            id="enum, date, decimal, uuid",
        ),
        pytest.param(lambda: ((Point(1, [2]),), {}), lambda: ((Point(1, [2]),), {}), id="dataclass"),
        pytest.param(
            lambda: ((Review(text="a"),), {}),
            lambda: ((Review.model_validate_json(Review(text="a").model_dump_json()),), {}),
            id="pydantic",
        ),
        pytest.param(lambda: ((2**80, -(2**70)), {}), lambda: ((2**80, -(2**70)), {}), id="large ints"),
    ],
)
def test_d1_equal_arguments_replay(attempts: Attempts, first: Any, second: Any) -> None:
    """Whatever the sharing of objects, the order of dicts and sets, and also after a JSON round trip."""
    assert replays(attempts, first, second)


@pytest.mark.parametrize(
    ("first", "second"),
    [
        pytest.param(lambda: ((1,), {}), lambda: (("1",), {}), id="int and text"),
        pytest.param(lambda: ((1,), {}), lambda: ((True,), {}), id="int and bool"),
        pytest.param(lambda: ((None,), {}), lambda: ((), {}), id="None and nothing"),
        pytest.param(lambda: (("ab", "c"), {}), lambda: (("a", "bc"), {}), id="borders of texts"),
        pytest.param(lambda: (([1], 2), {}), lambda: (([1, 2],), {}), id="borders of lists"),
        pytest.param(lambda: ((Color.RED,), {}), lambda: ((Color.BLUE,), {}), id="enum members"),
        pytest.param(lambda: ((Point(1),), {}), lambda: ((Point(2),), {}), id="dataclasses"),
        pytest.param(lambda: ((Review(text="a"),), {}), lambda: ((Review(text="b"),), {}), id="models"),
        pytest.param(lambda: ((1, 2), {}), lambda: ((2, 1), {}), id="argument order"),
        pytest.param(lambda: ((), {"a": 1}), lambda: ((), {"b": 1}), id="keywords"),
        pytest.param(lambda: ((b"a",), {}), lambda: (("a",), {}), id="bytes and text"),
        pytest.param(lambda: ((2**80,), {}), lambda: ((2**80 + 1,), {}), id="large ints"),
    ],
)
def test_d1_other_arguments_are_another_call(attempts: Attempts, first: Any, second: Any) -> None:
    """They do not get the recorded result."""
    assert not replays(attempts, first, second)


def test_d1_arguments_without_a_canonical_form_are_not_checked(attempts: Attempts) -> None:
    """The call is known by place and function; it never fails for this."""
    assert replays(attempts, lambda: ((object(), open), {}), lambda: ((object(), len), {}))


def test_case_17_case_22_d1_d5_another_process_under_another_hash_seed(tmp_path: Path) -> None:
    """Cases 14, 17 and 22: a killed process, then another one with another seed: no finished call twice."""
    reports = []
    for attempt, seed in (("1", "1"), ("2", "4711"), ("3", "99")):
        result = subprocess.run(
            [sys.executable, "-m", "tests.contracts.other_process", str(tmp_path), attempt],
            cwd=ROOT,
            env={**os.environ, "PYTHONHASHSEED": seed},
            capture_output=True,
            text=True,
            timeout=PROCESS_SECONDS,
            check=False,
        )
        assert result.returncode == (9 if attempt == "1" else 0), result.stderr
        reports.append(json.loads(result.stdout.splitlines()[-1]))
    first, second, third = reports
    assert sorted(first["calls"][1:]) == [["fast"], ["medium"], ["slow"]]
    made = [call[0] for call in second["calls"]]
    assert made[0] == "slow"
    assert "fast" not in made
    assert "medium" not in made
    assert sorted(made[1:]) == sorted(["c0", "c1", "c2", *(f"w{number}" for number in range(30))])
    assert second["outputs"][1][1] == ["slow!", "medium!", "fast!"]
    assert third["calls"] == []
    assert third["outputs"] == second["outputs"]
    assert [report["mismatches"] for report in reports] == [0, 0, 0]


def test_d2_a_callee_that_changes_its_argument_changes_nothing(attempts: Attempts) -> None:
    """Case 15: the digest is taken before the call."""

    async def appends(messages: list[Any]) -> int:
        messages.append("answer")
        return len(messages)

    async def act(event: Any, ctx: RunnerContext) -> None:
        out(ctx, await ctx.durable_execute_async(ask, [1, 2]))
        out(ctx, ctx.durable_execute(ask, [1, 2]))

    for fake in (appends, never):
        runner = attempts.start(agent_of(act), fakes={ask: fake})
        runner.process("k", 1)
        runner.run_until_idle()
        assert values(runner) == [3, 3]
        assert runner.stats.mismatches == 0


class Model:
    """Called through one method by several instances."""

    def __init__(self, name: str) -> None:
        self.name = name

    async def complete(self, prompt: str) -> str:
        return f"{self.name}: {prompt}"


class Named(Model):
    """Has an identity of its own, whatever else it holds."""

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.client = object()

    @property
    def durable_id(self) -> str:
        return f"model/{self.name}"


@pytest.mark.parametrize("kind", [Model, Named])
def test_d3_two_instances_called_through_one_method_are_told_apart(attempts: Attempts, kind: Any) -> None:
    """Exchanged in the new code they do not get each other's results."""

    def agent(*names: str) -> Any:
        async def act(event: Any, ctx: RunnerContext) -> None:
            for name in names:
                out(ctx, await ctx.durable_execute_async(kind(name).complete, "hi"))

        return agent_of(act)

    first = attempts.start(agent("a", "b"))
    first.process("k", 1)
    first.run_until_idle()
    same = attempts.start(agent("a", "b"))
    same.process("k", 1)
    same.run_until_idle()
    assert same.calls == []
    swapped = attempts.start(agent("b", "a"))
    swapped.process("k", 1)
    swapped.run_until_idle()
    assert values(swapped) == ["b: hi", "a: hi"]
    assert len(swapped.calls) == 2


def test_d3_two_lambdas_of_one_scope_swapped(attempts: Attempts, caplog: pytest.LogCaptureFixture) -> None:
    """Case 16: a mismatch that names both, not swapped results."""

    def agent(swapped: bool) -> Any:
        async def act(event: Any, ctx: RunnerContext) -> None:
            pair = (lambda: "first", lambda: "second")
            for function in reversed(pair) if swapped else pair:
                out(ctx, await ctx.durable_execute_async(function))

        return agent_of(act)

    first = attempts.start(agent(swapped=False))
    first.process("k", 1)
    first.run_until_idle()
    second = attempts.start(agent(swapped=True))
    second.process("k", 1)
    second.run_until_idle()
    assert values(second) == ["second", "first"]
    [warning] = [record.getMessage() for record in caplog.records if "recorded was" in record.getMessage()]
    assert warning.count("<lambda>#") == 2


def test_d3_a_durable_id_names_the_call(attempts: Attempts) -> None:
    """A function that was renamed goes on with its results when the call keeps its id."""

    def agent(function: Any) -> Any:
        async def act(event: Any, ctx: RunnerContext) -> None:
            out(
                ctx,
                await ctx.durable_execute_async(function, 1, options=CallOptions(durable_id="step one")),
            )

        return agent_of(act)

    first = attempts.start(agent(ask))
    first.process("k", 1)
    first.run_until_idle()
    second = attempts.start(agent(check), fakes={check: never})
    second.process("k", 1)
    second.run_until_idle()
    assert values(second) == ["1!"]


def test_d4_events_with_equal_attributes_are_two_executions(attempts: Attempts) -> None:
    """Case 21: each has its own journal."""

    async def act(event: Any, ctx: RunnerContext) -> None:
        for _ in range(2):
            ctx.send_event(Event("step", {"same": 1}))
        await ctx.durable_execute_async(check, "end")

    async def step(event: Any, ctx: RunnerContext) -> None:
        name = str(ctx.uuid4())
        out(ctx, [name, await ctx.durable_execute_async(ask, name)])

    for fake in (ask, never):
        runner = attempts.start(agent_of(act, step=step), fakes={ask: fake})
        runner.process("k", 1)
        runner.run_until_idle()
        names = [name for name, _ in values(runner)]
        assert len(set(names)) == 2
        assert all(result == f"{name}!" for name, result in values(runner))


class KeyModel(pydantic.BaseModel):
    model_config = pydantic.ConfigDict(frozen=True)
    user: str
    shop: int


@dataclasses.dataclass(frozen=True)
class KeyData:
    user: str


KEYS = [
    1,
    "1",
    True,
    1.5,
    b"1",
    None,
    (1, "1"),
    ("1", 1),
    ("a", "b"),
    ("a_b",),
    "a_b",
    "a/b",
    "a\nb",
    "a\x00b",
    "",
    "\ud800",
    "x" * 10_000,
    2**80,
    Color.RED,
    datetime.date(2024, 1, 2),
    decimal.Decimal("1.0"),
    uuid.UUID(int=1),
    frozenset({1, 2}),
    KeyModel(user="a", shop=1),
    KeyData("a"),
]


def test_d4_keys_are_kept_apart_and_read_back_unchanged(attempts: Attempts) -> None:
    """Cases 21, 36, 40, K3: each key has its own memory and journal, and `ctx.key` is what was given."""

    async def act(event: Any, ctx: RunnerContext) -> None:
        count = ctx.short_term_memory.get("count", 0) + 1
        ctx.short_term_memory.set("count", count)
        await ctx.durable_execute_async(ask, event.input)
        out(ctx, [ctx.key, type(ctx.key), event.input, count])

    gate = Gate()
    first = attempts.start(agent_of(act), fakes={ask: gate})
    for number, key in enumerate(KEYS):
        first.process(key, number)
    until(first, lambda: gate.is_waiting(*range(len(KEYS))))
    for number in range(len(KEYS)):
        gate.answer(number)
    first.run_until_idle()
    second = attempts.start(agent_of(act), checkpoint=first.checkpoint())
    for number, key in enumerate(KEYS):
        second.process(key, number)
    second.run_until_idle()
    for runner, count in ((first, 1), (second, 2)):
        found = {value[2]: value for value in values(runner)}
        for number, key in enumerate(KEYS):
            assert found[number] == [key, type(key), number, count]
        assert len(runner.outputs) == len(KEYS)
    assert len(second.calls) == len(KEYS)


def test_d5_a_race_takes_the_same_branch(attempts: Attempts) -> None:
    """Completion order is replayed, not start order."""

    async def act(event: Any, ctx: RunnerContext) -> None:
        tasks = [asyncio.create_task(ctx.durable_execute_async(ask, name)) for name in "abc"]
        done, pending = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        out(ctx, [await task for task in done])
        for task in pending:
            task.cancel()
        out(ctx, await ctx.durable_execute_async(check, "after"))

    gate = Gate()
    first = attempts.start(agent_of(act), fakes={ask: gate})
    first.process("k", 1)
    until(first, lambda: gate.is_waiting(*"abc"))
    gate.answer("b")
    first.run_until_idle()
    assert values(first) == [["b!"], "after?"]
    until(first, lambda: sorted(gate.cancelled) == ["a", "c"])
    second = attempts.start(agent_of(act), fakes={ask: never, check: never})
    second.process("k", 1)
    second.run_until_idle()
    assert values(second) == values(first)


def test_case_18_d5_as_completed_in_the_recorded_order(attempts: Attempts) -> None:
    """Case 18: the slow one was pushed first and comes last, on replay too."""

    async def act(event: Any, ctx: RunnerContext) -> None:
        futures = [ctx.durable_execute_async(ask, name) for name in ("slow", "medium", "fast")]
        for following in asyncio.as_completed(futures):
            out(ctx, await following)
        await ctx.durable_execute_async(check, "end")

    gate = Gate()
    first = attempts.start(agent_of(act), fakes={ask: gate})
    first.process("k", 1)
    until(first, lambda: gate.is_waiting("slow", "medium", "fast"))
    for number, name in enumerate(("fast", "slow", "medium"), 1):
        gate.answer(name)
        until(first, lambda number=number: len(values(first)) == number)  # type: ignore[misc]
    first.run_until_idle()
    assert values(first) == ["fast!", "slow!", "medium!"]
    for _ in range(3):
        again = attempts.start(agent_of(act), fakes={ask: never, check: never})
        again.process("k", 1)
        again.run_until_idle()
        assert values(again) == values(first)


def test_d5_the_end_of_a_wait_replays(attempts: Attempts) -> None:
    """Case 28: `wait_for` expires and the call finishes later: replay takes the timeout branch."""

    async def act(event: Any, ctx: RunnerContext) -> None:
        try:
            out(ctx, await asyncio.wait_for(ctx.durable_execute_async(ask, "late"), 5))
        except (asyncio.TimeoutError, TimeoutError):
            out(ctx, "timeout")
        out(ctx, await ctx.durable_execute_async(check, "after"))

    gate = Gate()
    first = attempts.start(agent_of(act), fakes={ask: gate, check: gate})
    first.process("k", 1)
    until(first, lambda: gate.is_waiting("late"))
    first.advance(5)
    until(first, lambda: gate.is_waiting("after"))
    gate.late_answer("late", "too late")
    gate.answer("after")
    first.run_until_idle()
    assert values(first) == ["timeout", "after!"]
    second = attempts.start(agent_of(act), fakes={ask: never, check: never})
    second.process("k", 1)
    second.run_until_idle()
    assert values(second) == values(first)


def three_calls(*names: str) -> Any:
    async def act(event: Any, ctx: RunnerContext) -> None:
        for name in names:
            function = check if name.startswith("check") else ask
            out(ctx, await ctx.durable_execute_async(function, name))

    return agent_of(act)


@pytest.mark.parametrize(
    ("names", "expected"),
    [
        pytest.param(("a", "check b", "c"), ["check b", "c"], id="renamed"),
        pytest.param(("a", "inserted", "b", "c"), ["inserted", "b", "c"], id="inserted"),
        pytest.param(("a", "c"), ["c"], id="removed"),
    ],
)
def test_case_19_a_changed_action_runs_anew_from_the_change(
    attempts: Attempts, caplog: pytest.LogCaptureFixture, names: Any, expected: Any
) -> None:
    """Case 19, P13: one warning that names the recorded and the current call, then nothing runs twice."""
    gate = Gate()
    first = attempts.start(three_calls("a", "b", "c", "d"), fakes={ask: gate})
    first.process("k", 1)
    for name in "abc":
        until(first, lambda name=name: gate.is_waiting(name))  # type: ignore[misc]
        gate.answer(name)
    until(first, lambda: gate.is_waiting("d"))
    checkpoint = first.checkpoint()
    with caplog.at_level(logging.WARNING):
        second = attempts.start(three_calls(*names), checkpoint=checkpoint)
        second.run_until_idle()
    assert called(second) == expected
    assert values(second)[-1] == f"{names[-1]}!"
    warnings = [record.getMessage() for record in caplog.records if "recorded was" in record.getMessage()]
    assert len(warnings) == 1
    assert "functions.ask" in warnings[0].split("asks for")[0]
    assert "functions." in warnings[0].split("asks for")[1]
    third = attempts.start(three_calls(*names), checkpoint=checkpoint, fakes={ask: never, check: never})
    third.run_until_idle()
    assert third.stats.mismatches == 0


def in_forms(*forms: str) -> Any:
    async def act(event: Any, ctx: RunnerContext) -> None:
        for number, form in enumerate(forms):
            if form == "awaited":
                out(ctx, await ctx.durable_execute_async(ask, number))
            else:
                out(ctx, ctx.durable_execute(ask, number))
        await asyncio.sleep(60)

    return agent_of(act)


@pytest.mark.parametrize(("was", "now"), [("awaited", "synchronous"), ("synchronous", "awaited")])
@pytest.mark.parametrize("with_state", [True, False], ids=["checkpoint", "log alone"])
def test_case_19_p13_a_call_in_another_form_is_a_mismatch(
    attempts: Attempts, caplog: pytest.LogCaptureFixture, was: str, now: str, with_state: bool
) -> None:
    """One outcome is a delivery and the other is not (P17): neither replays as the other, nor runs unseen."""
    before, after = in_forms("awaited", was, "awaited"), in_forms("awaited", now, "awaited")
    first = attempts.start(before)
    first.process("k", 1)
    first.run_until_idle()
    checkpoint = first.checkpoint() if with_state else None

    def go_on(agent: Any, **more: Any) -> LocalRunner:
        runner = attempts.start(agent, checkpoint=checkpoint, **more)
        if not with_state:
            runner.process("k", 1)
        runner.run_until_idle()
        return runner

    with pytest.raises((NonDeterministicActionError, AttemptEndedError), match="in another form of call"):
        go_on(after, options={"agents.mismatch-policy": "fail"})
    with caplog.at_level(logging.WARNING):
        second = go_on(after)
    assert called(second) == [1, 2]
    assert second.stats.mismatches == 1
    assert sum("in another form of call" in record.getMessage() for record in caplog.records) == 1
    third = go_on(after, fakes={ask: never})
    assert third.stats.mismatches == 0


def test_case_19_a_changed_action_fails_with_mismatch_policy_fail(attempts: Attempts) -> None:
    """Case 19: the error names the recorded and the current call."""
    first = attempts.start(three_calls("a", "b"))
    first.process("k", 1)
    first.run_until_idle()
    second = attempts.start(three_calls("a", "check b"), options={"agents.mismatch-policy": "fail"})
    with pytest.raises(NonDeterministicActionError) as caught:
        second.process("k", 1)
    assert "functions.ask" in str(caught.value)
    assert "functions.check" in str(caught.value)
    assert second.calls == []


def test_user_randomness_shifts_no_id(attempts: Attempts) -> None:
    """Case 29: one more `ctx.random()` before what was recorded changes nothing."""

    def agent(more: bool) -> Any:
        async def act(event: Any, ctx: RunnerContext) -> None:
            if more:
                ctx.random().random()
                ctx.random().randbytes(7)
            name = str(ctx.uuid4())
            ctx.send_event(Event("step", {"name": name}))
            out(ctx, await ctx.durable_execute_async(ask, name))

        async def step(event: Any, ctx: RunnerContext) -> None:
            out(ctx, [ctx.run_id, await ctx.durable_execute_async(check, str(ctx.uuid4()))])

        return agent_of(act, step=step)

    first = attempts.start(agent(more=False))
    first.process("k", 1)
    first.run_until_idle()
    second = attempts.start(agent(more=True), fakes={ask: never, check: never})
    second.process("k", 1)
    second.run_until_idle()
    assert sorted(map(str, values(second))) == sorted(map(str, values(first)))
    assert second.stats.mismatches == 0


def test_ids_differ_between_runs_keys_and_jobs(tmp_path: Path) -> None:
    """P2: ids derive from the log, the key, the sequence number and the input."""
    ids: list[Any] = []

    def act(event: Any, ctx: RunnerContext) -> None:
        ids.append((ctx.run_id, ctx.uuid4(), event.id, ctx.random().random()))

    for job in ("one", "two"):
        with LocalRunner(agent_of(act), job_id=job) as runner:
            for key in ("a", "b"):
                for value in (1, 1):
                    runner.process(key, value)
    for column in zip(*ids, strict=True):
        assert len(set(column)) == len(ids) == 8


def test_strict_values_give_the_first_run_what_a_replay_gets(attempts: Attempts) -> None:
    """Case 30: an action that changes a result sees a copy, on the first run and on replay."""
    live = {"n": 1}

    async def gives_its_own(what: Any) -> Any:
        return live

    async def act(event: Any, ctx: RunnerContext) -> None:
        for _ in range(2):
            result = await ctx.durable_execute_async(ask, "a")
            result["n"] += 1
            out(ctx, dict(result))

    options = {"agents.strict-values": True}
    for fake in (gives_its_own, never):
        runner = attempts.start(agent_of(act), fakes={ask: fake}, options=options)
        runner.process("k", 1)
        runner.run_until_idle()
        assert values(runner) == [{"n": 2}, {"n": 2}]
    assert live == {"n": 1}


def test_d6_a_call_that_fails_to_record_keeps_its_slot(attempts: Attempts) -> None:
    """Its neighbour does not take it: the replay of both is as the first run."""

    async def act(event: Any, ctx: RunnerContext) -> None:
        tasks = [asyncio.create_task(ctx.durable_execute_async(ask, name)) for name in ("bad", "good")]
        for task in tasks:
            try:
                out(ctx, await task)
            except Exception as error:
                out(ctx, type(error).__name__)

    async def answer(name: str) -> Any:
        return threading.Lock() if name == "bad" else name

    for fake in (answer, never):
        runner = attempts.start(agent_of(act), fakes={ask: fake})
        runner.process("k", 1)
        runner.run_until_idle()
        assert values(runner) == ["DurableSerializationError", "good"]
