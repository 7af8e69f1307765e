from __future__ import annotations

from pathlib import Path

from tests.matrix.cells import sample
from tests.matrix.run import run
from tests.store.kafka_broker import KafkaBroker


def test_l2_i2_r2_x3_x4_x9_a_sample_of_the_matrix(tmp_path: Path, kafka_broker: KafkaBroker) -> None:
    """All of it is `tools/matrix`, with its results in docs/matrix.md."""
    found = run(sample(), tmp_path, kafka_broker)
    assert len(found) == len(sample())
    assert {name: wrong for name, wrong in found.items() if wrong} == {}
