"""How fast an action state store acknowledges records, beside the bare database that sets its limit.

    python tools/bench_store.py --seconds 3 --bytes 200 --in-flight 1000 --synchronous FULL

`limit` is one thread that does nothing but group-committed inserts of the same bytes. `busy` is the store
beside a task thread that never rests: it works in Python for some microseconds per record and hands records
over as acknowledgements of earlier ones come in. `single` is one record after the other, each awaited.
"""

from __future__ import annotations

import argparse
import contextlib
import sqlite3
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path

from flink_agents_durable.store import ActionStateStore, Record, SqliteActionStateStore

GROUPS = 128


def measure_limit(
    folder: Path, seconds: float, size: int, in_flight: int, synchronous: str = "FULL"
) -> float:
    """Records per second of a bare loop: `in_flight` records of `size` bytes in each insert."""
    with contextlib.closing(sqlite3.connect(folder / "limit.db", isolation_level=None)) as connection:
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute(f"PRAGMA synchronous = {synchronous}")
        connection.execute("CREATE TABLE log (position INTEGER PRIMARY KEY, records BLOB)")
        body = bytes(size * in_flight)
        commits, begin = 0, time.perf_counter()
        while (elapsed := time.perf_counter() - begin) < seconds:
            connection.execute("INSERT INTO log (records) VALUES (?)", (body,))
            commits += 1
    return commits * in_flight / elapsed


def measure_busy(
    store: ActionStateStore, seconds: float, size: int, in_flight: int, work_micros: float = 8.0
) -> float:
    """Acknowledged records per second while the task thread computes in Python without a break."""
    list(store.open("bench", dict.fromkeys(range(GROUPS)), lambda: None))
    body = bytes(size)
    rounds = _calibrate(work_micros)
    sizes: list[int] = []  # records of each batch, in order
    acknowledged_batches = acknowledged = sent = 0
    begin = time.perf_counter()
    while (elapsed := time.perf_counter() - begin) < seconds:
        batch: list[Record] = []
        for number in range(min(256, in_flight - sent + acknowledged) or 1):
            _work(rounds)
            if sent + len(batch) - acknowledged < in_flight:
                batch.append(((sent + number) % GROUPS, body))
        if batch:
            store.append(batch)
            sizes.append(len(batch))
            sent += len(batch)
        batches = store.acknowledged()
        acknowledged += sum(sizes[acknowledged_batches:batches])
        acknowledged_batches = batches
    store.close(10)
    return acknowledged / elapsed


def measure_single(store: ActionStateStore, seconds: float, size: int) -> float:
    """Acknowledged records per second, one after the other."""
    progress = threading.Event()

    def wait(limit: float) -> None:
        progress.wait(limit)
        progress.clear()

    list(store.open("bench", dict.fromkeys(range(GROUPS)), progress.set))
    body = bytes(size)
    count, begin = 0, time.perf_counter()
    while (elapsed := time.perf_counter() - begin) < seconds:
        store.append([(0, body)])
        count += 1
        store.wait_acknowledged(count, wait)
    store.close(10)
    return count / elapsed


def _work(rounds: int) -> int:
    total = 0
    for number in range(rounds):
        total += number
    return total


def _calibrate(micros: float) -> int:
    begin = time.perf_counter()
    _work(200_000)
    return max(1, int(micros * 200_000 / ((time.perf_counter() - begin) * 1e6)))


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--folder", type=Path)
    parser.add_argument("--seconds", type=float, default=3.0)
    parser.add_argument("--bytes", type=int, default=200)
    parser.add_argument("--in-flight", type=int, default=1_000)
    parser.add_argument("--work-micros", type=float, default=8.0)
    parser.add_argument("--synchronous", default="FULL")
    options = parser.parse_args()

    def report(name: str, measure: Callable[[Path], float]) -> None:
        with tempfile.TemporaryDirectory(dir=options.folder) as folder:
            print(f"{name:8} {measure(Path(folder)):12,.0f} records/s", flush=True)

    def store(folder: Path) -> SqliteActionStateStore:
        return SqliteActionStateStore(folder, synchronous=options.synchronous)

    seconds, size, in_flight = options.seconds, options.bytes, options.in_flight
    report("limit", lambda folder: measure_limit(folder, seconds, size, in_flight, options.synchronous))
    report("busy", lambda folder: measure_busy(store(folder), seconds, size, in_flight, options.work_micros))
    report("single", lambda folder: measure_single(store(folder), seconds, size))


if __name__ == "__main__":
    main()
