"""What is particular to SQLite: files, disks, locks, and one statement per commit."""

from __future__ import annotations

import contextlib
import shutil
import sqlite3
import subprocess
import sys
import textwrap
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from flink_agents_durable.api.errors import (
    ConfigurationError,
    StoreUnavailableError,
    UnreadableRecordError,
)
from flink_agents_durable.store import SqliteActionStateStore, StoreFencedError, UnknownFateError
from flink_agents_durable.store import sqlite_log as sqlite_log_module
from flink_agents_durable.store.sqlite import file_name
from flink_agents_durable.store.sqlite_errors import is_certainly_unwritten
from tests.store.conformance import DEADLINE, STRANGE_LOG_IDS, Attempt, eventually


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "store"


def database(folder: Path) -> Path:
    return folder / file_name("log")


def open_store(folder: Path, groups: range = range(4), **options: object) -> Attempt:
    return Attempt(SqliteActionStateStore(folder, **options), dict.fromkeys(groups))  # type: ignore[arg-type]


@contextlib.contextmanager
def locked(path: Path) -> Iterator[sqlite3.Connection]:
    """The write lock of the database, held by somebody else."""
    with contextlib.closing(
        sqlite3.connect(path, isolation_level=None, check_same_thread=False)
    ) as connection:
        connection.execute("BEGIN IMMEDIATE")
        yield connection


def connection_of(attempt: Attempt) -> sqlite3.Connection:
    store = attempt.store
    assert isinstance(store, SqliteActionStateStore)
    assert store._log is not None
    return store._log._connection


# -- commits -------------------------------------------------------------------------------------------------


def test_one_statement_and_one_row_per_commit(folder: Path) -> None:
    """Every statement gives the GIL away, and beside a busy task thread that costs a switch interval."""
    attempt = open_store(folder)
    statements: list[str] = []
    connection_of(attempt).set_trace_callback(statements.append)
    for number in range(1_000):
        attempt.append((number % 4, b"%d" % number))
    attempt.flush()
    connection_of(attempt).set_trace_callback(None)
    attempt.close()
    with contextlib.closing(sqlite3.connect(database(folder))) as connection:
        (rows,) = connection.execute("SELECT count(*) FROM log").fetchone()
    assert len(statements) == rows < 500


def test_full_synchronous_write_ahead_log_is_the_default(folder: Path) -> None:
    attempt = open_store(folder)
    connection = connection_of(attempt)
    assert connection.execute("PRAGMA journal_mode").fetchone() == ("wal",)
    assert connection.execute("PRAGMA synchronous").fetchone() == (2,)
    attempt.close()


def test_a_large_commit_is_split_into_rows(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sqlite_log_module, "MAX_ROW_BYTES", 1_000)
    attempt = open_store(folder)
    records = [(number % 4, b"%d" % number + bytes(300)) for number in range(20)]
    attempt.write(*records, (0, bytes(5_000)))
    attempt.close()
    assert open_store(folder).tail == [*records, (0, bytes(5_000))]


def test_records_of_a_foreign_group_are_refused(folder: Path) -> None:
    attempt = open_store(folder, range(2))
    with pytest.raises(UnknownFateError, match="are not ours"):
        attempt.write((2, b"x"))


def test_p23_groups_need_not_be_contiguous(folder: Path) -> None:
    def open_groups(*groups: int) -> Attempt:
        return Attempt(SqliteActionStateStore(folder), dict.fromkeys(groups))

    odd, even = open_groups(1, 5, 9), open_groups(2, 6)
    odd.write((1, b"a"), (9, b"b"))  # a row that spans groups of the other
    even.write((2, b"c"), (6, b"d"))
    odd.store.truncate(odd.end())
    odd.write((5, b"e"))
    odd.close()
    assert even.store.acknowledged() == 1
    even.close()
    assert open_groups(2, 6).tail == [(2, b"c"), (6, b"d")]
    assert (5, b"e") in open_groups(1, 5, 9).tail


def test_p23_a_truncation_by_a_zombie_is_refused(folder: Path) -> None:
    zombie = open_store(folder)
    zombie.write((0, b"x"))
    end = zombie.end()
    owner = open_store(folder)
    zombie.store.truncate(end)
    assert isinstance(zombie.until_failure(), StoreFencedError)
    owner.close()
    assert open_store(folder).tail == [(0, b"x")]


def test_truncated_rows_are_removed_and_their_pages_used_again(folder: Path) -> None:
    attempt = open_store(folder)
    sizes = []
    for _ in range(6):
        for _ in range(20):
            attempt.write((0, bytes(50_000)))
        attempt.store.truncate(attempt.end())
        eventually(lambda: attempt.write((1, b"x")) or count_rows(folder) < 20)  # type: ignore[func-returns-value]
        sizes.append(count_pages(folder))
    attempt.close()
    assert sizes[-1] < 2 * sizes[1]


def count_rows(folder: Path) -> int:
    with contextlib.closing(sqlite3.connect(database(folder))) as connection:
        return int(connection.execute("SELECT count(*) FROM log").fetchone()[0])


def count_pages(folder: Path) -> int:
    with contextlib.closing(sqlite3.connect(database(folder))) as connection:
        return int(connection.execute("PRAGMA page_count").fetchone()[0])


def test_case_45_bytes_per_call_are_constant(folder: Path) -> None:
    attempt = open_store(folder)
    for number in range(1_000):
        attempt.append((0, b"%4d" % number + bytes(1_020)))
    attempt.flush()
    attempt.close()
    assert database(folder).stat().st_size < 1_000 * 1_024 * 1.5 + 100_000


# -- locks ---------------------------------------------------------------------------------------------------


def test_s7_an_append_waits_for_the_lock(folder: Path) -> None:
    attempt = open_store(folder)
    with locked(database(folder)) as other:
        attempt.append((0, b"x"))
        threading.Timer(0.3, other.execute, ("ROLLBACK",)).start()
        attempt.flush()
    attempt.close()
    assert open_store(folder).tail == [(0, b"x")]


def test_s7_an_append_that_stays_locked_out_names_path_and_remedy(folder: Path) -> None:
    attempt = open_store(folder, append_timeout=0.3)
    with locked(database(folder)):
        attempt.append((0, b"x"))
        failure = attempt.until_failure()
    assert isinstance(failure, StoreUnavailableError)
    assert str(database(folder)) in str(failure)
    assert "another process holds its lock" in str(failure)
    assert open_store(folder).tail == []


def test_case_46_opening_waits_for_the_lock_in_an_interruptible_way(folder: Path) -> None:
    open_store(folder).close()
    waits: list[float] = []
    with locked(database(folder)) as other:

        def wait(seconds: float) -> None:
            waits.append(seconds)
            if len(waits) == 3:
                other.execute("ROLLBACK")

        store = SqliteActionStateStore(folder)
        assert list(store.open("log", {0: None}, lambda: None, wait)) == []
    assert len(waits) >= 3
    assert store.close(DEADLINE)


def test_s7_opening_gives_up_after_a_bounded_time(folder: Path) -> None:
    open_store(folder).close()
    begin = time.monotonic()
    with locked(database(folder)), pytest.raises(StoreUnavailableError, match="lock"):
        open_store(folder, append_timeout=0.3)
    assert time.monotonic() - begin < DEADLINE


def test_close_is_bounded_while_locked_out(folder: Path) -> None:
    attempt = open_store(folder)
    with locked(database(folder)):
        attempt.append((0, b"x"))
        begin = time.monotonic()
        assert attempt.store.close(1.0)
        assert time.monotonic() - begin < 2.0


# -- folders and disks ---------------------------------------------------------------------------------------


def test_a_folder_below_a_file(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    begin = time.monotonic()
    with pytest.raises(StoreUnavailableError, match=r"agents\.store\.sqlite\.path") as caught:
        open_store(tmp_path / "file" / "store")
    assert str(tmp_path / "file" / "store") in str(caught.value)
    assert time.monotonic() - begin < 5


def test_a_folder_in_place_of_the_database(folder: Path) -> None:
    database(folder).mkdir(parents=True)
    with pytest.raises(StoreUnavailableError, match=r"agents\.store\.sqlite\.path"):
        open_store(folder)


def run_with_mount(tmp_path: Path, mount: str, script: str) -> str:
    """Run a script in a mount namespace of its own: permission bits do not stop root, a mount does."""
    unshare = shutil.which("unshare")
    if unshare is None:
        pytest.skip("needs unshare")
    (tmp_path / "disk").mkdir()
    prelude = """
        import os, sys, threading, time
        sys.path.insert(0, sys.argv[2])
        from flink_agents_durable.api.errors import *
        from flink_agents_durable.store import *
        from tests.store.conformance import Attempt
        disk = sys.argv[1]
        """
    code = textwrap.dedent(prelude) + textwrap.dedent(script)
    shell = f'mount -t tmpfs -o {mount} tmpfs "$2" || exit 99; exec "$0" -c "$1" "$2" "$3"'
    root = str(Path(__file__).parents[2])
    for options in (["-m"], ["-rm"]):
        result = subprocess.run(
            [unshare, *options, "sh", "-c", shell, sys.executable, code, str(tmp_path / "disk"), root],
            capture_output=True,
            text=True,
            timeout=60,
        )
        if result.returncode == 0:
            return result.stdout
        if result.returncode not in (1, 99) or "Traceback" in result.stderr:
            break
    if "Traceback" not in result.stderr:
        pytest.skip(f"cannot mount: {result.stderr}")
    raise AssertionError(result.stderr)


def test_a_read_only_file_system(tmp_path: Path) -> None:
    out = run_with_mount(
        tmp_path,
        "ro",
        """
        try:
            Attempt(SqliteActionStateStore(disk + "/store"), {0: None})
        except StoreUnavailableError as error:
            print(error)
        """,
    )
    assert "agents.store.sqlite.path" in out
    assert "Read-only" in out


def test_s7_a_full_disk_ends_the_attempt_and_loses_nothing_acknowledged(tmp_path: Path) -> None:
    out = run_with_mount(
        tmp_path,
        "size=2m",
        """
        attempt = Attempt(SqliteActionStateStore(disk + "/store", append_timeout=0.5), {0: None})
        written = 0
        try:
            while True:
                attempt.write((0, b"%d" % written + bytes(20_000)))
                written += 1
        except (StoreUnavailableError, UnknownFateError) as error:
            print(type(error).__name__, error)
        attempt.store.close(5)
        try:
            Attempt(SqliteActionStateStore(disk + "/store", append_timeout=0.5), {0: None})
        except StoreUnavailableError as error:
            print("reopen", error)
        else:
            print("reopened")
        import shutil, tempfile
        copy = tempfile.mkdtemp()
        shutil.copytree(disk + "/store", copy + "/store")
        tail = Attempt(SqliteActionStateStore(copy + "/store"), {0: None}).tail
        shutil.rmtree(copy)
        numbers = [int(data.rstrip(bytes(1))) for _, data in tail]
        assert written > 5 and numbers[:written] == list(range(written)), (written, numbers)
        """,
    )
    assert "StoreUnavailableError" in out
    assert "free space" in out


def test_s7_an_append_goes_on_when_the_disk_has_space_again(tmp_path: Path) -> None:
    run_with_mount(
        tmp_path,
        "size=4m",
        """
        with open(disk + "/filler", "wb") as filler:
            filler.write(bytes(3_000_000))
        attempt = Attempt(SqliteActionStateStore(disk + "/store", append_timeout=30), {0: None})
        def free():
            deadline = time.monotonic() + 20
            while time.monotonic() < deadline and log.full == 0:
                time.sleep(0.01)
            os.unlink(disk + "/filler")
        import flink_agents_durable.store.sqlite_log as module
        log = attempt.store._log
        log.full = 0
        original = module.is_full
        def counting(error):
            log.full += original(error)
            return original(error)
        module.is_full = counting
        thread = threading.Thread(target=free)
        thread.start()
        for number in range(60):
            attempt.write((0, b"%d" % number + bytes(20_000)))
        thread.join()
        assert log.full > 0
        attempt.close()
        tail = Attempt(SqliteActionStateStore(disk + "/store"), {0: None}).tail
        assert [int(data.rstrip(bytes(1))) for _, data in tail] == list(range(60))
        """,
    )


def test_s7_a_disk_that_is_full_at_open(tmp_path: Path) -> None:
    out = run_with_mount(
        tmp_path,
        "size=64k",
        """
        with open(disk + "/filler", "wb") as filler:
            try:
                filler.write(bytes(100_000))
                filler.flush()
            except OSError:
                pass
        try:
            Attempt(SqliteActionStateStore(disk, append_timeout=0.3), {0: None})
        except StoreUnavailableError as error:
            print(error)
        """,
    )
    assert "cannot be written" in out
    assert "Remedy" in out


def test_p20_an_append_of_unknown_fate_ends_the_attempt(folder: Path) -> None:
    """A file size limit makes writes fail in a way that SQLite reports as an I/O error."""
    script = """
        import resource, signal, sys
        sys.path.insert(0, sys.argv[2])
        from flink_agents_durable.store import *
        from tests.store.conformance import Attempt
        attempt = Attempt(SqliteActionStateStore(sys.argv[1]), {0: None})
        attempt.write((0, b"x"))
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (200_000, 200_000))
        attempt.append((0, bytes(400_000)))
        print(type(attempt.until_failure()).__name__)
        attempt.acks = 0
        try:
            attempt.append((0, b"y"))
        except UnknownFateError as error:
            print(error)
    """
    result = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(script), str(folder), str(Path(__file__).parents[2])],
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert result.returncode == 0, result.stderr
    assert result.stdout.startswith("UnknownFateError")
    assert str(database(folder)) in result.stdout
    assert open_store(folder).tail == [(0, b"x")]


# -- files that are not what they should be ------------------------------------------------------------------


def test_a_file_that_is_no_database(folder: Path) -> None:
    folder.mkdir()
    database(folder).write_bytes(b"not a database at all" * 1_000)
    with pytest.raises(StoreUnavailableError, match="not a database"):
        open_store(folder)


def test_a_format_of_another_version(folder: Path) -> None:
    open_store(folder).close()
    with contextlib.closing(sqlite3.connect(database(folder))) as connection:
        connection.execute("PRAGMA user_version = 99")
    with pytest.raises(StoreUnavailableError, match="format 99"):
        open_store(folder)


def test_a_file_of_another_log(folder: Path) -> None:
    open_store(folder).close()
    database(folder).rename(folder / file_name("other"))
    with pytest.raises(StoreUnavailableError, match="renamed"):
        Attempt(SqliteActionStateStore(folder), {0: None}, "other")


def test_an_unreadable_row_is_named(folder: Path) -> None:
    attempt = open_store(folder)
    attempt.write((0, b"x"))
    attempt.close()
    with contextlib.closing(sqlite3.connect(database(folder))) as connection, connection:
        connection.execute("UPDATE log SET records = x'c1'")
    with pytest.raises(UnreadableRecordError, match="row 1 of"):
        open_store(folder)


def test_s2_a_lost_file_is_reported_and_new_records_are_found_again(folder: Path) -> None:
    """Without it new records would lie below the position in the snapshot, and no restore would read them."""
    attempt = open_store(folder)
    for _ in range(10):
        attempt.write((0, b"x"))
    snapshot = attempt.end()
    attempt.close()
    shutil.rmtree(folder)
    successor = Attempt(SqliteActionStateStore(folder), snapshot)
    assert set(successor.store.missing) == set(range(4))
    successor.write((0, b"new"))
    successor.close()
    assert Attempt(SqliteActionStateStore(folder), snapshot).tail == [(0, b"new")]


def test_p22_a_removed_file_ends_the_attempt(folder: Path) -> None:
    attempt = open_store(folder)
    attempt.write((0, b"x"))
    shutil.rmtree(folder)
    attempt.store.truncate(attempt.store.positions(1))
    assert "is gone" in str(attempt.until_failure())


# -- small things --------------------------------------------------------------------------------------------


def test_file_names_are_safe_and_distinct() -> None:
    names = [file_name(log_id) for log_id in STRANGE_LOG_IDS]
    assert len({name.lower() for name in names}) == len(names)
    for name in names:
        assert len(name) < 100
        assert Path(name).name == name
        assert not name.startswith(".")


def test_synchronous_is_checked() -> None:
    with pytest.raises(ConfigurationError, match="FULL"):
        SqliteActionStateStore("x", synchronous="fast; DROP TABLE log")


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (sqlite3.OperationalError("database is locked"), True),
        (sqlite3.OperationalError("database table is locked"), True),
        (sqlite3.OperationalError("database or disk is full"), True),
        (sqlite3.OperationalError("locking protocol"), True),
        (sqlite3.OperationalError("disk I/O error"), False),
        (sqlite3.DatabaseError("database disk image is malformed"), False),
    ],
)
def test_p20_which_errors_are_tried_again(error: sqlite3.Error, expected: bool) -> None:
    assert is_certainly_unwritten(error) is expected


def test_many_groups(folder: Path) -> None:
    attempt = open_store(folder, range(32_768))
    attempt.write((0, b"a"), (32_767, b"b"))
    attempt.store.truncate(attempt.end())
    attempt.write((5, b"c"))
    attempt.close()
    assert open_store(folder, range(16_384)).tail == [(5, b"c")]
