"""Programs as users start them: own process, bare PATH, agents and records defined in the program itself."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.flink.programs import run_program

HELPER = """
def score(text):
    return len(text)
"""

PROGRAM = """
import dataclasses
import sys

from pyflink.datastream import StreamExecutionEnvironment

import beside_the_script
from flink_agents_durable import (
    Agent, AgentOptions, AgentsExecutionEnvironment, InputEvent, OutputEvent, action
)


@dataclasses.dataclass
class Review:
    user: str
    text: str


@dataclasses.dataclass
class Answer:
    review: Review
    score: int


class TooLong(Exception):
    pass


def score(review):
    if review.text == "long":
        raise TooLong(review.text)
    return Answer(review, beside_the_script.score(review.text))


def make_agent(extra):
    class ReviewAgent(Agent):
        @action(InputEvent)
        async def review(self, event, ctx):
            try:
                answer = await ctx.durable_execute_async(score, event.input)
            except TooLong as error:
                answer = Answer(event.input, -1)
            assert isinstance(answer, Answer) and isinstance(answer.review, Review)
            answer.score += extra
            ctx.send_event(OutputEvent(output=answer))

    return ReviewAgent()


if __name__ == "__main__":
    env = StreamExecutionEnvironment.get_execution_environment()
    env.set_parallelism(1)
    agents = AgentsExecutionEnvironment.get_execution_environment(env)
    agents.get_config().set(AgentOptions.STRICT_VALUES, True)
    reviews = env.from_collection([Review("anna", "good"), Review("bob", "long")])
    agent = agents.from_datastream(reviews, key_selector=lambda review: review.user).apply(make_agent(100))
    answers = agent.to_datastream().map(lambda answer: (isinstance(answer, Answer), answer))
    with answers.execute_and_collect() as results:
        print(sorted(results, key=repr))
"""

EXPECTED = (
    "[(True, Answer(review=Review(user='anna', text='good'), score=104)), "
    "(True, Answer(review=Review(user='bob', text='long'), score=99))]"
)


@pytest.mark.parametrize("how", ["script", "notebook"])
def test_cases_37_and_38_a_program_runs_without_any_set_up(tmp_path: Path, how: str) -> None:
    (tmp_path / "beside_the_script.py").write_text(HELPER)
    (tmp_path / "job.py").write_text(PROGRAM)
    # A notebook's __main__ has no file, as that of -c.
    result = run_program(*(["job.py"] if how == "script" else ["-c", PROGRAM]), cwd=tmp_path)
    assert result.returncode == 0, result.stderr[-5000:]
    assert EXPECTED in result.stdout
    assert (tmp_path / ".flink-agents-durable").is_dir()  # store auto: sqlite in local execution
