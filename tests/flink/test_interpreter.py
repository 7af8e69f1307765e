"""The job runs this program's interpreter; one that cannot work is refused with the remedy (case 37)."""

from __future__ import annotations

import os
import stat
import sys
from pathlib import Path

import pytest

from flink_agents_durable.api.errors import ConfigurationError
from flink_agents_durable.flink import interpreter, jar
from flink_agents_durable.flink.interpreter import (
    EXECUTABLE,
    PYTHON_PATH,
    absolute_dependencies,
    check_interpreter,
    interpreter_settings,
    program_path,
    put_interpreter_first_on_path,
    standard_library,
)

OWN_FOLDER = os.path.dirname(sys.executable)


def script(path: Path, text: str) -> str:
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return str(path)


def test_case_37_the_virtual_environment_goes_first_on_path(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/usr/bin:/bin")
    put_interpreter_first_on_path()
    put_interpreter_first_on_path()
    assert os.environ["PATH"] == f"{OWN_FOLDER}:/usr/bin:/bin"


def test_a_local_job_gets_this_interpreter_and_this_programs_modules() -> None:
    settings = interpreter_settings({}, local=True, jvm_path=OWN_FOLDER)
    assert settings[EXECUTABLE] == settings["python.client.executable"] == sys.executable
    folders = settings[PYTHON_PATH].split(os.pathsep)
    assert os.getcwd() in folders
    assert os.path.dirname(os.__file__) not in folders


def test_a_jvm_that_was_started_with_another_python_gets_the_standard_library_too() -> None:
    folders = interpreter_settings({}, local=True, jvm_path="/nowhere")[PYTHON_PATH].split(os.pathsep)
    assert folders[0] == os.path.dirname(os.__file__)
    assert any(folder.endswith("lib-dynload") for folder in folders)


def test_what_the_user_set_stays(tmp_path: Path) -> None:
    own = script(tmp_path / "python", f'exec {sys.executable} "$@"')
    config = {EXECUTABLE: own, "python.client.executable": own, PYTHON_PATH: "/mine"}
    settings = interpreter_settings(config, local=True, jvm_path=OWN_FOLDER)
    assert EXECUTABLE not in settings
    folders = settings[PYTHON_PATH].split(os.pathsep)
    assert folders[0] == "/mine"
    assert os.getcwd() in folders
    assert not any(folder.endswith("site-packages") for folder in folders)


def test_a_remote_cluster_keeps_its_own_interpreter_unless_it_is_on_this_machine() -> None:
    remote = {"rest.address": "jobmanager.example"}
    assert interpreter_settings(remote, local=False, jvm_path="") == {}
    here = interpreter_settings({"rest.address": "localhost"}, local=False, jvm_path="")
    assert here[EXECUTABLE] == sys.executable
    # Nobody knows the PATH of its TaskManagers.
    assert here[PYTHON_PATH].split(os.pathsep)[: len(standard_library())] == standard_library()


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("echo \"ModuleNotFoundError: No module named 'pemja'\" >&2; exit 1", "No module named 'pemja'"),
        ("exit 127", "it ended with 127"),
        ("echo 3.9", "is Python 3.9, this program runs on"),
    ],
)
def test_case_37_an_interpreter_that_cannot_run_agents_is_refused_with_the_remedy(
    tmp_path: Path, text: str, problem: str
) -> None:
    path = script(tmp_path / "python3", text)
    with pytest.raises(ConfigurationError, match=problem) as error:
        check_interpreter(path)
    assert "Remedy" in str(error.value)
    assert path in str(error.value)


def test_case_37_one_that_does_not_exist_too() -> None:
    with pytest.raises(ConfigurationError, match=r"does not run.*Remedy"):
        check_interpreter("/nowhere/python3")


def test_this_interpreter_is_checked_without_starting_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(interpreter.subprocess, "run", None)
    check_interpreter(sys.executable)
    monkeypatch.setattr(interpreter.importlib.util, "find_spec", lambda name: None)
    with pytest.raises(ConfigurationError, match="has no pemja"):
        check_interpreter(sys.executable)


def test_an_interpreter_without_a_shared_library_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(interpreter, "find_libpython", lambda: None)
    with pytest.raises(ConfigurationError, match=r"no shared library.*Remedy"):
        check_interpreter(sys.executable)


def test_k9_relative_dependencies_become_absolute(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    config = {
        "python.files": "a.py,/b.py,hdfs://host/c.py",
        "python.archives": "data.zip#data",
        "python.requirements": "/requirements.txt",
    }
    assert absolute_dependencies(config) == {
        "python.files": f"{tmp_path}/a.py,/b.py,hdfs://host/c.py",
        "python.archives": f"{tmp_path}/data.zip#data",
    }


def test_folders_of_the_program_are_absolute(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", ["", "no/such/folder", *sys.path])
    folders = program_path()
    assert folders[0] == str(tmp_path)
    assert all(os.path.isabs(folder) for folder in folders)


def test_the_jar_is_found_in_the_package_or_the_checkout_or_named_with_the_remedy(tmp_path: Path) -> None:
    package = tmp_path / "flink_agents_durable"
    with pytest.raises(ConfigurationError, match=r"tools/setup"):
        jar.bridge_jar(package)
    built = tmp_path / "java-bridge" / "target" / "flink-agents-durable-bridge-1.jar"
    for path in (built, built.with_name("flink-agents-durable-bridge-1-sources.jar")):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
    assert jar.bridge_jar(package) == built
