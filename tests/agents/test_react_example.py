"""L4 on Flink: the example as a user runs it, with a failed task and a model call that times out."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLE = Path(__file__).resolve().parents[2] / "examples" / "react_agent_example.py"


@pytest.mark.timeout(600)
def test_l4_the_example_ends_with_one_answer_an_input_and_no_call_repeated() -> None:
    done = subprocess.run(
        [sys.executable, str(EXAMPLE), "--failover", "2", "--model-timeout", "3"],
        capture_output=True,
        text=True,
        timeout=570,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    last = done.stdout.strip().splitlines()[-1]
    assert last == "OK: inputs 12, answers 12, failovers 2, model calls repeated 0"
    assert "SCRIPTED" in done.stdout
    assert re.search(
        r"failover 1: an operator of the job failed; [1-9]\d* model calls were in flight", done.stdout
    )
    assert "failover 2: a model call exceeded its 3 s" in done.stdout
