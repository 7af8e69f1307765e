"""The operators of a job open at once, and each imports what it needs of the package (case 38)."""

from __future__ import annotations

import subprocess
import sys

import pytest

PROGRAM = """
import importlib, sys, threading
sys.setswitchinterval(1e-6)
names = sys.argv[1:]
together = threading.Barrier(len(names))
errors = []

def load(name):
    together.wait()
    try:
        importlib.import_module(name)
    except BaseException as error:
        errors.append(f"{name}: {error!r}")

threads = [threading.Thread(target=load, args=(name,)) for name in names]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
sys.exit("; ".join(errors) or None)
"""
PACKAGE = "flink_agents_durable"
PARTS = ["runtime.operator", "api.configuration", "engine.payload", "api.events", "engine.keys"]


@pytest.mark.parametrize("parts", [PARTS, PARTS[::-1]], ids=["operator first", "operator last"])
def test_parts_are_imported_by_several_threads_at_once(parts: list[str]) -> None:
    """No thread holds a part and waits for the package while another one does the reverse."""
    names = [f"{PACKAGE}.{part}" for part in parts]
    done = subprocess.run([sys.executable, "-c", PROGRAM, *names], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
