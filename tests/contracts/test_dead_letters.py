"""Inputs that are given up: one letter for each failed execution, as often as an output (P14, P15, X8)."""

from __future__ import annotations

from typing import Any

import pytest

from flink_agents_durable import (
    Agent,
    ConfigurationError,
    DeadLetter,
    DurableExecutionError,
    Event,
    InputEvent,
    RunnerContext,
    StalledActionError,
    action,
)
from flink_agents_durable.engine.records import REOPEN, decode_record
from tests.contracts.functions import ask
from tests.contracts.kit import Attempts, Gate, WatchedStore, agent_of, called, out, until, values

OPTIONS = {"agents.action-failure": "dead-letter"}


def refuse(what: Any) -> Any:
    """A durable function that fails; the token must not get anywhere."""
    raise ConnectionError(f"no {what}, authorization: Bearer abcdefgh12345678")


async def act(event: Any, ctx: RunnerContext) -> None:
    ctx.short_term_memory.set("seen", event.input)
    out(ctx, "begun")
    event.input.append("changed by the action")
    await ctx.durable_execute_async(refuse, "luck")


async def other(event: Any, ctx: RunnerContext) -> None:
    out(ctx, await ctx.durable_execute_async(ask, event.input[0]))


def test_one_letter_tells_what_happened(attempts: Attempts) -> None:
    """The execution ends without its memory writes; what it sent stays, other executions of the run go on."""
    runner = attempts.start(agent_of(act, other), options=OPTIONS)
    runner.process("k", ["a"], timestamp=7)
    runner.run_until_idle()
    (letter,) = runner.dead_letters
    assert (letter.key, letter.input, letter.action) == ("k", ["a"], "act")
    assert letter.error.startswith("builtins.ConnectionError: no luck")
    assert "Traceback" in letter.traceback
    assert "test_dead_letters.py" in letter.traceback
    assert len(letter.run_id) > 10
    assert values(runner) == ["begun", "a!"]
    assert runner.idle
    assert runner.memory("k") == {}
    assert runner.stats.dead_letters == 1


def test_x8_no_credential_in_a_letter_or_in_the_log(
    attempts: Attempts, caplog: pytest.LogCaptureFixture
) -> None:
    runner = attempts.start(agent_of(act), options=OPTIONS)
    runner.process("k", ["a"])
    runner.run_until_idle()
    assert "abcdefgh12345678" not in repr(runner.dead_letters)
    assert "abcdefgh12345678" not in caplog.text
    assert "action 'act' failed for key 'k'" in caplog.text


def test_p14_the_failure_is_final(attempts: Attempts) -> None:
    """Nothing is reopened: a crash right after the letter replays the failure, and the call does not run again."""
    attempts.store = WatchedStore(attempts.folder)
    first = attempts.start(agent_of(act), options=OPTIONS)
    checkpoint = first.checkpoint()
    first.process("k", ["a"])
    first.run_until_idle()
    records = [decode_record(record) for batch in attempts.store.batches for record in batch]
    assert REOPEN not in {record.kind for record in records}
    second = attempts.start(agent_of(act), checkpoint=checkpoint, options=OPTIONS)
    second.process("k", ["a"])
    second.run_until_idle()
    assert called(second) == []
    (before,), (after,) = first.dead_letters, second.dead_letters
    assert (before.error, before.run_id) == (after.error, after.run_id)


@pytest.mark.parametrize("store", ["attempts", "storeless"])
def test_p15_a_letter_before_a_checkpoint_is_not_sent_again(
    store: str, request: pytest.FixtureRequest
) -> None:
    """Another execution of its run is unfinished, so that the run is restored."""
    job: Attempts = request.getfixturevalue(store)
    gate = Gate()
    first = job.start(agent_of(act, other), options=OPTIONS, fakes={ask: gate})
    first.process("k", ["a"])
    until(first, lambda: first.dead_letters and gate.is_waiting("a"))
    checkpoint = first.checkpoint()
    second = job.start(agent_of(act, other), checkpoint=checkpoint, options=OPTIONS)
    second.run_until_idle()
    assert second.dead_letters == []
    assert values(second) == ["a!"]


@pytest.mark.parametrize("store", ["attempts", "storeless"])
def test_p15_a_letter_after_the_checkpoint_comes_again(store: str, request: pytest.FixtureRequest) -> None:
    """The failure was rolled back with it."""
    job: Attempts = request.getfixturevalue(store)
    gate = Gate()
    first = job.start(agent_of(act), options=OPTIONS, fakes={refuse: gate})
    first.process("k", ["a"])
    until(first, lambda: gate.is_waiting("luck"))
    checkpoint = first.checkpoint()
    gate.fail("luck", ConnectionError("the first attempt"))
    until(first, lambda: first.idle)
    second = job.start(agent_of(act), checkpoint=checkpoint, options=OPTIONS, fakes={refuse: gate})
    if store == "storeless":
        gate.fail("luck", ConnectionError("the second attempt"))
    second.run_until_idle()
    assert len(first.dead_letters) == len(second.dead_letters) == 1
    expected = "the second attempt" if store == "storeless" else "the first attempt"
    assert second.dead_letters[0].error == f"builtins.ConnectionError: {expected}"
    assert values(second) == []


def test_each_failed_execution_has_its_letter(attempts: Attempts) -> None:
    """Two events of one run: the letters have its id in common."""

    def split(event: Any, ctx: RunnerContext) -> None:
        for number in range(2):
            ctx.send_event(Event("part", {"number": number}))

    def part(event: Any, ctx: RunnerContext) -> None:
        raise ValueError(f"part {event.get_attr('number')}")

    runner = attempts.start(agent_of(split, part=part), options=OPTIONS)
    runner.process("k", "whole")
    assert [letter.error[-6:] for letter in runner.dead_letters] == ["part 0", "part 1"]
    assert {letter.input for letter in runner.dead_letters} == {"whole"}
    assert len({letter.run_id for letter in runner.dead_letters}) == 1


def test_on_failure_of_an_action_wins_over_the_option(attempts: Attempts) -> None:
    class Careful(Agent):
        @action(InputEvent, on_failure="dead-letter")
        def careful(self, event: Any, ctx: RunnerContext) -> None:
            raise LookupError("lost")

        @action(InputEvent, on_failure="skip")
        def careless(self, event: Any, ctx: RunnerContext) -> None:
            raise LookupError

    runner = attempts.start(Careful(), options={"agents.action-failure": "fail"})
    runner.process("k", 1)
    assert [letter.action for letter in runner.dead_letters] == ["careful"]


def test_generators_plain_and_stalled_actions(attempts: Attempts) -> None:
    """Whatever the form of the action, and whoever raises."""

    def plain(event: Any, ctx: RunnerContext) -> None:
        ctx.durable_execute(refuse, "plain")

    def generator(event: Any, ctx: RunnerContext) -> Any:
        yield ctx.durable_execute_async(refuse, "generator")

    async def stalled(event: Any, ctx: RunnerContext) -> None:
        import asyncio

        await asyncio.get_running_loop().create_future()

    runner = attempts.start(agent_of(plain, generator, stalled), options=OPTIONS)
    runner.process("k", 1)
    runner.run_until_idle()
    found = {letter.action: letter.error for letter in runner.dead_letters}
    assert "no plain" in found["plain"]
    assert "no generator" in found["generator"]
    assert StalledActionError.__name__ in found["stalled"]
    assert issubclass(StalledActionError, DurableExecutionError)


def test_a_failure_that_cannot_be_described_has_a_letter_too(attempts: Attempts) -> None:
    class Odd(Exception):
        def __str__(self) -> str:
            raise RuntimeError("no text")

    def fails(event: Any, ctx: RunnerContext) -> None:
        raise Odd("\ud800")

    runner = attempts.start(agent_of(fails), options=OPTIONS)
    runner.process("k", 1)
    (letter,) = runner.dead_letters
    letter.error.encode()
    assert "Odd" in letter.error


def test_an_unknown_policy_is_named() -> None:
    with pytest.raises(ConfigurationError, match="dead-letter"):
        action(InputEvent, on_failure="dead_letter")


def test_a_letter_is_a_value() -> None:
    letter = DeadLetter("k", 1, "act", "E: text", "trace", "id")
    assert letter == DeadLetter("k", 1, "act", "E: text", "trace", "id")
    with pytest.raises(AttributeError):
        letter.key = "other"  # type: ignore[misc]
