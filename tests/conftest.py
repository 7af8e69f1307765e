"""What tests of several packages share."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from tests.store.fluss_server import FlussServer
    from tests.store.kafka_broker import KafkaBroker


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
