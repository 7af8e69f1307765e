"""The command `tools/cluster`: the cluster of the tests, for people. It lives in `.cluster` of the checkout."""

from __future__ import annotations

import json
import os
import shutil
import signal
import sys
import time
from pathlib import Path

from tests.cluster.standalone import FLINK, STOP_SECONDS, StandaloneCluster, kill_group

FOLDER = Path(__file__).resolve().parents[1] / ".cluster"
MEMBERS = FOLDER / "members.json"


def read_members() -> dict[str, int]:
    """Process ids by name, of those that still run as what they were started as."""
    known = json.loads(MEMBERS.read_text()) if MEMBERS.exists() else {}
    return {name: pid for name, pid in known.items() if is_member(pid)}


def is_member(pid: int) -> bool:
    """A number may belong to another process by now: ours has our folder among its variables."""
    try:
        environment = Path(f"/proc/{pid}/environ").read_bytes()
    except OSError:
        return False
    return f"FLINK_CONF_DIR={FOLDER}/conf".encode() in environment.split(b"\0")


def write_members(members: dict[str, int]) -> None:
    MEMBERS.write_text(json.dumps(members, indent=2))


def up() -> None:
    if read_members():
        sys.exit("the cluster is up already; tools/cluster status, tools/cluster down")
    shutil.rmtree(FOLDER, ignore_errors=True)
    FOLDER.mkdir()
    cluster = StandaloneCluster(FOLDER).start()
    write_members({member.name: member.pid for member in cluster.members.values()})
    python = os.path.relpath(sys.executable)
    print(f"""The cluster is up: http://{cluster.host}:{cluster.rest_port}, its logs are in {FOLDER}/log.
Submit a program:
    export FLINK_CONF_DIR={FOLDER}/conf FLINK_LIB_DIR={FOLDER}/lib FLINK_LOG_DIR={FOLDER}/log
    SUBMIT_ARGS="remote -d" {python} examples/quickstart.py
or by Flink's command line:
    {os.path.relpath(FLINK)}/bin/flink run -d -pyclientexec {python} -py examples/quickstart.py""")


def status() -> None:
    members = read_members()
    print("\n".join(f"{name}: process {pid}" for name, pid in members.items()) or "no cluster is up")
    if "jobmanager" in members:
        for job in (StandaloneCluster(FOLDER).try_get("/jobs/overview") or {}).get("jobs", []):
            print(f"job {job['jid']} {job['name']}: {job['state']}")


def kill_task_manager() -> None:
    members = read_members()
    names = [name for name in members if name.startswith("taskmanager")]
    if not names:
        sys.exit("no TaskManager runs: tools/cluster up")
    name = names[0]
    kill_group(members.pop(name))
    cluster = StandaloneCluster(FOLDER)
    number = 1 + max(int(other.rsplit("-", 1)[1]) for other in names)
    member = cluster.start_task_manager(number)
    members[member.name] = member.pid
    write_members(members)
    print(f"{name} is killed, {member.name} is coming (process {member.pid})")


def down() -> None:
    members = read_members()
    for pid in members.values():
        os.kill(pid, signal.SIGTERM)
    deadline = time.monotonic() + STOP_SECONDS
    while any(map(is_member, members.values())) and time.monotonic() < deadline:
        time.sleep(0.1)
    for pid in filter(is_member, members.values()):
        kill_group(pid)
    shutil.rmtree(FOLDER, ignore_errors=True)
    print(f"{len(members)} processes are stopped")


COMMANDS = {"up": up, "status": status, "kill-taskmanager": kill_task_manager, "down": down}

if __name__ == "__main__":
    COMMANDS[sys.argv[1]]()
