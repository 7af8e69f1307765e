"""Signed records: what is not signed, or signed for another place, is refused before it is read."""

from __future__ import annotations

import logging
import os
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from flink_agents_durable import RunnerContext, SqliteActionStateStore, UnreadableRecordError
from flink_agents_durable.api.errors import ConfigurationError
from flink_agents_durable.engine.failures import decode_failure
from flink_agents_durable.engine.payload import PayloadCodec
from flink_agents_durable.engine.records import decode_record
from flink_agents_durable.store.signing import OVERHEAD, SHORTEST_KEY, SignedStore, SigningKey, read_keys
from flink_agents_durable.testing import LocalRunner
from tests.contracts.functions import ask, check, never
from tests.contracts.kit import Gate, agent_of, out, until, values

OLD, NEW = "old-secret-" + "1" * 32, "new-secret-" + "2" * 32
WAIT = 20.0


def ignore() -> None:
    pass


def key_file(tmp_path: Path, *lines: str) -> str:
    path = tmp_path / "keys"
    path.write_text("\n".join(lines))
    return str(path)


def write(store: Any, log_id: str, *records: tuple[int, bytes]) -> None:
    list(store.open(log_id, dict.fromkeys(range(4)), ignore))
    store.append(records)
    store.wait_acknowledged(1, lambda seconds: None)
    assert store.close(WAIT)


def read(store: Any, log_id: str = "log") -> list[tuple[int, bytes]]:
    try:
        return list(store.open(log_id, dict.fromkeys(range(4)), ignore))
    finally:
        store.close(WAIT)


def plain(tmp_path: Path) -> SqliteActionStateStore:
    return SqliteActionStateStore(tmp_path / "store", synchronous="OFF")


def signed(tmp_path: Path, *lines: str) -> SignedStore:
    return SignedStore(plain(tmp_path), key_file(tmp_path, *lines))


def test_x6_a_signed_record_comes_back_as_it_was(tmp_path: Path) -> None:
    write(signed(tmp_path, OLD), "log", (1, b"one"), (2, b""))
    assert read(signed(tmp_path, OLD)) == [(1, b"one"), (2, b"")]


def test_x6_an_unsigned_record_is_refused_with_the_remedy(tmp_path: Path) -> None:
    write(plain(tmp_path), "log", (1, b"one"))
    with pytest.raises(
        UnreadableRecordError, match=r"record 1 .* log 'log', of key group 1.*not signed.*savepoint"
    ):
        read(signed(tmp_path, OLD))


def stored(tmp_path: Path, log_id: str = "log") -> list[tuple[int, bytes]]:
    """As the backend holds them."""
    return read(plain(tmp_path), log_id)


@pytest.mark.parametrize("place", ["first", "key", "signature", "content", "cut", "longer"])
def test_x6_a_changed_record_is_refused(tmp_path: Path, place: str) -> None:
    write(signed(tmp_path, OLD), "log", (1, b"content"))
    [(group, data)] = stored(tmp_path)
    index = {"first": 0, "key": 1, "signature": 8, "content": OVERHEAD + 1}.get(place)
    if index is not None:
        changed = data[:index] + bytes([data[index] ^ 1]) + data[index + 1 :]
    else:
        changed = data[:-1] if place == "cut" else data + b"x"
    folder = tmp_path / "changed"
    folder.mkdir()
    write(plain(folder), "log", (group, changed))
    with pytest.raises(UnreadableRecordError, match="refused"):
        read(signed(folder, OLD))


def test_x6_a_record_of_another_log_or_key_group_is_refused(tmp_path: Path) -> None:
    write(signed(tmp_path, OLD), "log", (1, b"content"))
    [(group, data)] = stored(tmp_path)
    write(plain(tmp_path), "moved", (group, data))
    with pytest.raises(UnreadableRecordError, match="another log"):
        read(signed(tmp_path, OLD), "moved")
    folder = tmp_path / "second"
    folder.mkdir()
    write(plain(folder), "log", (group + 1, data))
    with pytest.raises(UnreadableRecordError, match="key group"):
        read(signed(folder, OLD))


def test_x6_keys_rotate(tmp_path: Path) -> None:
    write(signed(tmp_path, OLD), "log", (1, b"by the old key"))
    write(signed(tmp_path, "# rotated", NEW, "", OLD), "log", (1, b"by the new key"))
    assert [record for _, record in read(signed(tmp_path, NEW, OLD))] == [
        b"by the old key",
        b"by the new key",
    ]
    with pytest.raises(UnreadableRecordError, match="further line"):
        read(signed(tmp_path, NEW))


@pytest.mark.parametrize(
    ("lines", "problem"),
    [([], "no key"), (["", "# comment"], "no key"), ([OLD, "short-secret"], f"line 2 is shorter than {SHORTEST_KEY}")],
)  # fmt: skip
def test_a_bad_key_file_is_named_and_its_content_is_not(
    tmp_path: Path, lines: list[str], problem: str
) -> None:
    with pytest.raises(ConfigurationError, match=problem) as refused:
        read(signed(tmp_path, *lines))
    assert str(tmp_path) in str(refused.value)
    assert "secret" not in str(refused.value)


def test_a_missing_key_file_says_where_it_has_to_be(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="every task manager"):
        read(SignedStore(plain(tmp_path), str(tmp_path / "nothing")))


def test_the_key_is_in_no_pickle_and_no_text(tmp_path: Path) -> None:
    store = signed(tmp_path, OLD)
    [key] = read_keys(key_file(tmp_path, OLD), "log")
    assert list(store.open("log", dict.fromkeys(range(4)), ignore)) == []
    try:
        for text in (repr(store), repr(key), str(vars(store)), repr(SigningKey(b"", b"planted"))):
            assert OLD not in text
            assert "planted" not in text
    finally:
        store.close(WAIT)
    assert OLD.encode() not in pickle.dumps(signed(tmp_path, OLD))


def test_x5_a_signed_record_without_the_option_names_it(tmp_path: Path) -> None:
    write(signed(tmp_path, OLD), "log", (1, b"content"))
    with pytest.raises(UnreadableRecordError, match="signing-key-file"):
        decode_record(stored(tmp_path)[0][1])


class Bomb:
    """A pickle that tells when somebody loads it."""

    def __reduce__(self) -> Any:
        return os.putenv, ("SIGNING_BOMB", "loaded")


async def act(event: Any, ctx: RunnerContext) -> None:
    out(ctx, await ctx.durable_execute_async(ask, "a"))
    out(ctx, await ctx.durable_execute_async(check, "b"))


def start(tmp_path: Path, file: str | None, fakes: dict[Any, Any]) -> LocalRunner:
    options = {} if file is None else {"agents.store.signing-key-file": file}
    store = SqliteActionStateStore(tmp_path / "store", synchronous="OFF")
    return LocalRunner.restore(agent_of(act), None, store=store, fakes=fakes, options=options)


def test_l2_a_job_with_signed_records_goes_on_after_a_crash(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """And one without the key, or with a store that somebody else wrote to, does not begin."""
    caplog.set_level(logging.DEBUG)
    gate, file = Gate(), key_file(tmp_path, OLD)
    first = start(tmp_path, file, {check: gate})
    first.process("k", 1)
    until(first, lambda: gate.is_waiting("b"))
    first.crash()
    refused: list[Callable[[], LocalRunner]] = [
        lambda: start(tmp_path, None, {}),
        lambda: start(tmp_path, key_file(tmp_path, NEW), {}),
    ]
    for attempt in refused:
        with pytest.raises(UnreadableRecordError, match="signing-key-file"):
            attempt()
    with start(tmp_path, key_file(tmp_path, OLD), {ask: never}) as second:
        second.process("k", 1)
        second.run_until_idle()
        assert values(second) == ["a!", "b?"]
    assert OLD not in caplog.text


def test_x5_bare_pickles_are_not_loaded_in_signed_mode() -> None:
    with pytest.raises(UnreadableRecordError, match="bare pickle"):
        decode_failure(pickle.dumps(Bomb()), PayloadCodec(reads_bare_pickles=False))
