"""Where no Java is installed, the one of the extra `jre` is used."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from flink_agents_durable.flink import java
from flink_agents_durable.flink.java import packaged_java, use_packaged_java

ROOT = Path(__file__).resolve().parents[2]
JOB_SECONDS = 180


@pytest.fixture
def _no_java(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JAVA_HOME", "")
    monkeypatch.setenv("PATH", os.path.dirname(sys.executable))


def test_the_quickstart_runs_without_an_installed_java(tmp_path: Path) -> None:
    path = os.path.dirname(sys.executable)
    assert shutil.which("java", path=path) is None
    process = subprocess.run(
        [sys.executable, str(ROOT / "examples" / "quickstart.py")],
        cwd=tmp_path,
        env={"PATH": path, "HOME": os.environ.get("HOME", "/"), "PYTHONPATH": str(ROOT)},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=JOB_SECONDS,
        check=False,
    )
    assert process.returncode == 0, process.stderr[-5000:]
    assert "anna: positive" in process.stdout


@pytest.mark.usefixtures("_no_java")
def test_the_packaged_runtime_is_named_to_pyflink() -> None:
    use_packaged_java()
    home = packaged_java()
    assert home is not None
    assert os.environ["JAVA_HOME"] == str(home)


def test_an_installed_java_is_left_alone(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("JAVA_HOME", "/own/java")
    use_packaged_java()
    assert os.environ["JAVA_HOME"] == "/own/java"
    monkeypatch.delenv("JAVA_HOME")
    (tmp_path / "java").touch(mode=0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    use_packaged_java()
    assert "JAVA_HOME" not in os.environ


@pytest.mark.usefixtures("_no_java")
def test_no_java_at_all_is_said_with_the_remedy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(java, "packaged_java", lambda: None)
    with pytest.warns(UserWarning, match=r"no Java runtime.*flink-agents-durable\[jre\]"):
        use_packaged_java()
    assert not os.environ["JAVA_HOME"]
