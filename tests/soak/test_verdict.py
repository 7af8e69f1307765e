"""The ledger of a soak finds what it is there for."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.soak.notes import note
from tests.soak.verdict import PAYMENTS, Output, Verdict, judge

QUESTIONS = ["a 0", "b 0", "a 1"]


def answers(question: str) -> list[str]:
    return ["x", "y", *(f"{payment} of {question}" for payment in PAYMENTS)]


OUTPUTS = [
    Output("a 0", 1, None, answers("a 0")),
    Output("b 0", 1, None, answers("b 0")),
    Output("a 1", 2, "a 0", answers("a 1")),
]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Each question had two calls and its payments."""
    for question in QUESTIONS:
        note(tmp_path, "starts", question, 0, "one", [], 1)
        note(tmp_path, "starts", question, 1, "two", ["x"], 1)
        for payment in PAYMENTS:
            note(tmp_path, "effects", f"{question}: {payment}")
    return tmp_path


def bad(verdict: Verdict) -> dict[str, int]:
    """Its counts that should be 0."""
    names = ("missing", "duplicate", "unknown", "repeated", "diverged", "out_of_order")
    names += ("effects_missing", "effects_twice")
    found = {name: getattr(verdict, name) for name in names if getattr(verdict, name)}
    assert bool(found) != verdict.is_good()
    return found


def test_a_soak_without_a_fault_is_good(folder: Path) -> None:
    verdict = judge(folder, QUESTIONS, OUTPUTS)
    assert bad(verdict) == {}
    assert (verdict.inputs, verdict.outputs, verdict.calls, verdict.made) == (3, 3, 6, 6)


def test_calls_that_had_no_record_may_run_again(folder: Path) -> None:
    note(folder, "starts", "a 1", 1, "two", ["x"], 2)
    verdict = judge(folder, QUESTIONS, OUTPUTS)
    assert bad(verdict) == {}
    assert (verdict.calls, verdict.made) == (6, 7)


def test_s4_a_recorded_call_that_ran_again_is_found(folder: Path) -> None:
    note(folder, "starts", "a 1", 0, "one", [], 2)
    assert bad(judge(folder, QUESTIONS, OUTPUTS)) == {"repeated": 1}


def test_s4_a_record_that_replays_as_something_else_is_found(folder: Path) -> None:
    note(folder, "starts", "a 1", 1, "two", ["other"], 2)
    assert bad(judge(folder, QUESTIONS, OUTPUTS)) == {"diverged": 1}


def test_s4_lost_doubled_and_foreign_outputs_are_found(folder: Path) -> None:
    assert bad(judge(folder, QUESTIONS, OUTPUTS[:2])) == {"missing": 1}
    found = bad(judge(folder, QUESTIONS, [*OUTPUTS, OUTPUTS[1]]))
    assert found == {"duplicate": 1, "out_of_order": 1}
    assert bad(judge(folder, QUESTIONS[1:2], [OUTPUTS[1], Output("c 0", 1, None, [])]))["unknown"] == 1


def test_l3_disorder_and_lost_memory_are_found(folder: Path) -> None:
    assert bad(judge(folder, QUESTIONS, [OUTPUTS[2], OUTPUTS[0], OUTPUTS[1]])) == {"out_of_order": 2}
    forgotten = Output("a 1", 1, None, answers("a 1"))
    assert bad(judge(folder, QUESTIONS, [*OUTPUTS[:2], forgotten])) == {"out_of_order": 1}


def test_r1_payments_that_were_lost_or_doubled_are_found(folder: Path) -> None:
    note(folder, "effects", "a 0: paid")
    assert bad(judge(folder, QUESTIONS, OUTPUTS)) == {"effects_twice": 1}
    (folder / "effects").unlink()
    assert bad(judge(folder, QUESTIONS, OUTPUTS)) == {"effects_missing": 6}


def test_f8_a_payment_of_a_batch_that_timed_out_need_not_have_been_made(folder: Path) -> None:
    (folder / "effects").write_text("")
    outputs = [Output(o.question, o.place, o.previous, ["x", "y", "failed"]) for o in OUTPUTS]
    assert bad(judge(folder, QUESTIONS, outputs)) == {}
