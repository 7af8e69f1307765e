"""The Fluss store against the conformance suite, on a real server."""

from __future__ import annotations

import copy
import uuid
from collections.abc import Iterator

import pytest

from flink_agents_durable.store.fluss import FlussActionStateStore
from tests.store.conformance import Make, StoreConformance
from tests.store.fluss_server import DATABASE, FlussServer


class TestFluss(StoreConformance):
    @pytest.fixture
    def make(self, fluss_server: FlussServer) -> Iterator[Make]:
        while True:  # until the server has taken notice of the table
            table = f"conformance_{uuid.uuid4().hex}"
            store = FlussActionStateStore(
                fluss_server.bootstrap, DATABASE, table, buckets=12, replication_factor=1
            )
            if fluss_server.make(store):
                break
            fluss_server.drop(table)
        yield lambda: copy.copy(store)
        fluss_server.drop(table)
