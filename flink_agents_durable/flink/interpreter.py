"""The Python interpreter that runs inside Flink's JVM: this one, and nothing for the user to set up.

The embedded interpreter finds its standard library and packages by the first `python3` on the JVM's PATH,
whatever `python.executable` says. So this interpreter goes first on PATH before the JVM starts, and if
the JVM was started before, the folders of this interpreter are named one by one.
"""

from __future__ import annotations

import importlib.util
import os
import shutil
import subprocess
import sys
from collections.abc import Mapping
from functools import cache
from typing import Any

from flink_agents_durable.api.errors import ConfigurationError

EXECUTABLE = "python.executable"
CLIENT_EXECUTABLE = "python.client.executable"
PYTHON_PATH = "python.pythonpath"

# A probe imports pemja and prints; what takes longer hangs (a shim that waits for a terminal, a dead mount).
_PROBE_SECONDS = 30
_PROBE = (
    "import sys, pemja, cloudpickle, flink_agents_durable, find_libpython; "
    "assert find_libpython.find_libpython(), 'it was built without a shared library'; "
    "print('%d.%d' % sys.version_info[:2])"
)
_DEPENDENCIES = ("python.files", "python.archives", "python.requirements")
_LOOPBACK = ("localhost", "127.0.0.1", "::1", "[::1]")


def put_interpreter_first_on_path() -> None:
    """Do what activating this interpreter's virtual environment does to PATH."""
    folder = os.path.dirname(sys.executable or "")
    path = os.environ.get("PATH", "")
    if folder and path.split(os.pathsep)[0] != folder:
        os.environ["PATH"] = os.pathsep.join([folder, path] if path else [folder])


def interpreter_settings(config: Mapping[str, str], *, local: bool, jvm_path: str) -> dict[str, str]:
    """What to set in Flink's configuration so that tasks run this interpreter; what users set stays.

    Raises ConfigurationError if the interpreter that tasks would run cannot work.
    """
    if not runs_here(config, local=local):
        return {}
    settings = {key: sys.executable for key in (EXECUTABLE, CLIENT_EXECUTABLE) if key not in config}
    executable = config.get(EXECUTABLE, sys.executable)
    check_interpreter(executable)
    # Tasks see the modules that this program sees, those beside the script too.
    folders = program_path()
    if not _same_program(executable, sys.executable):
        folders = [folder for folder in folders if not _belongs_to_interpreter(folder)]
    elif not (local and _is_first_python(jvm_path)):
        folders = standard_library() + folders
    known = [part for part in config.get(PYTHON_PATH, "").split(os.pathsep) if part]
    settings[PYTHON_PATH] = os.pathsep.join(dict.fromkeys(known + folders))
    return settings


def runs_here(config: Mapping[str, str], *, local: bool) -> bool:
    """Whether tasks have this machine's file system: local execution, or a standalone cluster on loopback."""
    host = config.get("rest.address") or config.get("jobmanager.rpc.address")
    return local or host in _LOOPBACK


def absolute_dependencies(config: Mapping[str, str]) -> dict[str, str]:
    """Keeps K9: files, archives and requirements of the job are found from where it was submitted."""
    given = {key: config[key] for key in _DEPENDENCIES if config.get(key)}
    absolute = {key: ",".join(map(_absolute, value.split(","))) for key, value in given.items()}
    return {key: value for key, value in absolute.items() if value != given[key]}


def _absolute(entry: str) -> str:
    """`path`, or `path#where it goes`; addresses of other file systems stay."""
    path, mark, target = entry.partition("#")
    return entry if ":" in path or os.path.isabs(path) else f"{os.path.abspath(path)}{mark}{target}"


def program_path() -> list[str]:
    """The folders from which this program imports, absolute, without those of the standard library."""
    standard = set(map(os.path.realpath, standard_library()))
    folders = (os.path.abspath(entry or os.getcwd()) for entry in sys.path)
    return [
        folder for folder in folders if os.path.exists(folder) and os.path.realpath(folder) not in standard
    ]


def standard_library() -> list[str]:
    folder = os.path.dirname(os.__file__)
    return [folder, os.path.join(folder, "lib-dynload")]


def _belongs_to_interpreter(folder: str) -> bool:
    return any(os.path.commonpath([prefix, folder]) == prefix for prefix in (sys.prefix, sys.base_prefix))


def check_interpreter(executable: str) -> None:
    """Case 37: an interpreter without pemja or of another version fails here, with the remedy."""
    if _same_program(executable, sys.executable):
        missing = [name for name in ("pemja", "cloudpickle") if importlib.util.find_spec(name) is None]
        if not missing and find_libpython() is None:
            raise ConfigurationError(
                f"this Python ({sys.executable}) has no shared library, which Flink's JVM needs. "
                "Remedy: Debian: apt-get install libpython3-dev; pyenv: PYTHON_CONFIGURE_OPTS=--enable-shared"
            )
        if missing:
            raise ConfigurationError(
                f"this Python ({sys.executable}) has no {' and no '.join(missing)}, which runs agents inside "
                f"Flink. Remedy: {sys.executable} -m pip install 'apache-flink>=2.3,<2.4'"
            )
        return
    remedy = (
        f"Remedy: leave {EXECUTABLE} unset, then tasks run this program's own Python ({sys.executable}), or "
        f"install the package there: {executable} -m pip install flink-agents-durable"
    )
    try:
        probe = subprocess.run(
            [executable, "-c", _PROBE],
            capture_output=True,
            text=True,
            timeout=_PROBE_SECONDS,
            check=False,
            stdin=subprocess.DEVNULL,
            env={key: value for key, value in os.environ.items() if key != "PYTHONHOME"},
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise ConfigurationError(f"{EXECUTABLE} = {executable!r} does not run: {error}. {remedy}") from None
    if probe.returncode != 0:
        problem = (probe.stderr.strip().splitlines() or [f"it ended with {probe.returncode}"])[-1]
        raise ConfigurationError(f"{EXECUTABLE} = {executable!r} cannot run agents: {problem}. {remedy}")
    version, own = probe.stdout.strip(), "{}.{}".format(*sys.version_info[:2])
    if version != own:
        raise ConfigurationError(
            f"{EXECUTABLE} = {executable!r} is Python {version}, this program runs on {own}, and "
            f"agents travel as code of one version. {remedy}"
        )


@cache
def find_libpython() -> str | None:
    """The library of this interpreter, found as pemja finds it."""
    from find_libpython import find_libpython as find

    found: str | None = find()
    return found


def _same_program(one: str, other: str) -> bool:
    found = one if os.path.dirname(one) else shutil.which(one)
    if found is None:
        return False
    # The folder too: the python of a virtual environment is a link to one that has other packages.
    folders = (os.path.dirname(os.path.abspath(path)) for path in (found, other))
    return len(set(folders)) == 1 and os.path.realpath(found) == os.path.realpath(other)


def _is_first_python(jvm_path: str) -> bool:
    """Whether the JVM's first python3 is this one, so that the embedded interpreter finds its own folders."""
    found = shutil.which("python3", path=jvm_path)
    return found is not None and os.path.dirname(found) == os.path.dirname(sys.executable)


def jvm_environment_path(gateway: Any) -> str:
    """PATH as the JVM got it when it started."""
    return str(gateway.jvm.System.getenv("PATH") or "")
