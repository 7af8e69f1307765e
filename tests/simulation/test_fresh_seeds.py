"""Histories with fresh seeds for a while, and those that once showed a fault."""

from __future__ import annotations

import itertools
import logging
import os
import random
import time

import pytest

from tests.simulation.agents import AGENTS
from tests.simulation.histories import explain, run_history
from tests.simulation.regressions import REGRESSIONS
from tests.simulation.search import try_history

SECONDS = float(os.environ.get("SIMULATION_SECONDS", "10"))
"""How long fresh seeds are tried: long enough to see a gross fault, short enough for each run of the tests."""


def test_fresh_seeds() -> None:
    """Every agent in turn, from a seed that nobody has seen; a failure prints it and the shortest history."""
    first = random.SystemRandom().randrange(1 << 40)
    deadline = time.monotonic() + SECONDS
    logging.disable(logging.CRITICAL)
    try:
        for seed in itertools.count(first):
            for name in sorted(AGENTS):
                violation = try_history(name, seed)
                if violation is not None:
                    pytest.fail(explain(name, violation), pytrace=False)
            if time.monotonic() > deadline:
                return
    finally:
        logging.disable(logging.NOTSET)


@pytest.mark.parametrize(
    ("name", "seed"), [pytest.param(name, seed, id=f"{name}-{seed}") for name, seed, _ in REGRESSIONS]
)
def test_regressions(name: str, seed: int) -> None:
    """Each was a violation once; the reason stands beside it."""
    logging.disable(logging.CRITICAL)
    try:
        run_history(name, seed)
    finally:
        logging.disable(logging.NOTSET)
