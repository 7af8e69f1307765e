"""The store that keeps nothing."""

from __future__ import annotations

import pickle

import pytest

from flink_agents_durable.store import ActionStateStore, NoActionStateStore


def test_everything_is_acknowledged_at_once_and_nothing_is_kept() -> None:
    acks: list[int] = []
    store: ActionStateStore = NoActionStateStore()
    assert list(store.open("log", {3: None, 4: 17}, lambda: acks.append(1))) == []
    store.append([(3, b"x")])
    store.append([(4, b"y"), (4, b"z")])
    assert store.acknowledged() == 2
    assert len(acks) == 2
    store.wait_acknowledged(2, lambda seconds: pytest.fail("nothing to wait for"))
    assert store.positions(2) == {3: 0, 4: 0}
    store.truncate({3: 0})
    assert store.close(1)
    assert list(store.open("log", {3: 0, 4: 0}, lambda: None)) == []
    assert not store.missing


def test_it_says_that_it_is_not_durable() -> None:
    assert not NoActionStateStore.durable
    assert NoActionStateStore.max_record_bytes is None


def test_waiting_for_a_batch_that_was_never_sent_is_an_error() -> None:
    with pytest.raises(ValueError, match="waiting for batch 1"):
        NoActionStateStore().wait_acknowledged(1, lambda seconds: None)


def test_it_pickles_while_open() -> None:
    store = NoActionStateStore()
    store.open("log", {0: None}, lambda: None)
    assert isinstance(pickle.loads(pickle.dumps(store)), NoActionStateStore)
