from __future__ import annotations

import gc
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.contracts.kit import Attempts


@pytest.fixture(scope="session", autouse=True)
def _frozen_modules() -> Iterator[None]:
    """Keep what is imported out of the collections below: they take 0.1 s each otherwise."""
    gc.collect()
    gc.freeze()
    yield
    gc.unfreeze()


@pytest.fixture
def attempts(tmp_path: Path) -> Iterator[Attempts]:
    """Attempts of one job on an sqlite store."""
    yield from _attempts(Attempts(tmp_path))


@pytest.fixture
def storeless(tmp_path: Path) -> Iterator[Attempts]:
    """Attempts of one job without an external store."""
    job = Attempts(tmp_path)
    job.store = None
    yield from _attempts(job)


def _attempts(job: Attempts) -> Iterator[Attempts]:
    yield job
    job.close()
    gc.collect()  # coroutines that a crash left behind end here, not in the middle of another test
