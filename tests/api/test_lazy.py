"""`lazy`: an object that does not travel, made once where it is used."""

from __future__ import annotations

import pickle
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from flink_agents_durable import lazy
from flink_agents_durable.api.lazy import collect_lazy

MADE: list[Client] = []


class Client:
    def __init__(self) -> None:
        self.lock = threading.Lock()  # cannot be pickled
        self.closed = False
        MADE.append(self)

    async def aclose(self) -> None:
        self.closed = True


def test_it_is_made_once_on_first_use() -> None:
    MADE.clear()
    client = lazy(Client)
    assert not MADE
    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(lambda _: client(), range(100)))
    assert len(MADE) == 1
    assert all(one is MADE[0] for one in found)


def test_it_pickles_as_its_factory_and_is_known_to_whoever_loads_it() -> None:
    client = lazy(Client)
    client()
    data = pickle.dumps(client)
    with collect_lazy() as loaded:
        copy = pickle.loads(data)
    assert loaded == [copy]
    assert copy() is not client()


def test_closing_gives_what_is_to_be_awaited() -> None:
    client = lazy(Client)
    assert client.close() is None, "nothing was made"
    made = client()
    ending = client.close()
    assert ending is not None
    with pytest.raises(StopIteration):
        ending.__await__().send(None)
    assert made.closed


def test_an_object_in_place_of_a_factory_is_refused() -> None:
    with pytest.raises(TypeError, match="function that makes"):
        lazy(42)  # type: ignore[arg-type]
