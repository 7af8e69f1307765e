"""Contracts that hold with `agents.payload=json` as well: the same tests, with recorded values as JSON."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from flink_agents_durable import (
    DurableSerializationError,
    RecordedCallError,
    RunnerContext,
    UnreadableRecordError,
)
from tests.contracts.conftest import _attempts
from tests.contracts.functions import ask, check, never
from tests.contracts.kit import Attempts, Gate, agent_of, out, until, values
from tests.contracts.test_failures import (  # noqa: F401 - collected here, with the fixtures below
    test_x1_a_message_is_bounded,
    test_x3_retry_after_is_readable_after_a_restore,
    test_x4_a_java_error_is_recorded_as_data,
    test_x5_failures_in_a_checkpoint_load_as_well,
    test_x8_no_credential_reaches_store_or_checkpoint,
)
from tests.contracts.test_futures_and_gather import (  # noqa: F401
    test_case_20_f8_a_batch_that_times_out_keeps_what_finished,
    test_f2_falsy_results_replay_as_such,
    test_f9_a_crash_in_a_batch_keeps_what_was_finished,
)
from tests.contracts.test_identity import (  # noqa: F401
    test_d4_events_with_equal_attributes_are_two_executions,
    test_d4_keys_are_kept_apart_and_read_back_unchanged,
    test_d5_a_race_takes_the_same_branch,
)
from tests.contracts.test_memory import (  # noqa: F401
    test_numpy_values_arrive_unchanged,
    test_objects_and_paths,
    test_overlapping_executions_merge_by_path,
    test_p16_a_restarted_execution_reads_what_it_read,
    test_sensory_memory_belongs_to_the_run,
    test_values_of_every_kind_arrive_unchanged,
)


@pytest.fixture
def attempts(tmp_path: Path) -> Iterator[Attempts]:
    job = Attempts(tmp_path)
    job.options["agents.payload"] = "json"
    yield from _attempts(job)


@pytest.fixture
def storeless(tmp_path: Path) -> Iterator[Attempts]:
    job = Attempts(tmp_path)
    job.options["agents.payload"] = "json"
    job.store = None
    yield from _attempts(job)


async def act(event: Any, ctx: RunnerContext) -> None:
    try:
        await ctx.durable_execute_async(ask, "a")
    except ConnectionError as error:
        out(ctx, [type(error).__name__, error.errno, isinstance(error, RecordedCallError)])
    ctx.short_term_memory.set("seen", {"when": (1, b"x")})
    out(ctx, await ctx.durable_execute_async(check, "b"))
    out(ctx, await ctx.durable_execute_async(check, "wait"))


async def refuse(what: str) -> str:
    raise ConnectionRefusedError(111, "refused")


def test_no_pickle_is_in_what_is_recorded(attempts: Attempts) -> None:
    """Of the log nothing, of a checkpoint the input alone, which came pickled over Flink's network."""
    gate = Gate()
    runner = attempts.start(agent_of(act), fakes={ask: refuse, check: gate})
    runner.process("k", "the input")
    until(runner, lambda: gate.is_waiting("b"))
    gate.answer("b")
    until(runner, lambda: gate.is_waiting("wait"))
    checkpoint = runner.checkpoint()
    runner.crash()
    log = b"".join(path.read_bytes() for path in attempts.folder.rglob("*") if path.is_file())
    assert b"ConnectionRefusedError" in log
    assert b"\x80\x05" not in log
    assert b"\x80\x04" not in log
    assert checkpoint.count(b"\x80\x05") == 1
    again = attempts.start(agent_of(act), checkpoint=checkpoint, fakes={ask: never})
    again.run_until_idle()
    assert values(again) == ["wait?"]
    assert runner.outputs[0][1] == ["ConnectionRefusedError", 111, True]
    assert again.memory("k") == {"seen": {"when": (1, b"x")}}


def test_case_1_f10_a_result_that_json_does_not_have_is_a_failure_of_its_call(attempts: Attempts) -> None:
    async def careful(event: Any, ctx: RunnerContext) -> None:
        try:
            await ctx.durable_execute_async(ask, "object")
        except DurableSerializationError as error:
            out(ctx, ["a object at value['x']" in str(error) or str(error), "ask" in str(error)])
        out(ctx, await ctx.durable_execute_async(check, "next"))

    async def give(what: str) -> Any:
        return {"x": object()}

    for fakes in ({ask: give}, {ask: never, check: never}):
        runner = attempts.start(agent_of(careful), fakes=fakes)
        runner.process("k", 1)
        runner.run_until_idle()
        assert values(runner) == [[True, True], "next?"]


def test_a_log_of_pickles_is_refused_with_the_remedy(attempts: Attempts) -> None:
    """The payload of a job that was started with another one."""

    async def ask_twice(event: Any, ctx: RunnerContext) -> None:
        out(ctx, await ctx.durable_execute_async(ask, "a"))
        out(ctx, await ctx.durable_execute_async(check, "b"))

    for first, then in (("pickle", "json"), ("json", "pickle")):
        gate = Gate()
        runner = attempts.start(agent_of(ask_twice), fakes={check: gate}, options={"agents.payload": first})
        runner.process(first, 1)
        until(runner, lambda gate=gate: gate.is_waiting("b"))
        again = attempts.start(agent_of(ask_twice), fakes={check: gate}, options={"agents.payload": then})
        with pytest.raises(Exception, match=r"agents\.payload") as refused:
            again.process(first, 1)
        assert isinstance(refused.value, UnreadableRecordError) or refused.value.__cause__ is not None
