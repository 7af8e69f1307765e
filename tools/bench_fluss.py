"""How fast the Fluss store acknowledges and reads, beside a bare writer of the same bytes.

    python tools/bench_fluss.py --seconds 5 --bytes 200 --in-flight 10000

It starts a server of its own, see tests/store/fluss_server.py. `bare` appends each record as a row and flushes after
as many as are in flight, without reading back. `busy` is the store beside a task thread that works in Python for
some microseconds per record. `single` is one record after the other, each read back.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import sys
import tempfile
import time
import uuid
from collections.abc import Iterator
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from bench_store import GROUPS, measure_busy, measure_single

from flink_agents_durable import FlussActionStateStore
from flink_agents_durable.store.fluss_client import bounded
from flink_agents_durable.store.fluss_errors import waitable
from flink_agents_durable.store.fluss_session import Session
from tests.store.fluss_server import DATABASE, FlussServer

TAIL = 100_000


@contextlib.contextmanager
def server(tablets: int = 1) -> Iterator[FlussServer]:
    with tempfile.TemporaryDirectory() as folder:
        started = FlussServer(Path(folder), tablets, java_options=())
        try:
            started.start()
            yield started
        finally:
            started.kill()


def store_at(server: FlussServer, table: str = "", replicas: int = 1) -> FlussActionStateStore:
    return FlussActionStateStore(
        server.bootstrap, DATABASE, table or uuid.uuid4().hex, buckets=GROUPS, replication_factor=replicas
    )


def measure_bare(server: FlussServer, seconds: float, size: int, in_flight: int) -> float:
    """Rows per second of a writer alone."""
    store = store_at(server)

    async def connected() -> Session:
        while True:
            try:
                session = await Session.connect(store.settings)
                await session.ends(range(GROUPS))
                return session
            except waitable():
                await asyncio.sleep(0.1)

    async def run() -> float:
        session = await connected()
        body, sent = bytes(size), 0
        begin = time.perf_counter()
        while (elapsed := time.perf_counter() - begin) < seconds:
            for number in range(in_flight):
                session.append(number % GROUPS, b"", body)
            await bounded(session.writer.flush())
            sent += in_flight
        await session.close()
        return sent / elapsed

    return asyncio.run(run())


def measure_tail(server: FlussServer, size: int) -> float:
    """Seconds to open the store with a tail of 100,000 records and read it."""
    table = uuid.uuid4().hex
    store = store_at(server, table)
    list(store.open("bench", dict.fromkeys(range(GROUPS)), lambda: None))
    batch = [(number % GROUPS, bytes(size)) for number in range(1_000)]
    for number in range(TAIL // 1_000):
        store.append(batch)
        store.wait_acknowledged(number + 1, time.sleep)  # as many rows as a busy job would write
    store.close(60)
    store = store_at(server, table)
    begin = time.perf_counter()
    count = len(list(store.open("bench", dict.fromkeys(range(GROUPS)), lambda: None)))
    read = time.perf_counter() - begin
    assert count == TAIL
    store.close(10)
    return read


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seconds", type=float, default=5.0)
    parser.add_argument("--bytes", type=int, default=200)
    parser.add_argument("--in-flight", type=int, default=10_000)
    parser.add_argument("--replicas", type=int, default=1)
    options = parser.parse_args()
    seconds, size, in_flight, replicas = options.seconds, options.bytes, options.in_flight, options.replicas
    with server(tablets=replicas) as at:
        if replicas == 1:
            print(f"bare   {measure_bare(at, seconds, size, in_flight):12,.0f} rows/s", flush=True)
        rate = measure_busy(store_at(at, replicas=replicas), seconds, size, in_flight)
        print(f"busy   {rate:12,.0f} records/s", flush=True)
        rate = measure_single(store_at(at, replicas=replicas), seconds, size)
        print(f"single {rate:12,.0f} records/s", flush=True)
        print(f"tail   {measure_tail(at, size):12.2f} s to open and read {TAIL:,} records", flush=True)


if __name__ == "__main__":
    main()
