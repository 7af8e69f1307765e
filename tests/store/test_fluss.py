"""The Fluss store: its table, its errors, and what it does when the server does not do its part."""

from __future__ import annotations

import asyncio
import logging
import os
import pickle
import subprocess
import sys
import threading
import uuid
from collections.abc import Callable, Iterator
from typing import Any

import fluss
import pyarrow as pa
import pytest

from flink_agents_durable import FlussActionStateStore
from flink_agents_durable.api.errors import ConfigurationError, DurableExecutionError, StoreUnavailableError
from flink_agents_durable.store import UnknownFateError
from flink_agents_durable.store.fluss_errors import unavailable
from flink_agents_durable.store.fluss_rows import RECORDS, Stamp
from flink_agents_durable.store.fluss_session import Session
from tests.store.conformance import Attempt, eventually, numbered, of
from tests.store.fluss_server import DATABASE, PASSWORDS, FlussServer

Make = Callable[..., FlussActionStateStore]


@pytest.fixture
def table() -> str:
    return f"agents_{uuid.uuid4().hex}"


@pytest.fixture
def make(fluss_server: FlussServer, table: str) -> Iterator[Make]:
    def make(**arguments: Any) -> FlussActionStateStore:
        settings = {"buckets": 4, "replication_factor": 1, **arguments}
        return FlussActionStateStore(fluss_server.bootstrap, DATABASE, table, **settings)

    yield make
    fluss_server.drop(table)


def opened(store: FlussActionStateStore, groups: int = 4) -> Attempt:
    return Attempt(store, dict.fromkeys(range(groups)))


def named(error: Exception, server: FlussServer, table: str) -> str:
    text = str(error)
    assert table in text
    assert "Remedy: " in text
    assert (server.bootstrap in text) or (server.secure_bootstrap in text)
    assert "\tat " not in text  # of a server's stack trace
    for password in PASSWORDS.values():
        assert password not in text
    return text


# -- the table -----------------------------------------------------------------------------------------------


def create(
    server: FlussServer, table: str, *, columns: Any = None, buckets: int = 4, keys: Any = None
) -> None:
    kinds = columns or [("bucket", pa.int32()), ("stamp", pa.binary()), ("records", pa.binary())]
    schema = fluss.Schema(pa.schema(kinds), primary_keys=keys)
    properties = {"table.replication.factor": "1"}
    descriptor = fluss.TableDescriptor(
        schema, bucket_count=buckets, bucket_keys=[kinds[0][0]], properties=properties
    )

    async def make(admin: Any) -> None:
        await admin.create_database(DATABASE, ignore_if_exists=True)
        await admin.create_table(fluss.TablePath(DATABASE, table), descriptor, False)

    server.ask(make)


def test_a_table_that_is_there_and_fits_is_used(make: Make, fluss_server: FlussServer, table: str) -> None:
    create(fluss_server, table)
    attempt = opened(make())
    attempt.write((3, b"x"))
    attempt.close()
    assert opened(make()).tail == [(3, b"x")]


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"buckets": 5}, "has 5 buckets, and the agent 4 key groups"),
        ({"columns": [("bucket", pa.int32()), ("records", pa.binary())]}, "columns bucket int, stamp bytes"),
        ({"columns": [("stamp", pa.binary()), ("bucket", pa.int32())]}, "has to be a log table"),
        ({"keys": ["bucket"]}, "has to be a log table"),
    ],
    ids=str,
)
def test_a_table_that_does_not_fit_is_refused(
    make: Make, fluss_server: FlussServer, table: str, given: dict[str, Any], said: str
) -> None:
    create(fluss_server, table, **given)
    with pytest.raises(ConfigurationError, match="Remedy") as caught:
        opened(make())
    assert said in str(caught.value)
    assert table in str(caught.value)


def test_more_replicas_than_servers_are_told_at_once(
    make: Make, fluss_server: FlussServer, table: str
) -> None:
    with pytest.raises(StoreUnavailableError, match=r"agents\.store\.fluss\.replication-factor") as caught:
        opened(make(replication_factor=3, append_timeout=1.0))
    named(caught.value, fluss_server, table)


def test_a_table_with_one_replica_is_warned_about(make: Make, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        opened(make()).close()
    assert "keeps one replica" in caplog.text
    assert caplog.text.count("replication-factor") == 1


def test_p23_logs_that_share_a_table_keep_each_other(make: Make) -> None:
    one = Attempt(make(), dict.fromkeys(range(4)), "one")
    one.write((0, b"one"))
    two = Attempt(make(), dict.fromkeys(range(4)), "two")
    assert two.tail == []
    two.write((0, b"two"))
    one.write((0, b"later"))
    position = one.end()
    one.store.truncate(position)
    one.write((0, b"last"))
    one.close()
    again = Attempt(make(), position, "one")
    assert again.tail == [(0, b"last")]
    assert not again.store.missing
    again.close()
    two.close()
    two = Attempt(make(), dict.fromkeys(range(4)), "two")
    assert two.tail == [(0, b"two")]
    two.close()


# -- a server that fails -------------------------------------------------------------------------------------


def test_s7_case46_a_server_that_is_down_at_start(make: Make, fluss_server: FlussServer, table: str) -> None:
    opened(make()).close()
    fluss_server.kill()
    try:
        with pytest.raises(StoreUnavailableError) as caught:
            opened(make(append_timeout=1.0))
        named(caught.value, fluss_server, table)
        attempts: list[Attempt] = []
        thread = threading.Thread(target=lambda: attempts.append(opened(make(append_timeout=120.0))))
        thread.start()
    finally:
        fluss_server.start()
    thread.join(150)
    (attempt,) = attempts  # it waited for the server
    attempt.write((0, b"x"))
    attempt.close()


def test_s7_a_wait_that_is_interrupted_ends_the_opening(make: Make, fluss_server: FlussServer) -> None:
    fluss_server.pause()
    try:

        def interrupted(seconds: float) -> None:
            raise InterruptedError

        with pytest.raises(InterruptedError):
            make().open("log", {0: None}, lambda: None, interrupted)
    finally:
        fluss_server.go_on()


def test_s7_a_server_that_stands_still_for_a_while_loses_and_doubles_nothing(
    make: Make, fluss_server: FlussServer
) -> None:
    """Longer than the store is patient with a connection, so that rows are sent again."""
    attempt = opened(make(append_timeout=120.0))
    records = numbered(3_000, 4)
    resumed = threading.Timer(7.0, fluss_server.go_on)
    for start in range(0, len(records), 10):
        attempt.append(*records[start : start + 10])
        if start == 1_000:
            eventually(lambda: attempt.store.acknowledged() > 50)
            fluss_server.pause()
            resumed.start()
    resumed.join()
    attempt.flush()
    attempt.close()
    tail = opened(make()).tail
    for group in range(4):
        assert of(group, tail) == of(group, records)


def test_p20_an_append_without_an_answer_is_of_unknown_fate(
    make: Make, fluss_server: FlussServer, table: str
) -> None:
    attempt = opened(make(append_timeout=4.0))
    attempt.write((0, b"known"))
    fluss_server.pause()
    try:
        attempt.append((0, b"unknown"))
        failure = attempt.until_failure()
    finally:
        fluss_server.go_on()
    assert isinstance(failure, UnknownFateError)
    assert "append-timeout" in named(failure, fluss_server, table)
    successor = opened(make(append_timeout=60.0))
    assert of(0, successor.tail) in ([b"known"], [b"known", b"unknown"])
    successor.write((0, b"next"))
    successor.close()


def test_s10_closing_while_the_server_does_not_answer_is_bounded(
    make: Make, fluss_server: FlussServer
) -> None:
    attempt = opened(make())
    fluss_server.pause()
    try:
        attempt.append((0, b"x"))
        assert attempt.store.close(8.0)
    finally:
        fluss_server.go_on()


def test_s7_a_row_that_the_connection_does_not_take_is_sent_on_another(
    make: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The library forgets a table whose leader is away, and then takes nothing for it."""
    attempt = opened(make())
    taken: list[int] = []
    append = Session.append

    def fail_once(session: Session, group: int, stamp: bytes, value: bytes) -> Any:
        taken.append(group)
        if len(taken) == 2:
            raise fluss.FlussError("Table not found", 7)
        return append(session, group, stamp, value)

    monkeypatch.setattr(Session, "append", fail_once)
    attempt.write(*((group, b"x") for group in range(4)))
    attempt.close()
    assert len(taken) > 4
    assert sorted(opened(make()).tail) == [(group, b"x") for group in range(4)]


def test_s7_connections_left_with_rows_on_their_way_do_not_keep_a_new_one_from_writing(
    make: Make, fluss_server: FlussServer
) -> None:
    """The library has one pool of threads for all of a process, one for each core."""
    store = make()
    opened(store).close()
    stamp = Stamp(bytes(16), RECORDS, 1, 1, 1, 0, 0).to_bytes()

    async def leave_some() -> None:
        left = [await Session.connect(store.settings) for _ in range((os.cpu_count() or 1) + 1)]
        for session in left:
            await session.append(0, stamp, b"there").wait()
        fluss_server.pause()
        try:
            for session in left:
                for _ in range(20):  # some have to wait for others
                    session.append(0, stamp, b"left")
                    await asyncio.sleep(0.002)
                await session.close()
        finally:
            fluss_server.go_on()

    asyncio.run(leave_some())
    attempt = opened(make(append_timeout=60.0))
    attempt.write((0, b"written"))
    attempt.close()


def test_s7_a_table_that_is_dropped_under_the_job(make: Make, fluss_server: FlussServer, table: str) -> None:
    attempt = opened(make(append_timeout=10.0))
    attempt.write((0, b"x"))
    position = attempt.end()
    fluss_server.drop(table)
    failure: DurableExecutionError | None = None
    while failure is None:
        try:
            attempt.write((0, b"y"))
        except DurableExecutionError as error:
            failure = error
    named(failure, fluss_server, table)
    attempt.close()
    successor = Attempt(
        make(append_timeout=60.0), position
    )  # makes the table again, and says what that means
    assert successor.tail == []
    assert 0 in successor.store.missing
    successor.write((0, b"z"))
    successor.close()


# -- security ------------------------------------------------------------------------------------------------


def secure(server: FlussServer, table: str, password: str | None = None) -> FlussActionStateStore:
    return FlussActionStateStore(
        server.secure_bootstrap,
        DATABASE,
        table,
        buckets=4,
        replication_factor=1,
        properties=server.secure_properties("agents", password),
        append_timeout=60.0,
    )


def test_sasl(make: Make, fluss_server: FlussServer, table: str) -> None:
    attempt = opened(secure(fluss_server, table))
    attempt.write((0, b"x"))
    attempt.close()
    assert opened(make()).tail == [(0, b"x")]


def test_s7_a_wrong_password_is_told_at_once(fluss_server: FlussServer, table: str) -> None:
    with pytest.raises(StoreUnavailableError, match=r"security\.sasl") as caught:
        opened(secure(fluss_server, table, "a wrong one"))
    assert "a wrong one" not in named(caught.value, fluss_server, table)


def test_s7_a_table_that_the_coordinator_has_missed_is_told_with_what_helps() -> None:
    settings = FlussActionStateStore("127.0.0.1:1", DATABASE, "t", buckets=1).settings
    error = RuntimeError("Fluss hitting unexpected error No leader found for table bucket: TableBucket(0)")
    assert "drop it and it is made again" in str(unavailable(settings, "cannot be opened", error))
    assert "drop it" not in str(unavailable(settings, "cannot be opened", RuntimeError("another")))


def test_secrets_are_shown_nowhere() -> None:
    store = FlussActionStateStore("h:1", "d", "t", properties={"security.sasl.password": "hidden"})
    assert "hidden" not in f"{store!r} {store.settings!r} {store.settings}"
    assert "hidden" not in store.settings.redact("an error that tells hidden things")
    assert dict(pickle.loads(pickle.dumps(store)).settings.properties)["security.sasl.password"] == "hidden"


# -- what users set ------------------------------------------------------------------------------------------


def test_properties_of_the_store_itself_are_refused() -> None:
    with pytest.raises(ConfigurationError, match=r"writer\.acks"):
        FlussActionStateStore("h:1", "d", "t", properties={"writer.acks": "0"})


def test_an_unknown_property_is_named(make: Make) -> None:
    with pytest.raises(ConfigurationError, match=r"writer\.akcs"):
        opened(make(properties={"writer.akcs": "1"}))


def test_a_missing_library_is_named() -> None:
    program = (
        "import sys; sys.modules['fluss'] = None\n"
        "from flink_agents_durable import FlussActionStateStore\n"
        "FlussActionStateStore('h:1', 'd', 't')"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60)
    assert "pip install --no-deps 'pyfluss" in done.stderr
