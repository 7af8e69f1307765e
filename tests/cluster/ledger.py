"""What durable functions leave behind, in files that all processes of this machine share; and what must hold."""

from __future__ import annotations

import json
import os
from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path


def note(folder: str | Path, name: str, *fields: object) -> None:
    """One line more: in one write, so that lines of several threads and processes stay whole."""
    file = os.open(os.path.join(folder, name), os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    try:
        os.write(file, (json.dumps(fields) + "\n").encode())
    finally:
        os.close(file)


def lines(folder: str | Path, name: str) -> list[list[object]]:
    path = Path(folder, name)
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


@dataclass(frozen=True)
class Start:
    """A durable function began: for an input, in a phase of its action; phases follow one another."""

    question: str
    phase: int
    name: str
    pid: int


def starts(folder: Path) -> list[Start]:
    return [Start(*fields) for fields in lines(folder, "starts")]  # type: ignore[arg-type]


def assert_no_recorded_call_ran_again(
    starts: Sequence[Start], questions: list[str], phases: int, lives: int
) -> None:
    """Keeps L2, S4: the calls of a phase are recorded once the next phase has begun.

    What was not recorded runs again, once for each life of a TaskManager at most.
    """
    reached: dict[str, int] = defaultdict(int)
    seen: Counter[tuple[str, int, str]] = Counter()
    for start in starts:
        assert start.phase >= reached[start.question], (
            f"{start.question!r}: call {start.name} of phase {start.phase} ran again after phase "
            f"{reached[start.question]} had begun"
        )
        reached[start.question] = start.phase
        seen[(start.question, start.phase, start.name)] += 1
    assert reached == dict.fromkeys(questions, phases - 1)
    assert max(seen.values()) <= lives


def assert_each_effect_once(folder: Path, expected: list[str]) -> None:
    """Keeps R1, R2: a call in doubt is reconciled."""
    assert Counter(str(fields[0]) for fields in lines(folder, "effects")) == Counter(expected)


def committed(folder: Path) -> list[list[object]]:
    """What a reader of the transactional sink sees."""
    files = [path for path in folder.glob("sink/*/part-*") if not path.name.startswith(".")]
    return [json.loads(line) for path in files for line in path.read_text().splitlines()]
