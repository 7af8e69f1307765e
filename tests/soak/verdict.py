"""What a soak must not have done: losses, duplicates, repeated calls, disorder; by its ledger alone."""

from __future__ import annotations

import dataclasses
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from tests.soak.notes import lines

PAYMENTS = ("paid", "paid too")


@dataclasses.dataclass(frozen=True)
class Output:
    """Answered: the question, its place among those of its key, the one before it, and the answers of its calls."""

    question: str
    place: int
    previous: str | None
    answers: list[str]


@dataclasses.dataclass(frozen=True)
class Start:
    """A durable function began, in a phase of its action, with the answers of the phases before."""

    question: str
    phase: int
    name: str
    carried: list[str]
    pid: int


@dataclasses.dataclass(frozen=True)
class Verdict:
    inputs: int
    outputs: int
    missing: int
    duplicate: int
    unknown: int
    calls: int
    """Distinct durable calls."""
    made: int
    """Times that they began: retries, calls that were lost or in doubt."""
    repeated: int
    """Began again after a call of a later phase had begun, which it only does with their recorded answers."""
    diverged: int
    """A call that had been recorded was answered differently later."""
    reconciled: int
    effects_missing: int
    """Payments that an output says were made, and were not."""
    effects_twice: int
    out_of_order: int
    """Outputs of a key in another order than its inputs, or with other memory."""

    def is_good(self) -> bool:
        bad = (self.missing, self.duplicate, self.unknown, self.repeated, self.diverged, self.out_of_order)
        return not any((*bad, self.effects_missing, self.effects_twice))

    def table(self) -> str:
        ratio = self.made / self.calls if self.calls else 0.0
        rows = [
            f"{name.replace('_', ' '):<18} {value:>8}" for name, value in dataclasses.asdict(self).items()
        ]
        return "\n".join([*rows, f"{'made per call':<18} {ratio:>8.2f}"])


def judge(folder: Path, questions: Sequence[str], outputs: Sequence[Output]) -> Verdict:
    """`questions` in the order in which they were sent, `outputs` in the order of a transactional reader."""
    starts = [Start(*fields) for fields in lines(folder, "starts")]
    known = set(questions)
    answered = Counter(output.question for output in outputs)
    effects = Counter(str(fields[0]) for fields in lines(folder, "effects"))
    # Of a batch that ended by its timeout before the payment began, the action knows that it has no answer.
    paid = [
        f"{output.question}: {name}"
        for output in outputs
        for name in PAYMENTS
        if f"{name} of {output.question}" in output.answers
    ]
    return Verdict(
        inputs=len(questions),
        outputs=len(outputs),
        missing=len(known - answered.keys()),
        duplicate=sum(count - 1 for count in answered.values()),
        unknown=len(answered.keys() - known),
        calls=len({(start.question, start.phase, start.name) for start in starts}),
        made=len(starts),
        repeated=sum(1 for _ in repeated(starts)),
        diverged=diverged(starts, outputs),
        reconciled=len(lines(folder, "reconciled")),
        effects_missing=sum(1 for effect in set(paid) if not effects[effect]),
        effects_twice=sum(count - 1 for count in effects.values()),
        out_of_order=sum(1 for _ in out_of_order(questions, outputs)),
    )


def repeated(starts: Iterable[Start]) -> Iterable[Start]:
    """Keeps L2, S4."""
    reached: dict[str, int] = defaultdict(int)
    for start in starts:
        if start.phase < reached[start.question]:
            yield start
        reached[start.question] = max(reached[start.question], start.phase)


def diverged(starts: Iterable[Start], outputs: Iterable[Output]) -> int:
    """Starts whose earlier answers are not those of the output, or of an earlier start where there is none."""
    final = {output.question: output.answers for output in outputs}
    longest: dict[str, list[str]] = {}
    count = 0
    for start in starts:
        seen = final.get(start.question, longest.get(start.question, []))
        common = min(len(seen), len(start.carried))
        count += start.carried[:common] != seen[:common]
        if len(start.carried) > len(longest.get(start.question, [])):
            longest[start.question] = start.carried
    return count


def out_of_order(questions: Sequence[str], outputs: Sequence[Output]) -> Iterable[Output]:
    """Keeps L3, S5: each key's outputs in the order of its inputs, with the memory that the ones before left."""
    expected: dict[str, list[str]] = defaultdict(list)
    for question in questions:
        expected[key_of(question)].append(question)
    places: Counter[str] = Counter()
    for output in outputs:
        key = key_of(output.question)
        place = places[key]
        places[key] += 1
        previous = expected[key][place - 1] if place else None
        wanted: tuple[Any, ...] = (expected[key][place : place + 1], place + 1, previous)
        if ([output.question], output.place, output.previous) != wanted:
            yield output


def key_of(question: str) -> str:
    return question.rsplit(" ", 1)[0]
