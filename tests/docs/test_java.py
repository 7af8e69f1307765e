"""Each snippet of docs/java.md is compiled or run, and its table names the whole API."""

from __future__ import annotations

import re
from pathlib import Path

from tests.java_sources import EXAMPLE_SOURCES, compile_java

ROOT = Path(__file__).resolve().parents[2]
DOCUMENT = (ROOT / "docs" / "java.md").read_text()
BLOCKS = re.findall(r"^```(\w+)\n(.*?)^```$", DOCUMENT, re.MULTILINE | re.DOTALL)
API = ROOT / "java-bridge/src/main/java/org/flinkagents/durable/api"
INTERNAL = {"Values"}

STATEMENTS = """
import java.io.*;
import java.time.*;
import java.util.*;
import java.util.concurrent.*;
import org.flinkagents.durable.api.*;

class Snippet%d {
    void act(Event event, RunnerContext ctx) throws Exception {
%s
    }
}
"""


def test_snippets_in_java_compile(tmp_path: Path) -> None:
    sources = []
    blocks = [text for language, text in BLOCKS if language == "java"]
    for number, text in enumerate(blocks):
        path = tmp_path / f"Block{number}.java"
        path.write_text(text if text.startswith("import ") else STATEMENTS % (number, text))
        sources.append(path)
    assert len(sources) == 2
    # Agents of users have no serialVersionUID either.
    compile_java([*EXAMPLE_SOURCES, *sources], tmp_path / "classes", "-Xlint:-serial")


def test_snippets_in_python_run() -> None:
    for language, text in BLOCKS:
        if language == "python":
            exec(compile(text, "java.md", "exec"), {"__name__": "java_document"})


def test_commands_say_which_test_runs_them() -> None:
    blocks = [text for language, text in BLOCKS if language == "bash"]
    assert blocks
    for text in blocks:
        said = re.match(r"# run by (\S+\.py)\n", text)
        assert said is not None, text
        assert (ROOT / said[1]).exists()


def test_the_table_names_every_public_class() -> None:
    table = re.search(r"^## The API$(.*?)^```", DOCUMENT, re.MULTILINE | re.DOTALL)
    assert table is not None
    named = set(re.findall(r"`@?(\w+)`", table[1]))
    classes = {path.stem for path in API.glob("*.java") if "\npublic " in path.read_text()}
    assert classes - INTERNAL <= named, classes - INTERNAL - named


def test_links_lead_to_files() -> None:
    for target in re.findall(r"\]\(([^)#]+)\)", DOCUMENT):
        assert (ROOT / "docs" / target).exists(), target
