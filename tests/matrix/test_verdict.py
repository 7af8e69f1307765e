"""The verdict on a cell finds what it is there for."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from tests.matrix.agent import DOUBT, FIRST
from tests.matrix.cells import Cell
from tests.matrix.journal import Slots
from tests.matrix.verdict import Ledger, problems

CELL = Cell("lock", "plain", True, "kill")
VIEW: dict[str, Any] = {
    "clauses": ["tests.LockedError"],
    "status": None,
    "retry_after": None,
    "limit": 7,
    "runtime": False,
    "text": "it holds a lock",
}
REPLAYED = {**VIEW, "runtime": True, "text": "tests.matrix.agent.LockedError: it holds a lock"}
HELD = Slots(reserved={(1, 0), (1, 1)}, ended={(1, 0)})
ENDED = Slots(reserved={(1, 0), (1, 1)}, ended={(1, 0), (1, 1)})


def ledger(**changed: Any) -> Ledger:
    """Of one cell whose job was lost once, as it should be."""
    fields: dict[str, Any] = {
        "calls": Counter({(CELL.name, FIRST, ""): 1, (CELL.name, DOUBT, ""): 1}),
        "reconciled": Counter({(CELL.name, DOUBT): 1}),
        "lives": Counter({CELL.name: 2}),
        "seen": {(CELL.name, FIRST): [VIEW, REPLAYED], (CELL.name, DOUBT): [VIEW]},
        "outputs": Counter({CELL.name: 1}),
    }
    return Ledger(**{**fields, **changed})


def test_a_cell_that_is_right() -> None:
    assert problems(CELL, ledger(), HELD, ENDED) == []


@pytest.mark.parametrize(
    ("changed", "word"),
    [
        ({"calls": Counter({(CELL.name, FIRST, ""): 2, (CELL.name, DOUBT, ""): 1})}, "first call"),
        ({"calls": Counter({(CELL.name, FIRST, ""): 1, (CELL.name, DOUBT, ""): 2})}, "in doubt"),
        ({"reconciled": Counter()}, "reconciled"),
        ({"reconciled": Counter({(CELL.name, FIRST): 1, (CELL.name, DOUBT): 1})}, "reconciled"),
        ({"lives": Counter({CELL.name: 1})}, "not lost"),
        ({"outputs": Counter({CELL.name: 2})}, "outputs"),
        ({"outputs": Counter()}, "outputs"),
        ({"seen": {(CELL.name, FIRST): [VIEW], (CELL.name, DOUBT): [VIEW]}}, "seen"),
    ],
)
def test_what_is_wrong_is_found(changed: dict[str, Any], word: str) -> None:
    assert word in "; ".join(problems(CELL, ledger(**changed), HELD, ENDED))


@pytest.mark.parametrize(
    ("changed", "word"),
    [({"clauses": []}, "except"), ({"limit": None}, "attributes"), ({"text": "another"}, "text")],
)
def test_another_view_after_the_replay_is_found(changed: dict[str, Any], word: str) -> None:
    seen = {(CELL.name, FIRST): [VIEW, {**REPLAYED, **changed}], (CELL.name, DOUBT): [VIEW]}
    (only,) = problems(CELL, ledger(seen=seen), HELD, ENDED)
    assert word in only


def test_slots_that_are_pending_or_not_are_found() -> None:
    assert "0 slots pending while" in problems(CELL, ledger(), ENDED, ENDED)[0]
    assert "1 slots pending at the end" in problems(CELL, ledger(), HELD, HELD)[0]
    assert problems(CELL, ledger(), HELD, Slots(ENDED.reserved, ENDED.ended, [7])) == ["records of kinds [7]"]
