"""A wheel in a clean environment needs nothing else: no checkout, no Maven, no JDK, no activation."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import venv
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
# pip copies some 800 MB; the job takes seconds.
INSTALL_SECONDS = 900
JOB_SECONDS = 180

pytestmark = pytest.mark.timeout(INSTALL_SECONDS + 2 * JOB_SECONDS)


def run(*command: str | Path, cwd: Path, timeout: int, **environment: str) -> str:
    variables = {"PATH": "/usr/local/bin:/usr/bin:/bin", "HOME": os.environ.get("HOME", "/"), **environment}
    result = subprocess.run(
        [str(part) for part in command],
        cwd=cwd,
        env=variables,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=timeout,
        check=False,
    )
    assert result.returncode == 0, (result.stdout + result.stderr)[-5000:]
    return result.stdout


def test_a_wheel_in_a_clean_environment_runs_the_quickstart_outside_the_checkout(tmp_path: Path) -> None:
    run(
        *(sys.executable, "-m", "pip", "wheel", "--no-deps", "--quiet", "--wheel-dir", tmp_path, ROOT),
        cwd=tmp_path,
        timeout=INSTALL_SECONDS,
        PATH=os.environ["PATH"],
    )
    (wheel,) = tmp_path.glob("*.whl")
    names = zipfile.ZipFile(wheel).namelist()
    assert sum(name.startswith("flink_agents_durable/jars/") for name in names) == 1
    assert "flink_agents_durable/py.typed" in names

    environment = tmp_path / "venv"
    venv.create(environment, with_pip=True)
    python = environment / "bin" / "python"
    pip = (python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check")
    run(*pip, wheel, cwd=tmp_path, timeout=INSTALL_SECONDS)

    outside = tmp_path / "outside"
    outside.mkdir()
    shutil.copy(ROOT / "examples" / "quickstart.py", outside)
    java = os.path.dirname(shutil.which("java") or "/usr/bin/java")
    out = run(python, "quickstart.py", cwd=outside, timeout=JOB_SECONDS, PATH=f"{java}:/usr/bin:/bin")
    assert "anna: positive" in out
    assert "bob: negative" in out
