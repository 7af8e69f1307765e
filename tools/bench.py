"""What one subtask does: marginal costs between two sizes of the same job, so that start-up cancels out.

Each job runs in a process of its own. `limit` is what the machine gives to the same work without us, measured
in the same run.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))

import bench_values
from bench_agents import Load, Measured
from bench_store import measure_limit

RECORD_BYTES = 100
"""About what the record of a no-op call takes; the bare inserts are of this size."""


def run(load: Load) -> Measured:
    """Run a load in a process of its own."""
    command = [sys.executable, str(Path(__file__).parent / "bench_agents.py"), json.dumps(asdict(load))]
    done = subprocess.run(command, capture_output=True, text=True, timeout=600, check=False)
    if done.returncode:
        raise SystemExit(f"the job of {load} failed:\n{done.stderr[-4000:]}")
    return Measured(**json.loads(done.stdout.strip().splitlines()[-1]))


def marginal(small: dict[str, Any], large: dict[str, Any], units: Callable[[Load], int]) -> float:
    """Units a second between two sizes of a job; the best of two runs of each."""
    one, two = Load(**small), Load(**large)
    return (units(two) - units(one)) / (best(two) - best(one))


def best(load: Load) -> float:
    """Seconds of the better of two runs: the other one may have been disturbed."""
    return min(run(load).seconds for _ in range(2))


def report(name: str, value: str, what: str, ratio: str = "") -> None:
    """Print one line of the report."""
    print(f"{name:<8} {value:>10} {what}{'; ' + ratio if ratio else ''}")


def python_limit() -> float:
    """Bare asyncio on this machine: tasks that await no-op tasks, a second. The same two cores, one thread."""
    import asyncio

    async def nothing(number: int) -> int:
        return number

    async def main() -> float:
        begin = time.perf_counter()
        for number in range(100_000):
            await asyncio.ensure_future(nothing(number))
        return 100_000 / (time.perf_counter() - begin)

    return max(asyncio.run(main()) for _ in range(3))


def calls() -> None:
    bare = python_limit()
    rate = marginal(
        {"inputs": 1000, "keys": 1000, "calls": 20},
        {"inputs": 1000, "keys": 1000, "calls": 140},
        lambda load: load.inputs * load.calls,
    )
    report(
        "calls",
        f"{rate:,.0f}",
        "durable async calls/s without store, 1,000 keys in flight",
        f"{rate / bare:.2f} of bare asyncio tasks ({bare:,.0f}/s)",
    )


def sqlite() -> None:
    with tempfile.TemporaryDirectory() as folder:
        bare = measure_limit(Path(folder), 3.0, RECORD_BYTES, 1000, "FULL")
    rate = marginal(
        {"inputs": 1000, "keys": 1000, "calls": 20, "store": "sqlite"},
        {"inputs": 1000, "keys": 1000, "calls": 140, "store": "sqlite"},
        lambda load: load.inputs * load.calls,
    )
    report(
        "sqlite",
        f"{rate:,.0f}",
        "durable async calls/s on sqlite, synchronous=FULL",
        f"{rate / bare:.3f} of bare group-committed inserts ({bare:,.0f}/s)",
    )


def kafka() -> None:
    import bench_kafka  # needs the extra, and Maven the first time

    with bench_kafka.broker() as broker:
        bare = bench_kafka.measure_bare(broker, 4.0, RECORD_BYTES, 10_000)
        rate = bench_kafka.measure_busy(bench_kafka.store_at(broker), 4.0, RECORD_BYTES, 10_000)
        report(
            "kafka",
            f"{rate:,.0f}",
            "records/s acknowledged by kafka beside a busy task thread, 128 key groups",
            f"{rate / bare:.2f} of a bare producer ({bare:,.0f}/s)",
        )
        read, truncated = bench_kafka.measure_tail(broker, RECORD_BYTES)
        report(
            "kafka", f"{read:.2f}", f"s to open a log with a tail of {bench_kafka.TAIL:,} records and read it"
        )
        report("kafka", f"{truncated:.3f}", "s until the broker has truncated it")
        of_a_job("kafka", broker.bootstrap)


def fluss() -> None:
    import bench_fluss  # needs pyfluss, and Maven the first time

    with bench_fluss.server() as server:
        bare = bench_fluss.measure_bare(server, 4.0, RECORD_BYTES, 10_000)
        rate = bench_fluss.measure_busy(bench_fluss.store_at(server), 4.0, RECORD_BYTES, 10_000)
        report(
            "fluss",
            f"{rate:,.0f}",
            "records/s acknowledged by fluss beside a busy task thread, 128 key groups",
            f"{rate / bare:.2f} of a bare writer ({bare:,.0f}/s)",
        )
        read = bench_fluss.measure_tail(server, RECORD_BYTES)
        report(
            "fluss", f"{read:.2f}", f"s to open a log with a tail of {bench_fluss.TAIL:,} records and read it"
        )
        of_a_job("fluss", server.bootstrap)


def of_a_job(store: str, bootstrap: str) -> None:
    for groups in (128, 16):
        load = {"inputs": 1000, "keys": 1000, "store": store, "bootstrap": bootstrap, "key_groups": groups}
        rate = marginal({**load, "calls": 20}, {**load, "calls": 140}, lambda load: load.inputs * load.calls)
        report(store, f"{rate:,.0f}", f"durable async calls/s on {store}, {groups} key groups")


def sync() -> None:
    rate = marginal(
        {"inputs": 100, "keys": 100, "calls": 100, "kind": "sync"},
        {"inputs": 100, "keys": 100, "calls": 900, "kind": "sync"},
        lambda load: load.inputs * load.calls,
    )
    report(
        "sync",
        f"{rate:,.0f}",
        "synchronous durable calls/s without store",
        f"{rate * thread_round_trip():.2f} times a bare hand-over to a thread and back",
    )


def thread_round_trip() -> float:
    """Seconds for a bare hand-over to a worker thread and back, which a call outside of its action would cost."""
    import queue
    import threading

    there: queue.SimpleQueue[Any] = queue.SimpleQueue()
    back: queue.SimpleQueue[Any] = queue.SimpleQueue()

    def work() -> None:
        while (item := there.get()) is not None:
            back.put(item)

    thread = threading.Thread(target=work)
    thread.start()
    best = 1.0
    for _ in range(5):
        begin = time.perf_counter()
        for number in range(2000):
            there.put(number + 1)
            back.get()
        best = min(best, (time.perf_counter() - begin) / 2000)
    there.put(None)
    thread.join()
    return best


def inputs() -> None:
    rate = marginal(
        {"inputs": 20_000, "keys": 5000}, {"inputs": 140_000, "keys": 5000}, lambda load: load.inputs
    )
    report("inputs", f"{rate:,.0f}", "inputs/s without calls, one output each")


def waiting() -> None:
    async_ = best(Load(5000, 5000, kind="wait", seconds=0.5))
    report("waiting", f"{async_:.2f}", "s for 5,000 inputs that each wait 0.5 s in an async def call")
    plain = best(Load(100, 100, kind="wait-plain", seconds=0.5))
    report("waiting", f"{plain:.2f}", "s for 100 that wait 0.5 s in plain functions, default options")


def idle() -> None:
    waiting = run(Load(1000, 1000, kind="idle", seconds=6.0))
    nothing = run(Load(1, 1, kind="idle", seconds=6.0))
    report(
        "idle",
        f"{waiting.idle_cpu / 0.05:.2f}",
        "% of a core while 1,000 calls wait 5 s",
        f"{nothing.idle_cpu / 0.05:.2f} % while one waits",
    )


def bytes_() -> None:
    few = run(Load(10, 10, calls=200, kind="kilobyte", store="sqlite"))
    many = run(Load(10, 10, calls=1200, kind="kilobyte", store="sqlite"))
    report(
        "bytes",
        f"{few.log_bytes / 2000:,.0f}",
        "bytes on disk a call of a 1 kB result, of 2,000 calls",
        f"{many.log_bytes / 12_000:,.0f} of 12,000",
    )


def values() -> None:
    one, three = bench_values.small_calls()
    bare = bench_values.bare_digest()
    report("values", f"{one:.1f}", "us for the identity of a call with one scalar argument")
    report("values", f"{three:.1f}", "us with three", f"{three / bare:.1f} of bare encoding and hashing")
    some, many = bench_values.large_call(1000), bench_values.large_call(10_000)
    report("values", f"{some:,.0f}", "us with 1,000 small dicts", f"{many / some:.1f} times that with 10,000")
    write, read, size = bench_values.failure()
    report(
        "values", f"{write:.0f}", f"us to record an exception in {size:,} bytes", f"{read:.0f} us to read it"
    )


BENCHES = {
    f.__name__.rstrip("_"): f
    for f in (calls, sqlite, kafka, fluss, sync, inputs, waiting, idle, bytes_, values)
}


def main() -> None:
    unknown = [name for name in sys.argv[1:] if name not in BENCHES]
    if unknown:
        raise SystemExit(f"no such benchmark: {', '.join(unknown)}; there are {', '.join(BENCHES)}")
    for name in sys.argv[1:] or BENCHES:
        BENCHES[name]()
        sys.stdout.flush()


if __name__ == "__main__":
    main()
