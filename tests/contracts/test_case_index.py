"""Every promise and every case from the field has a test that carries its number.

A number counts in the name of a test (`test_f4_...`, `test_case_25_...`, `i1AndI2...` in Java), or in its
docstring or that of its module or class.
"""

from __future__ import annotations

import ast
import re
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]

CONTRACTS = {"L": 6, "F": 12, "R": 4, "X": 9, "I": 6, "D": 6, "S": 10, "P": 25, "K": 14}
"""Lost coroutines, futures, reconcilers, failures, interruption, identity, stores; the recovery protocol; Flink."""

CASES = {
    1: "a result that cannot be serialised, and the call after it",
    2: "an HTTP status error that the action handles",
    3: "errors of a model's client as it builds them",
    4: "an exception that holds a lock",
    5: "exceptions with constructors of their own",
    6: "an exception that counts as false",
    7: "exceptions that cause themselves or each other",
    8: "code that looks at the cause of a replayed failure",
    9: "a Java exception in a call",
    10: "the job is cancelled while a call runs",
    11: "a cancel that a library made up",
    12: "the exceptions that end a process",
    13: "equal messages, as literals and read from JSON",
    14: "sets under another hash seed",
    15: "a function that changes its argument",
    16: "two lambdas in each other's place",
    17: "a batch that another process takes up",
    18: "results in the order in which they came",
    19: "code that changed while runs are under way",
    20: "a batch whose time is over before all calls began",
    21: "equal events, and keys that look alike",
    22: "a kill between record and checkpoint",
    23: "an executor of an earlier attempt that still lives",
    24: "a result that is too large for the store",
    25: "a kill between attempts of a call",
    26: "an abandoned coroutine that cleans up",
    27: "tasks that outlive their action",
    28: "a wait that gives up before its call ends",
    29: "randomness of the user beside ids",
    30: "an action that changes what a call returned",
    31: "results that count as false",
    32: "ten thousand inputs behind one call",
    33: "a long back-off",
    34: "an answer after its time",
    35: "texts that are hard to write down",
    36: "numbers, sets and arrays as values and keys",
    37: "an interpreter that cannot run agents",
    38: "agents of scripts, functions and notebooks",
    39: "a worker that never ends during a cancel",
    40: "keys of unusual types",
    41: "a checkpoint during a late call of many",
    42: "another key's first input during a long call",
    43: "a crash before the first checkpoint",
    44: "a transient failure that nobody caught",
    45: "a thousand results of one action",
    46: "a store that is slow to answer at first",
    47: "a failure while another call has long to go",
    48: "streams and keys of all types",
    49: "a hundred blocking functions at a time",
    50: "a failure during the drain of the last input",
}

NUMBER = re.compile(r"(?<![A-Za-z0-9])([LFRXIDSPK])(\d{1,2})(?![0-9A-Za-z])")
RANGE = re.compile(r"(?<![A-Za-z0-9])([LFRXIDSPK])(\d{1,2}) to \1(\d{1,2})(?![0-9A-Za-z])")
CASE = re.compile(r"[Cc]ases? ?(\d{1,2}(?:(?:, | and | to )\d{1,2})*)")
JAVA_TEST = re.compile(r"(?:@Test|@ParameterizedTest)\b.*?\bvoid (\w+)\(", re.DOTALL)
JAVA_NUMBER = re.compile(r"(?:^|And)([lfrxidspk]|[LFRXIDSPK])(\d{1,2})(?=[A-Z]|And|$)")


def numbers_in(text: str) -> Iterator[str]:
    """The promises and cases that a text names."""
    for letter, first, last in RANGE.findall(text):
        yield from (f"{letter}{number}" for number in range(int(first), int(last) + 1))
    for letter, number in NUMBER.findall(text):
        yield f"{letter}{int(number)}"
    for found in CASE.findall(text):
        parts = re.split(r"(, | and | to )", found)
        yield from (f"case {int(part)}" for part in parts[::2])
        for first, between, last in zip(parts[::2], parts[1::2], parts[2::2], strict=False):
            if between == " to ":
                yield from (f"case {number}" for number in range(int(first), int(last)))


def numbers_of_name(name: str) -> Iterator[str]:
    """`test_f4_f5_...`, `test_case_25_...`, `test_s4_cases_22_and_43_...`."""
    name = re.sub(r"(case)(\d)", r"\1_\2", name.removeprefix("test_"))
    prefix = re.compile(r"(cases?_\d+(?:_and_\d+)*|[lfrxidspk]\d{1,2}|and)(?:_|$)")
    while found := prefix.match(name):
        word, name = found[1], name[found.end() :]
        if word.startswith("case"):
            yield from (f"case {int(number)}" for number in re.findall(r"\d+", word))
        elif word != "and":
            yield word.upper()


def python_tests() -> Iterator[tuple[str, str]]:
    """Each number that a test names, and the test."""
    for path in sorted([*ROOT.glob("tests/**/*.py"), *ROOT.glob("examples/test_*.py")]):
        if path == Path(__file__):
            continue
        tree = ast.parse(path.read_text(encoding="utf-8"))
        tests = [
            node
            for node in ast.walk(tree)
            if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)) and node.name.startswith("test")
        ]
        if not tests:
            continue
        place = str(path.relative_to(ROOT))
        for number in numbers_in(ast.get_docstring(tree) or ""):
            yield number, place
        for node in ast.walk(tree):
            if isinstance(node, ast.ClassDef):
                for number in numbers_in(ast.get_docstring(node) or ""):
                    yield number, f"{place}::{node.name}"
        for test in tests:
            for number in [*numbers_of_name(test.name), *numbers_in(ast.get_docstring(test) or "")]:
                yield number, f"{place}::{test.name}"


def java_tests() -> Iterator[tuple[str, str]]:
    """As `python_tests`."""
    for path in sorted(ROOT.glob("java-bridge/src/test/java/**/*Test.java")):
        for name in JAVA_TEST.findall(path.read_text(encoding="utf-8")):
            for letter, number in JAVA_NUMBER.findall(name):
                yield f"{letter.upper()}{int(number)}", f"{path.stem}.{name}"


def index() -> dict[str, list[str]]:
    """Number to tests."""
    found: dict[str, list[str]] = defaultdict(list)
    for number, test in [*python_tests(), *java_tests()]:
        found[number].append(test)
    return found


@pytest.fixture(scope="module")
def tests() -> dict[str, list[str]]:
    return index()


def test_every_contract_has_a_test(tests: dict[str, list[str]]) -> None:
    wanted = [f"{letter}{number}" for letter, last in CONTRACTS.items() for number in range(1, last + 1)]
    assert [number for number in wanted if number not in tests] == []


def test_every_case_has_a_test(tests: dict[str, list[str]]) -> None:
    assert list(CASES) == list(range(1, 51))
    assert [f"{number}: {title}" for number, title in CASES.items() if f"case {number}" not in tests] == []


def test_no_test_names_what_there_is_not(tests: dict[str, list[str]]) -> None:
    known = {f"{letter}{number}" for letter, last in CONTRACTS.items() for number in range(1, last + 1)}
    known |= {f"case {number}" for number in CASES}
    assert {number: names for number, names in tests.items() if number not in known} == {}


def test_the_index_reads_names_and_texts() -> None:
    assert list(numbers_of_name("test_s4_cases_22_and_43_a_killed_process")) == ["S4", "case 22", "case 43"]
    assert list(numbers_of_name("test_case_12_k5_an_interrupt_of_50_calls")) == ["case 12", "K5"]
    assert list(numbers_of_name("test_a_hundred_p1")) == []
    assert list(numbers_of_name("test_case_49_100_plain_calls")) == ["case 49"]
    text = "Cases 2, 3 and 5 to 7, X3; K1 to K3, UTF8 P256"
    assert set(numbers_in(text)) == {
        "K1",
        "K2",
        "K3",
        "X3",
        *(f"case {number}" for number in (2, 3, 5, 6, 7)),
    }
    assert JAVA_NUMBER.findall("k1AndS9Checkpoints") == [("k", "1"), ("S", "9")]
