"""Each command in the documents on deployment is run by a test, or says that it is not; each promise has its row."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.contracts.test_case_index import CONTRACTS, index

ROOT = Path(__file__).resolve().parents[2]
DEPLOYMENT = (ROOT / "docs" / "deployment.md").read_text()
GUARANTEES = (ROOT / "docs" / "guarantees.md").read_text()
RECOVERY_PROTOCOL = "PK"
"""Of its rules the index itself is the list."""


@pytest.mark.parametrize("block", re.findall(r"^```(?:bash|dockerfile)\n(.*?)^```$", DEPLOYMENT, re.M | re.S))
def test_commands_are_run_or_say_that_they_are_not(block: str) -> None:
    said = block.splitlines()[0]
    run_by = re.match(r"# run by (\S+\.py)", said)
    assert run_by or said == "# not run by the tests", said
    assert run_by is None or (ROOT / run_by[1]).exists()


def test_each_promise_has_a_row_whose_tests_carry_its_number() -> None:
    tests = index()
    rows = dict(re.findall(r"^\| ([A-Z]\d+) \|.*\| ([^|]+) \|$", GUARANTEES, re.M))
    numbers = [
        f"{letter}{number}"
        for letter, last in CONTRACTS.items()
        if letter not in RECOVERY_PROTOCOL
        for number in range(1, last + 1)
    ]
    assert sorted(rows) == sorted(numbers)
    for number, cell in rows.items():
        files = re.findall(r"`([^`]+)`", cell)
        assert files, number
        known = {re.split(r"::|\.(?=\w+$)(?!py)", test)[0] for test in tests[number]}
        assert set(files) <= known, (number, set(files) - known)
