"""Awakeables under the simulator: each is resolved at most once, the same on replay, and none is lost."""

from __future__ import annotations

import logging
import random
from collections import Counter
from collections.abc import Callable, Iterator

import pytest

from flink_agents_durable.engine.settings import EngineSettings
from flink_agents_durable.testing.simulation import Faults, Violation
from flink_agents_durable.testing.simulation.awakeables import AwakeableWorld
from tests.simulation import awakeable_mutants as mutants
from tests.simulation.awakeable_agents import AGENTS

SHAPES = (["a"], ["a", "a"], ["a", "b", "a"], ["a", "a", "a"])
SCHEDULES = 100

Mutant = Callable[[pytest.MonkeyPatch], None]


@pytest.fixture(autouse=True)
def _silence() -> Iterator[None]:
    logging.disable(logging.CRITICAL)
    yield
    logging.disable(logging.NOTSET)


def run_history(name: str, seed: int) -> None:
    """One history, from whose seed all circumstances follow."""
    make, outputs = AGENTS[name]
    choose = random.Random(f"circumstances {seed}")
    inputs = [(key, f"{key}{place}") for place, key in enumerate(SHAPES[seed % len(SHAPES)])]
    faults = Faults(fork=0.5 if choose.random() < 0.1 else 0.0, flip=0.4 if name == "versions" else 0.0)
    world = AwakeableWorld(
        seed,
        make,
        inputs,
        faults=faults,
        steps=choose.choice((40, 80, 160)),
        store=choose.random() >= 0.2 or name == "versions",
        settings=EngineSettings(strict_values=choose.random() < 0.7),
    )
    world.run()
    got = Counter((key, output[0]) for key, output in world.outputs)
    want = dict.fromkeys(inputs, outputs)
    if outputs >= 0 and got != want:
        world.violation(f"outputs: {got} instead of {want}")


@pytest.mark.parametrize("name", AGENTS)
def test_each_awakeable_is_resolved_once_whatever_fails(name: str) -> None:
    for seed in range(SCHEDULES):
        run_history(name, seed)


SEEN: list[tuple[Mutant, list[str], int]] = [
    (mutants.p1_the_last_one_wins, ["approval", "reminders"], 150),
    (mutants.p2_ids_by_counting, ["approval"], 50),
    (mutants.p3_delivered_before_the_ack, ["approval"], 50),
    (mutants.p4_forgotten_when_recorded, ["approval", "at_once"], 150),
    (mutants.p6_not_in_snapshots, ["approval", "at_once"], 150),
    (mutants.p6_dropped_before_their_input, ["approval", "at_once"], 100),
    (mutants.early_ones_are_not_seen, ["approval"], 50),
    (mutants.dropped_with_the_wait, ["reminders"], 150),
    (mutants.p13_lost_by_a_cut, ["versions"], 150),
]


@pytest.mark.parametrize(
    ("mutant", "agents", "schedules"),
    [pytest.param(mutant, agents, n, id=mutant.__name__) for mutant, agents, n in SEEN],
)
def test_a_rule_of_awakeables_that_is_left_out_is_seen(
    mutant: Mutant, agents: list[str], schedules: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The engine as it is passes the same schedules, see above."""
    mutant(monkeypatch)
    for place in range(schedules):
        try:
            run_history(agents[place % len(agents)], place // len(agents))
        except Violation:
            return
        except Exception:  # the engine itself fell over what the mutant did
            return
    pytest.fail(f"{mutant.__name__} was not seen within {schedules} schedules of {agents}")
