"""The small examples, as jobs."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.flink.programs import run_program
from tests.java_sources import EXAMPLE_SOURCES, compile_java, jar_of

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"


@pytest.mark.parametrize(
    ("name", "lines"),
    [
        ("quickstart.py", ["anna: positive", "bob: negative"]),
        (
            "parallel_calls.py",
            [
                "10 points, good night (fr), checked: False; good night (de), good night (es); "
                "not checked in time"
            ],
        ),
        (
            "human_approval.py",
            [
                "A-17       40  approved",
                "B-23       15  approved",
                "C-42      900  rejected: too much for one order",
                "D-99       65  no answer in time",
            ],
        ),
    ],
)
def test_an_example_prints_its_results(tmp_path: Path, name: str, lines: list[str]) -> None:
    result = run_program(EXAMPLES / name, cwd=tmp_path)
    assert result.returncode == 0, result.stderr[-5000:]
    for line in lines:
        assert line in result.stdout


def test_a_python_agent_with_an_action_in_java(tmp_path: Path) -> None:
    compile_java(EXAMPLE_SOURCES, tmp_path / "classes")
    jar = jar_of(tmp_path / "classes", tmp_path / "prices.jar")
    result = run_program(EXAMPLES / "mixed_agent.py", jar, cwd=tmp_path)
    assert result.returncode == 0, result.stderr[-5000:]
    for line in (
        "anna: tea, 350 cents of 350",
        "bob: cake, 420 cents of 420",
        "anna: cake, 420 cents of 770",
    ):
        assert line in result.stdout
