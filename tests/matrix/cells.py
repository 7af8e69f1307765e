"""The matrix: what a call ends with, in what form it is made, how the job is lost. A cell is one of each."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable

CALLS = {
    "httpx": "httpx.HTTPStatusError of raise_for_status()",
    "openai": "openai.RateLimitError of the SDK",
    "anthropic": "anthropic.RateLimitError of the SDK",
    "lock": "an exception that holds a lock",
    "attributes": "a picklable exception with attributes",
    "success": "success",
    "java-failure": "a Java failure that is no interruption",
}
"""Outcomes that are recorded."""

INTERRUPTIONS = {
    "interrupted": ("interrupted", "Java: InterruptedException"),
    "closed": ("closed-by-interrupt:5", "Java: ClosedByInterruptException, five causes down"),
    "cancelled": ("cancelled:1", "Java: CancellationException as a cause"),
    "asleep": ("sleep", "Java: a sleep that is interrupted"),
    "wrapped": ("from/interrupted", "Java: interrupted, wrapped by Python"),
    "rewrapped": ("from from/cancelled:2", "Java: cancelled, wrapped twice by Python"),
}
"""Shapes of interruptions, which end the attempt by themselves: how `Throwers` and Python make them."""

JAVA_FAILURE = "interrupted-io"

FORMS = ("sync", "plain", "async", "gather")
FAILOVERS = {"exception": "exception", "cancel": "cancel and restore", "kill": "SIGKILL"}


@dataclasses.dataclass(frozen=True)
class Cell:
    outcome: str
    form: str
    reconciler: bool
    failover: str

    @property
    def name(self) -> str:
        """Also the key of its input."""
        return f"{self.outcome}|{self.form}|{'reconciler' if self.reconciler else 'bare'}|{self.failover}"

    @property
    def is_interruption(self) -> bool:
        return self.outcome in INTERRUPTIONS

    @staticmethod
    def parse(name: str) -> Cell:
        outcome, form, reconciler, failover = name.split("|")
        return Cell(outcome, form, reconciler == "reconciler", failover)


def matrix() -> list[Cell]:
    """216 cells: all of the recorded outcomes; of the interruptions a third, so that each pair of values occurs.

    An interruption costs a restart of its job, and each of its shapes meets each form under one failover.
    """
    forms = [(form, reconciler) for form in FORMS for reconciler in (False, True)]
    cells = [
        Cell(outcome, form, reconciler, failover)
        for failover in FAILOVERS
        for outcome in CALLS
        for form, reconciler in forms
    ]
    for number, outcome in enumerate(INTERRUPTIONS):
        for place, (form, reconciler) in enumerate(forms):
            cells.append(Cell(outcome, form, reconciler, list(FAILOVERS)[(number + place) % len(FAILOVERS)]))
    return cells


def sample() -> list[Cell]:
    """For continuous integration: one job, each outcome that is recorded, each form, two interruptions."""
    forms = [(form, reconciler) for reconciler in (True, False) for form in FORMS]
    cells = [Cell(outcome, *forms[place], "exception") for place, outcome in enumerate(CALLS)]
    return [
        *cells,
        Cell("interrupted", "async", True, "exception"),
        Cell("rewrapped", "gather", False, "exception"),
    ]


def pairs(cells: Iterable[Cell]) -> set[tuple[str, str]]:
    """The pairs of values that occur; values of different kinds have different names."""
    found = set()
    for cell in cells:
        form = f"{cell.form}, {cell.reconciler}"
        found |= {(cell.outcome, form), (cell.outcome, cell.failover), (form, cell.failover)}
    return found
