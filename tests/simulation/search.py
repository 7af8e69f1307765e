"""Long runs of the simulator, behind `tools/simulate`."""

from __future__ import annotations

import argparse
import gc
import logging
import multiprocessing
import os
import sys
import time
import traceback
from collections.abc import Iterator, Sequence

from flink_agents_durable.testing.simulation import Violation
from tests.simulation.agents import AGENTS
from tests.simulation.histories import explain, run_history

CHUNK = 50
"""Schedules of one agent that a process takes at a time; small, so that both cores end together."""
REPORT_SECONDS = 10.0
SHOWN = 5
"""Violations that are explained; more of them are mostly the same one."""


def try_history(name: str, seed: int) -> Violation | None:
    """Run one history; whatever else the engine raises counts as a violation too."""
    try:
        run_history(name, seed)
    except Violation as violation:
        return violation
    except Exception:
        return Violation(seed, "the engine fell over", traceback.format_exc().splitlines())
    return None


def _chunk(work: tuple[str, int, int]) -> tuple[int, list[tuple[str, int, str]]]:
    name, start, count = work
    logging.disable(logging.CRITICAL)
    gc.disable()  # once for all histories of the chunk is faster than every now and then
    found = []
    for seed in range(start, start + count):
        violation = try_history(name, seed)
        if violation is not None:
            found.append((name, seed, violation.text))
    gc.collect()
    return count, found


def _chunks(names: Sequence[str], seed: int, schedules: int) -> Iterator[tuple[str, int, int]]:
    each = -(-schedules // len(names))
    for start in range(seed, seed + each, CHUNK):
        for name in names:
            yield name, start, min(CHUNK, seed + each - start)


def main(arguments: Sequence[str] | None = None) -> int:
    """Search, report, explain; gives the exit code."""
    parser = argparse.ArgumentParser("tools/simulate", description="Run many schedules of the simulator.")
    parser.add_argument(
        "--schedules", type=int, default=10_000, help="how many, over all agents (%(default)s)"
    )
    parser.add_argument("--agent", choices=sorted(AGENTS), help="one agent alone")
    parser.add_argument("--seed", type=int, help="the first seed; default: a fresh one")
    parser.add_argument("--processes", type=int, default=os.cpu_count() or 1, help="default: all cores")
    options = parser.parse_args(arguments)
    names = [options.agent] if options.agent else list(AGENTS)
    seed = int(time.time() * 1000) if options.seed is None else options.seed
    sys.stdout.write(f"{options.schedules} schedules from seed {seed} of {', '.join(names)}\n")
    found = _search(names, seed, options.schedules, options.processes)
    logging.disable(logging.CRITICAL)
    for name, at, _ in found[:SHOWN]:
        violation = try_history(name, at)
        if violation is not None:
            sys.stdout.write(f"\n{explain(name, violation)}\n")
    return 1 if found else 0


def _search(names: Sequence[str], seed: int, schedules: int, processes: int) -> list[tuple[str, int, str]]:
    found: list[tuple[str, int, str]] = []
    done, started, reported = 0, time.monotonic(), 0.0
    with multiprocessing.get_context("spawn").Pool(processes) as pool:
        for count, violations in pool.imap_unordered(_chunk, _chunks(names, seed, schedules)):
            done += count
            found += violations
            for name, at, text in violations:
                sys.stdout.write(f"violation: {name} seed {at}: {text}\n")
            elapsed = time.monotonic() - started
            if elapsed - reported > REPORT_SECONDS:
                reported = elapsed
                sys.stdout.write(f"{done} schedules, {len(found)} violations, {done / elapsed:.0f}/s\n")
                sys.stdout.flush()
    sys.stdout.write(f"{done} schedules, {len(found)} violations\n")
    return found


if __name__ == "__main__":
    sys.exit(main())
