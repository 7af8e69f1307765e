from __future__ import annotations

from pathlib import Path

import pytest

from tests.matrix.cells import sample
from tests.matrix.run import run
from tests.matrix.stores import OnFluss, OnKafka
from tests.store.fluss_server import FlussServer
from tests.store.kafka_broker import KafkaBroker


@pytest.mark.slow
def test_l2_i2_r2_x3_x4_x9_a_sample_of_the_matrix_on_fluss(tmp_path: Path, fluss_server: FlussServer) -> None:
    found = run(sample(), tmp_path, OnFluss(fluss_server))
    assert {name: wrong for name, wrong in found.items() if wrong} == {}


def test_l2_i2_r2_x3_x4_x9_a_sample_of_the_matrix(tmp_path: Path, kafka_broker: KafkaBroker) -> None:
    """All of it is `tools/matrix`, with its results in docs/matrix.md."""
    found = run(sample(), tmp_path, OnKafka(kafka_broker))
    assert len(found) == len(sample())
    assert {name: wrong for name, wrong in found.items() if wrong} == {}
