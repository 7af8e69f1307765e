"""The README's snippets run, its table of options is complete, and its links lead somewhere."""

from __future__ import annotations

import os
import re
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from flink_agents_durable import AgentOptions

ROOT = Path(__file__).resolve().parents[2]
README = (ROOT / "README.md").read_text()
BLOCKS = re.findall(r"^```(\w+)\n(.*?)^```$", README, re.MULTILINE | re.DOTALL)
PYTHON = [text for language, text in BLOCKS if language == "python"]
EXAMPLES = {path.name: path.read_text() for path in (ROOT / "examples").glob("*.py")}


def test_every_snippet_is_python_or_shell() -> None:
    assert {language for language, _ in BLOCKS} == {"python", "bash"}


@pytest.mark.parametrize("snippet", PYTHON, ids=lambda text: text.strip().splitlines()[0][:40])
def test_python_snippets_run(snippet: str) -> None:
    if snippet in EXAMPLES.values():
        return  # a whole example, which tests of its own run
    exec(compile(snippet, "README.md", "exec"), {"__name__": "readme"})


def test_the_agent_and_its_test_are_the_examples() -> None:
    shown = {name for name, text in EXAMPLES.items() if text in PYTHON}
    assert shown == {"quickstart.py", "test_quickstart.py"}


def test_the_agent_has_twenty_lines() -> None:
    code = [line for line in EXAMPLES["quickstart.py"].splitlines() if line.strip()]
    assert len(code) <= 21  # a docstring that says how to run it, and the agent


def test_shell_snippets_name_programs_of_the_checkout() -> None:
    lines = [line for language, text in BLOCKS if language == "bash" for line in text.splitlines()]
    for program in (line.split()[0] for line in lines if line and not line.startswith("#")):
        assert os.access(ROOT / program, os.X_OK), program


def test_the_table_of_options_is_complete_and_its_defaults_are_right() -> None:
    rows = dict(re.findall(r"^\| `(agents\.[^`]+)` \| (.+?) \|", README, re.MULTILINE))
    works = {option.key: option for option in AgentOptions.all()}
    assert set(rows) == set(works)
    for key, option in works.items():
        if option.default not in (None, ""):
            assert shown_default(option.default) == rows[key].strip("`"), key


def shown_default(value: Any) -> str:
    if isinstance(value, timedelta):
        return f"{value.total_seconds():g} s"
    return str(value).lower() if isinstance(value, bool) else str(value)


def test_links_lead_to_files() -> None:
    targets = re.findall(r"\]\(([^)#]+)\)", README)
    assert targets
    for target in targets:
        assert (ROOT / target).exists(), target
