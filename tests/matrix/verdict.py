"""What must hold for a cell, by what its calls and its action have left in the ledger, and by its journal."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.matrix.agent import ANSWER, DOUBT, FIRST
from tests.matrix.cells import Cell
from tests.matrix.journal import Slots
from tests.soak.notes import lines

EXPECTED_CLAUSES = {
    "httpx": ["httpx.HTTPStatusError", "httpx.HTTPError"],
    "openai": ["openai.RateLimitError", "openai.APIStatusError"],
    "anthropic": ["anthropic.RateLimitError", "anthropic.APIStatusError"],
    "lock": ["tests.LockedError"],
    "attributes": ["tests.QuotaError"],
}
EXPECTED_ATTRIBUTES = {
    "httpx": (429, "7", None),
    "openai": (429, "7", None),
    "anthropic": (429, "7", None),
    "lock": (None, None, 7),
    "attributes": (None, None, 9),
}
MEMBERS = {"gather": ["before", "", "after"]}


@dataclass(frozen=True)
class Ledger:
    """What all lives of a job have left, by name of cell."""

    calls: Counter[tuple[str, str, str]]
    """By cell, stage, and member of a batch."""
    reconciled: Counter[tuple[str, str]]
    lives: Counter[str]
    seen: dict[tuple[str, str], list[dict[str, Any]]]
    outputs: Counter[str]

    @staticmethod
    def read(folder: Path, outputs: list[str]) -> Ledger:
        seen: dict[tuple[str, str], list[dict[str, Any]]] = {}
        for name, stage, view in lines(folder, "seen"):
            seen.setdefault((name, stage), []).append(view)
        return Ledger(
            Counter((name, stage, member) for name, stage, member in lines(folder, "calls")),
            Counter((name, stage) for name, stage in lines(folder, "reconciled")),
            Counter(name for (name,) in lines(folder, "lives")),
            seen,
            Counter(outputs),
        )


def problems(cell: Cell, ledger: Ledger, while_held: Slots, at_the_end: Slots) -> list[str]:
    """What is wrong with a cell; nothing, if all is as it should be."""
    found = [
        *wrong_first_calls(cell, ledger),
        *wrong_calls_in_doubt(cell, ledger),
        *wrong_views(cell, ledger),
        *wrong_slots(cell, while_held, at_the_end),
    ]
    if ledger.outputs[cell.name] != 1:
        found.append(f"{ledger.outputs[cell.name]} outputs")
    if ledger.lives[cell.name] < 2:
        found.append("the job was not lost")
    return found


def wrong_first_calls(cell: Cell, ledger: Ledger) -> list[str]:
    """Keeps L2 and I2: recorded outcomes replay; an interrupted call runs again, or its reconciler does."""
    found = []
    again = cell.is_interruption and not cell.reconciler
    for member in MEMBERS.get(cell.form, [""]):
        made = ledger.calls[(cell.name, FIRST, member)]
        # An interruption ends the batch, maybe before the others have ended.
        allowed = {1, 2} if member and cell.is_interruption else {2 if again else 1}
        if made not in allowed:
            found.append(f"the first call {member} was made {made} times instead of {sorted(allowed)}")
    reconciled = ledger.reconciled[(cell.name, FIRST)]
    if reconciled != (1 if cell.is_interruption and cell.reconciler else 0):
        found.append(f"the first call was reconciled {reconciled} times")
    return found


def wrong_calls_in_doubt(cell: Cell, ledger: Ledger) -> list[str]:
    """Keeps R2, I4, F9: a call that was under way runs once in each life, or its reconciler does."""
    found = []
    lives = ledger.lives[cell.name] - cell.is_interruption
    for member in MEMBERS.get(cell.form, [""]):
        made = ledger.calls[(cell.name, DOUBT, member)]
        reconciles = cell.reconciler and not member
        # Later interruptions of the job may end a life before it has come so far.
        allowed = range(2, lives + 1) if cell.is_interruption else range(lives, lives + 1)
        if made not in ({1} if reconciles else allowed):
            found.append(f"the call in doubt {member} was made {made} times in {lives} lives")
    reconciled = ledger.reconciled[(cell.name, DOUBT)]
    again = range(1, lives) if cell.is_interruption else range(lives - 1, lives)
    if reconciled not in (again if cell.reconciler else {0}):
        found.append(f"the call in doubt was reconciled {reconciled} times")
    return found


def wrong_views(cell: Cell, ledger: Ledger) -> list[str]:
    """Keeps X2, X3, X4, X9: `except` sees the same in each life, by classes, attributes and text."""
    found = []
    first = ledger.seen.get((cell.name, FIRST), [])
    if cell.is_interruption:
        # A batch may end with the interruption before its action sees it.
        interrupted = [view for view in first if view.get("answer") != ANSWER]
        if len(interrupted) > 1 or (cell.form != "gather" and not interrupted):
            found.append(f"the interruption was seen {len(interrupted)} times")
        first = [view for view in first if view not in interrupted]
        in_doubt = "success"
    else:
        in_doubt = cell.outcome
    if len(first) < 2:
        found.append(f"the first outcome was seen {len(first)} times")
    last = ledger.seen.get((cell.name, DOUBT), [])
    if len(last) != 1:
        found.append(f"the outcome in doubt was seen {len(last)} times")
    for view in first:
        found += wrong_view(view, "success" if cell.is_interruption else cell.outcome, first[0])
    for view in last:
        found += wrong_view(view, in_doubt, view)
    return found


def wrong_view(view: dict[str, Any], outcome: str, original: dict[str, Any]) -> list[str]:
    if outcome == "success":
        return [] if view.get("answer") == ANSWER else [f"{view} instead of {ANSWER!r}"]
    if "answer" in view:
        return [f"{view} instead of a failure"]
    found = []
    if view["clauses"] != EXPECTED_CLAUSES.get(outcome, []):
        found.append(f"`except` matches {view['clauses']}")
    if outcome == "java-failure" and not view["runtime"]:
        found.append("a Java failure that is no RuntimeError")
    attributes = (view["status"], view["retry_after"], view["limit"])
    if attributes != EXPECTED_ATTRIBUTES.get(outcome, (None, None, None)):
        found.append(f"attributes {attributes}")
    if not view["text"].endswith(original["text"]):
        found.append(f"text {view['text']!r}, at first {original['text']!r}")
    return found


def wrong_slots(cell: Cell, while_held: Slots, at_the_end: Slots) -> list[str]:
    """Keeps R1, P10, F4: pending are the slots of calls in doubt that were reserved before they began."""
    expected = 3 if cell.form == "gather" else int(cell.reconciler)
    found = []
    if while_held.pending != expected:
        found.append(f"{while_held.pending} slots pending while its call was held, instead of {expected}")
    if at_the_end.pending:
        found.append(f"{at_the_end.pending} slots pending at the end")
    each = 3 if cell.form == "gather" else 1
    if len(while_held.ended) != each or len(at_the_end.ended) != 2 * each:
        found.append(f"{len(while_held.ended)} slots ended while held, {len(at_the_end.ended)} at the end")
    if at_the_end.others:
        found.append(f"records of kinds {at_the_end.others}")
    return found
