"""The stores that are part of the package, against the conformance suite."""

from __future__ import annotations

from pathlib import Path

import pytest

from flink_agents_durable.store import SqliteActionStateStore
from flink_agents_durable.store.signing import SignedStore
from tests.store.conformance import Make, StoreConformance


class TestSqlite(StoreConformance):
    @pytest.fixture
    def make(self, tmp_path: Path) -> Make:
        return lambda: SqliteActionStateStore(tmp_path / "store")


class TestSigned(StoreConformance):
    @pytest.fixture
    def make(self, tmp_path: Path) -> Make:
        keys = tmp_path / "keys"
        keys.write_text("k" * 32)
        return lambda: SignedStore(SqliteActionStateStore(tmp_path / "store"), str(keys))
