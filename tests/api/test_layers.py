"""Imports point downwards only, and the engine does no I/O and knows neither threads, a clock nor Flink."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

import flink_agents_durable

PACKAGE = Path(flink_agents_durable.__file__).parent

BELOW: dict[str, set[str]] = {
    "api": set(),
    "models": {"api"},
    "engine": {"api"},
    "store": {"api", "engine"},
    "agents": {"api", "models", "engine"},
    "runtime": {"api", "engine", "store"},
    "flink": {"api", "engine", "runtime", "agents"},
    "testing": {"api", "engine", "runtime", "store", "agents"},
}

ALLOWED = """
    __future__ asyncio base64 binascii bisect builtins cloudpickle collections contextlib contextvars
    dataclasses datetime decimal dis enum fractions functools hashlib heapq importlib inspect io json
    logging math msgspec numpy pathlib pickle pydantic random re struct sys threading traceback types
    typing urllib.parse uuid weakref zoneinfo
"""
ENGINE_MAY_IMPORT = frozenset(ALLOWED.split())
"""No socket, file, process, clock or Flink. `io` is for buffers in memory, `pathlib` and `urllib.parse` for values
to digest and texts to scrub, `threading` for the identity of the task thread and a lock around shared classes."""

FROM_THREADING = {"get_ident", "Lock"}


def imports(path: Path) -> Iterator[tuple[str, str]]:
    """Module and name of each import, also of those inside functions."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield alias.name, ""
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: a relative import"
            for alias in node.names:
                yield node.module or "", alias.name


def files(layer: str) -> list[Path]:
    return sorted((PACKAGE / layer).rglob("*.py"))


def test_every_folder_has_its_place() -> None:
    folders = {path.name for path in PACKAGE.iterdir() if (path / "__init__.py").exists()}
    assert folders == set(BELOW)


@pytest.mark.parametrize("layer", sorted(BELOW))
def test_imports_point_downwards(layer: str) -> None:
    for path in files(layer):
        for module, _ in imports(path):
            if module.startswith("flink_agents_durable."):
                other = module.split(".")[1]
                assert other == layer or other in BELOW[layer], f"{path} imports {module}"


def test_the_engine_imports_nothing_that_does_io() -> None:
    for path in files("engine"):
        for module, name in imports(path):
            root = module.split(".")[0]
            if root == "flink_agents_durable":
                continue
            assert module in ENGINE_MAY_IMPORT or root in ENGINE_MAY_IMPORT - {"urllib"}, f"{path}: {module}"
            if module == "threading":
                assert name in FROM_THREADING or path.name == "plan_classes.py", f"{path}: threading.{name}"


def test_the_engine_asks_no_clock() -> None:
    clock = re.compile(r"datetime\.now|utcnow|\.today\(|time\.time\(|monotonic")
    for path in files("engine"):
        assert not clock.search(path.read_text()), path
