"""Every exception of the cases, recorded here and read in another process.

    python -m tests.engine.exception_table

prints a line for each: how it replays, how many bytes its record has, and what an action reads of it.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import cloudpickle  # type: ignore[import-untyped]

from flink_agents_durable.engine.failures import encode_failure
from flink_agents_durable.engine.payload import PayloadCodec
from tests.engine.exceptions.cases import Case, Places, caught_by, read
from tests.engine.exceptions.clients import client_cases
from tests.engine.exceptions.own import own_cases
from tests.engine.exceptions.server import closed_port, failing_server, silent_port

CHILD_SECONDS = 120
"""Bounds a child that hangs; it imports a dozen client libraries."""


@dataclass(frozen=True)
class Line:
    """One exception: as it was raised, as it was recorded, as it replays in another process."""

    case: Case
    path: str
    record: bytes
    caught: list[str]
    text: str
    values: dict[str, str]
    replayed: dict[str, Any]


def make_table() -> list[Line]:
    """Raise, record and replay all."""
    cases = [*own_cases(), *client_cases()]
    with failing_server() as url, silent_port() as silent:
        places = Places(url, silent, closed_port())
        errors = [case.make(places) for case in cases]
    closure = next(error for case, error in zip(cases, errors, strict=True) if case.name == "closure")
    classes = {"Local": type(closure)}
    codec = PayloadCodec(classes, "plan")
    records = [encode_failure(error, codec) for error in errors]
    replayed = _replay(cloudpickle.dumps(classes), cases, records)
    return [
        Line(
            case,
            f"{type(error).__module__}.{type(error).__qualname__}",
            record,
            caught_by(error),
            str(error),
            read(error, case.expressions),
            replayed[case.name],
        )
        for case, error, record in zip(cases, errors, records, strict=True)
    ]


def _replay(plan: bytes, cases: list[Case], records: list[bytes]) -> dict[str, Any]:
    named = {case.name: (record, list(case.expressions)) for case, record in zip(cases, records, strict=True)}
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "records")
        path.write_bytes(cloudpickle.dumps((plan, named)))
        done = subprocess.run(
            [sys.executable, "-m", "tests.engine.exceptions.replay", str(path)],
            env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path)), "PYTHONHASHSEED": "3"},
            cwd=Path(__file__).parents[2],
            capture_output=True, text=True, timeout=CHILD_SECONDS, check=False,
        )  # fmt: skip
    if done.returncode != 0:
        raise RuntimeError(done.stderr)
    return json.loads(done.stdout)  # type: ignore[no-any-return]


def main() -> None:
    for line in make_table():
        outcome = "substitute" if line.replayed["substitute"] else "pickled"
        print(f"{line.case.name:28} {line.path:48} {outcome:10} {len(line.record):6} bytes")
        for expression, value in line.values.items():
            again = line.replayed["values"][expression]
            same = "" if again == value else f"   REPLAYS AS {again[:150]}"
            print(f"    {expression} = {value[:90]}{same}")
        missing = [path for path in line.caught if path not in line.replayed["caught"]]
        if missing:
            print(f"    NOT CAUGHT BY {missing}: {line.replayed['text'][:100]}")


if __name__ == "__main__":
    main()
