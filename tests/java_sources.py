"""Compiles Java programs against what a cluster has in lib, and the bridge: without Maven."""

from __future__ import annotations

import os
import subprocess
import zipfile
from collections.abc import Sequence
from pathlib import Path

import pyflink

from flink_agents_durable.flink.jar import bridge_jar

FLINK = Path(pyflink.__file__).parent
EXAMPLE = Path(__file__).resolve().parents[1] / "examples" / "java"
EXAMPLE_SOURCES = sorted((EXAMPLE / "src" / "main" / "java").rglob("*.java"))
JAVAC_SECONDS = 240
"""A JVM on a busy machine."""


def class_path() -> str:
    """Flink's own jars, its Python support, and the bridge."""
    jars = [*(FLINK / "lib").glob("*.jar"), *(FLINK / "opt").glob("flink-python-*.jar"), bridge_jar()]
    return os.pathsep.join(map(str, jars))


def compile_java(sources: Sequence[Path], folder: Path, *options: str) -> None:
    """Put the classes into a folder; warnings are errors."""
    command = ["javac", "--release", "11", "-Xlint:all,-processing,-classfile,-path,-try", "-Werror"]
    result = subprocess.run(
        [*command, *options, "-proc:none", "-cp", class_path(), "-d", str(folder), *map(str, sources)],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=JAVAC_SECONDS,
        check=False,
    )
    assert result.returncode == 0, result.stdout + result.stderr


def jar_of(folder: Path, jar: Path) -> Path:
    """The classes of a folder as a jar."""
    with zipfile.ZipFile(jar, "w") as archive:
        for path in sorted(folder.rglob("*.class")):
            archive.write(path, path.relative_to(folder))
    return jar
