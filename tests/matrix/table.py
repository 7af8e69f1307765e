"""The results as a page."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from tests.matrix.cells import CALLS, FAILOVERS, FORMS, INTERRUPTIONS, Cell

LETTERS = {"exception": "E", "cancel": "C", "kill": "K"}

TITLES = {
    "sync": "synchronous",
    "plain": "plain function",
    "async": "`async def`",
    "gather": "in a gather",
}

HEAD = """# Calls, outcomes and failures

Written by `tools/matrix`: {right} of {all} runs of cells are right. Each cell is an input of a real PyFlink job
with the {store} store, on a cluster of its own. It makes a call that ends before the job is lost and one that is under
way when it is lost, and counts as right when all of this holds:

- each call was made as often as it should be: a recorded one once, one in doubt once more, or its reconciler in
  its place;
- the `except` clauses of the action saw the same before and after, by class, attributes and text;
- there was one output;
- the slots that were pending in the journal while the calls were held, and at the end, are those that should be.

The job is lost by an **E**xception in another action, by **C**ancel and restore from a checkpoint that is older
than all calls, or by a SIG**K**ILL of the TaskManager. An interruption ends an attempt by itself as well; each of
its shapes is combined with each form once. A letter in brackets is a cell that is not right. `+r`: with a reconciler.
"""


def write_table(path: Path, found: Mapping[str, Sequence[str]], store: str) -> None:
    columns = [(form, reconciler) for form in FORMS for reconciler in (False, True)]
    header = ["outcome of the call", *(TITLES[form] + (" +r" if kept else "") for form, kept in columns)]
    rows = [header, ["---"] * len(header)]
    titles = {**CALLS, **{outcome: title for outcome, (_, title) in INTERRUPTIONS.items()}}
    for outcome, title in titles.items():
        cells = [
            "".join(letter(Cell(outcome, form, kept, failover), found) for failover in FAILOVERS)
            for form, kept in columns
        ]
        rows.append([title, *cells])
    table = "\n".join(f"| {' | '.join(row)} |" for row in rows)
    right = sum(not wrong for wrong in found.values())
    path.write_text(f"{HEAD.format(right=right, all=len(found), store=store.capitalize())}\n{table}\n")


def letter(cell: Cell, found: Mapping[str, Sequence[str]]) -> str:
    wrong = found.get(cell.name)
    if wrong is None:
        return ""
    return f"({LETTERS[cell.failover]})" if wrong else LETTERS[cell.failover]
