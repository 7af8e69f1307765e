"""The agent's code changes between a savepoint and the restore (D3, P13, case 19)."""

from __future__ import annotations

import re
from collections import Counter

import pytest

from tests.cluster import ledger
from tests.cluster.job import answer_of
from tests.cluster.jobs import Orders

FROM = "execution.state-recovery.path"
NAMES = ["one", "two", "three"]


def stop_in_the_last_call(orders: Orders) -> list[str]:
    """Run until the first inputs of all keys wait in their last call; a savepoint ends the job there."""
    job_id = orders.submit(agent="Steps")
    questions = orders.feed("before", keys=4)
    waiting = questions[:4]
    orders.cluster.eventually(
        lambda: {s.question for s in ledger.starts(orders.folder) if s.name == "three"} >= set(waiting),
        "the last call of the first inputs",
    )
    return [orders.cluster.savepoint(job_id, orders.folder / "savepoints", stop=True), *waiting]


def go_on(orders: Orders, agent: str, savepoint: str) -> None:
    (orders.folder / "open").touch()
    orders.submit(agent=agent, options={FROM: savepoint})
    orders.feed("after", keys=4)
    orders.await_outputs()


def expected(questions: list[str]) -> list[list[object]]:
    return [[question, [answer_of(question, name) for name in NAMES]] for question in questions]


def outputs(orders: Orders) -> list[list[object]]:
    return [output for output in ledger.committed(orders.folder) if output[1] != "audited"]


def runs(orders: Orders) -> Counter[str]:
    return Counter(f"{start.question}: {start.name}" for start in ledger.starts(orders.folder))


@pytest.mark.parametrize("agent", ["AddedAction", pytest.param("OtherClass", marks=pytest.mark.slow)])
def test_an_added_action_and_another_class_go_on_with_the_recorded_calls(orders: Orders, agent: str) -> None:
    savepoint, *waiting = stop_in_the_last_call(orders)
    go_on(orders, agent, savepoint)
    assert sorted(outputs(orders)) == sorted(expected(orders.questions))
    again = [label for label, number in runs(orders).items() if number > 1]
    assert sorted(again) == sorted(f"{question}: three" for question in waiting)
    if agent == "AddedAction":
        new = {question for question in orders.questions if question.startswith("after")}
        orders.cluster.eventually(
            lambda: {str(o[0]) for o in ledger.committed(orders.folder) if o[1] == "audited"} >= new,
            "outputs of the new action",
        )


def test_case19_p13_a_renamed_call_is_named_and_made_anew(orders: Orders) -> None:
    savepoint, *waiting = stop_in_the_last_call(orders)
    go_on(orders, "RenamedCall", savepoint)
    assert sorted(outputs(orders)) == sorted(expected(orders.questions))
    again = [label for label, number in runs(orders).items() if number > 1]
    assert sorted(again) == sorted(f"{question}: {name}" for question in waiting for name in NAMES[1:])
    said = "\n".join(path.read_text() for path in orders.cluster.folder.glob("log/*taskmanager*"))
    warned = [line for line in said.splitlines() if "ask_under_another_name" in line]
    assert any(re.search(r"\bask\b", line) for line in warned), warned
