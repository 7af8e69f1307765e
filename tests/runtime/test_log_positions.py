"""Whose log it is, where reading goes on, and what may be cut."""

from __future__ import annotations

from typing import Any

import pytest

from flink_agents_durable.api.errors import ConfigurationError, UnreadableRecordError
from flink_agents_durable.runtime.log_positions import (
    FORMAT,
    GroupBlob,
    RetainedPositions,
    choose_log,
    read_blob,
)
from flink_agents_durable.store.protocol import NOTHING_TO_READ


def blob(position: int, log_id: str = "old", store: str = "sqlite", encoding: str = "k1") -> GroupBlob:
    return GroupBlob(FORMAT, log_id, store, position, encoding)


def choose(blobs: dict[int, GroupBlob], **changes: Any) -> Any:
    arguments: dict[str, Any] = {
        "restored": bool(blobs),
        "explicit_id": None,
        "first_id": "first",
        "store": "sqlite",
        "key_encoding": "k1",
        **changes,
    }
    return choose_log(blobs, range(2), **arguments)


def test_the_first_start_reads_from_the_beginning() -> None:
    start = choose({})
    assert (start.log_id, start.positions) == ("first", {0: None, 1: None})


def test_a_restore_goes_on_with_the_log_in_the_state() -> None:
    start = choose({0: blob(5), 1: blob(7)})
    assert (start.log_id, start.positions) == ("old", {0: 5, 1: 7})


def test_an_explicit_id_wins_and_another_one_in_the_state_makes_a_fork() -> None:
    start = choose({0: blob(5), 1: blob(7)}, explicit_id="mine")
    assert (start.log_id, start.positions) == ("mine", {0: None, 1: None})
    same = choose({0: blob(5), 1: blob(7)}, explicit_id="old")
    assert (same.log_id, same.positions) == ("old", {0: 5, 1: 7})
    assert choose({}, explicit_id="mine").log_id == "mine"


def test_a_missing_group_had_a_finished_subtask_and_nothing_of_it_is_read() -> None:
    assert choose({0: blob(5)}).positions == {0: 5, 1: NOTHING_TO_READ}
    assert choose({}, restored=True).positions == {0: NOTHING_TO_READ, 1: NOTHING_TO_READ}


def test_positions_of_another_store_mean_nothing() -> None:
    assert choose({0: blob(5, store="none"), 1: blob(9)}).positions == {0: None, 1: 9}


def test_k3_another_key_encoding_is_an_error_that_says_why() -> None:
    with pytest.raises(ConfigurationError, match=r"'pickled-thread'.*'k1'"):
        choose({0: blob(5, encoding="pickled-thread")})


def test_states_of_several_logs_are_reported(caplog: pytest.LogCaptureFixture) -> None:
    start = choose({0: blob(5, "a"), 1: blob(6, "b")})
    assert (start.log_id, start.positions) == ("a", {0: 5, 1: None})
    assert "several logs" in caplog.text


def test_a_blob_survives_its_bytes() -> None:
    assert read_blob(3, blob(2**40).to_bytes()) == blob(2**40)


@pytest.mark.parametrize(
    "data", [b"", b"\x00", b"\x93\x01\xa1a\xa1b", GroupBlob(99, "a", "b", 1, "k").to_bytes()]
)
def test_an_unreadable_blob_names_its_group(data: bytes) -> None:
    with pytest.raises(UnreadableRecordError, match="key group 3"):
        read_blob(3, data)


# ---- P23


def retained(count: int, *checkpoints: int) -> RetainedPositions:
    positions = RetainedPositions(count)
    for id in checkpoints:
        positions.taken(id, {0: 10 * id})
    return positions


def test_p23_a_completed_checkpoint_cuts_to_its_position() -> None:
    positions = retained(1, 1, 2)
    assert positions.completed(1) == {0: 10}
    assert positions.completed(2) == {0: 20}


def test_p23_the_oldest_retained_checkpoint_decides() -> None:
    positions = retained(3, 1, 2, 3, 4, 5)
    assert [positions.completed(id) for id in (1, 2, 3, 4, 5)] == [None, None, {0: 10}, {0: 20}, {0: 30}]


def test_p23_savepoints_and_unknown_checkpoints_cut_nothing() -> None:
    positions = retained(1, 5)
    assert positions.completed(3) is None
    assert positions.completed(4) is None
    assert positions.completed(5) == {0: 50}
    assert positions.completed(5) is None


def test_p23_aborted_checkpoints_and_lost_notifications_are_harmless() -> None:
    positions = retained(2, 1, 2, 3, 4)
    assert positions.completed(1) is None
    positions.aborted(2)
    positions.aborted(99)
    # that of 3 is lost
    assert positions.completed(4) == {0: 10}, "never beyond what Flink still retains: 3 and 4"
    assert positions.completed(3) is None


def test_p23_at_least_one_is_retained() -> None:
    assert retained(0, 1).completed(1) == {0: 10}
