"""The Fluss store against the conformance suite, on a real server."""

from __future__ import annotations

import uuid
from collections.abc import Iterator

import pytest

from flink_agents_durable.store.fluss import FlussActionStateStore
from tests.store.conformance import Make, StoreConformance
from tests.store.fluss_server import DATABASE, FlussServer


class TestFluss(StoreConformance):
    @pytest.fixture
    def make(self, fluss_server: FlussServer) -> Iterator[Make]:
        table = f"conformance_{uuid.uuid4().hex}"
        yield lambda: FlussActionStateStore(
            fluss_server.bootstrap, DATABASE, table, buckets=12, replication_factor=1
        )
        fluss_server.drop(table)
