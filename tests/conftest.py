"""What tests of several packages share."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from tests.store.fluss_server import FlussServer
    from tests.store.kafka_broker import KafkaBroker


ON_A_CLUSTER = ("cluster", "matrix", "soak")
LONGEST_FIRST = (*ON_A_CLUSTER, "flink", "store", "simulation", "agents", "packaging", "docs", "examples")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Where two processes share the tests: what stays together in one of them, and what begins."""
    for item in items:
        folder = item.path.parent.name
        item.add_marker(pytest.mark.xdist_group("cluster" if folder in ON_A_CLUSTER else str(item.path)))
    places = {folder: place for place, folder in enumerate(LONGEST_FIRST)}
    items.sort(key=lambda item: places.get(item.path.parent.name, len(places)))


@pytest.fixture(scope="session")
def kafka_broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KafkaBroker]:
    """One broker for the whole session. A test that stops it starts it again."""
    from tests.store.kafka_broker import KafkaBroker

    broker = KafkaBroker(tmp_path_factory.mktemp("kafka"))
    try:
        broker.start()
        yield broker
    finally:
        broker.kill()


@pytest.fixture(scope="session")
def fluss_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[FlussServer]:
    """One server for the whole session. A test that stops it starts it again."""
    from tests.store.fluss_server import FlussServer

    server = FlussServer(tmp_path_factory.mktemp("fluss"))
    try:
        server.start()
        yield server
    finally:
        server.kill()
