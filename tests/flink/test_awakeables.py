"""Awakeables of a job: answers come by a stream of their own, across failovers and restores."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from py4j.protocol import Py4JJavaError
from pyflink.common import JobClient, Types

from flink_agents_durable import (
    Agent,
    ConfigurationError,
    Event,
    InputEvent,
    OutputEvent,
    RunnerContext,
    action,
    awakeable_result,
)
from tests.flink import awakeable_job
from tests.flink.jobs import collect, environment
from tests.flink.test_failover import NONE, RETAINED, SQLITE, Job, eventually

QUESTIONS = ["a 1", "b 1", "a 2", "c 1", "fault 1"]
ASKED_FIRST = {"a 1", "b 1", "c 1", "fault 1"}
"""`a 2` waits for the first input of its key."""


class Waiting(Agent):
    @action(InputEvent)
    async def wait(self, event: Event, ctx: RunnerContext) -> None:
        _, result = ctx.awakeable()
        ctx.send_event(OutputEvent(output=await result))


class Approvals(Job):
    def eventually(self, condition: Callable[[], bool], what: str) -> None:
        eventually(lambda: condition() or self.has_ended(), what, seconds=180)
        assert condition(), f"the job has ended before {what}"

    def asked(self) -> dict[str, str]:
        return dict(line.split(": ") for line in self.lines("asked"))

    def await_asked(self, questions: set[str]) -> None:
        self.eventually(lambda: self.asked().keys() >= questions, f"questions {questions}")

    def answer(self, question: str, value: str) -> None:
        awakeable_job.answer(self.folder, question, self.asked()[question], value)

    def await_committed(self, *lines: list[str]) -> None:
        wanted = {json.dumps(line) for line in lines}
        self.eventually(lambda: set(self.committed()) >= wanted, f"committed {wanted}")


@contextmanager
def cancelled(job: Job, client: JobClient) -> Iterator[None]:
    """Until the block ends; the job itself never does."""
    result = client.get_job_execution_result()
    job.has_ended = result.done
    try:
        yield
    except AssertionError:
        if result.done():
            result.result()
        raise
    finally:
        if not result.done():
            client.cancel().result()
            eventually(result.done, "the end of the cancelled job")


@pytest.mark.parametrize("store", [SQLITE, NONE], ids=["sqlite", "none"])
def test_l1_s1_s5_approvals_wait_through_a_failover_and_a_restore_at_another_parallelism(
    tmp_path: Path, store: dict[str, str]
) -> None:
    job, options = Approvals(tmp_path), {**RETAINED, **store}
    with cancelled(job, awakeable_job.submit(str(tmp_path), "first", QUESTIONS, options)):
        job.await_asked(ASKED_FIRST)
        job.await_checkpoint()
        job.answer("b 1", "yes")
        job.answer("fault 1", "fault")  # the action fails once, and gets its answer again
        job.await_committed(["b 1", "yes"], ["fault 1", "fault"])
        job.answer("b 1", "a second answer, which does not count")
        checkpoint = job.await_checkpoint()
    restored = {**options, "execution.state-recovery.path": f"file://{checkpoint}"}
    with cancelled(job, awakeable_job.submit(str(tmp_path), "second", QUESTIONS, restored, parallelism=3)):
        job.answer("c 1", "no")
        job.answer("a 1", "yes")
        job.await_asked({"a 2"})
        job.answer("a 2", "maybe")
        expected = [
            ["b 1", "yes"],
            ["fault 1", "fault"],
            ["c 1", "failed: no"],
            ["a 1", "yes"],
            ["a 2", "maybe"],
        ]
        job.await_committed(*expected)
        job.await_checkpoint()
    assert sorted(job.committed()) == sorted(json.dumps(line) for line in expected)
    assert sorted(job.lines("asked")) == sorted(f"{question}: {id}" for question, id in job.asked().items())


def test_a_drain_with_an_unresolved_awakeable_names_it() -> None:
    env, agents = environment({"restart-strategy.type": "disable"})
    answers = env.from_collection([awakeable_result("k", "no id", 1)])
    stream = agents.from_datastream(env.from_collection([1]), lambda value: "k", awakeables=answers)
    with pytest.raises(Py4JJavaError, match=r"nothing can resolve 1 awakeables .* awk_\S{32} of key 'k'"):
        collect(stream.apply(Waiting()).to_datastream())


BAD: list[tuple[Callable[[Any], Any], str]] = [
    (
        lambda env: env.from_collection([{"id": 1}]),
        r"awakeables= takes what awakeable_result.* got \{'id': 1\}",
    ),
    (lambda env: env.from_collection([5], Types.LONG()), "awakeables= takes what awakeable_result.* got 5"),
    (
        lambda env: env.from_collection([awakeable_result({"a": 1}, "x", 1)]),
        "awakeables= has an element that cannot",
    ),
]


@pytest.mark.parametrize(("make", "problem"), BAD)
def test_a_bad_element_of_the_stream_is_named(make: Callable[[Any], Any], problem: str) -> None:
    env, agents = environment({"restart-strategy.type": "disable"})
    stream = agents.from_datastream(env.from_collection([1]), lambda value: "k", awakeables=make(env))
    with pytest.raises(Py4JJavaError, match=problem):
        collect(stream.apply(Waiting()).to_datastream())


def test_k8_a_bounded_batch_stream_of_awakeables_is_refused() -> None:
    env, agents = environment({"execution.runtime-mode": "BATCH"})
    stream = agents.from_datastream(
        env.from_collection([1]), lambda v: "k", awakeables=env.from_collection([1])
    )
    with pytest.raises(ConfigurationError, match="BATCH"):
        stream.apply(Waiting())
