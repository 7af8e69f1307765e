"""Histories for the simulator: an agent and a seed, from which all circumstances follow."""

from __future__ import annotations

import random
import sys
from collections import Counter
from dataclasses import replace
from typing import Any

from flink_agents_durable.engine.settings import EngineSettings
from flink_agents_durable.testing.simulation import Faults, Violation, World, shortest
from tests.simulation.agents import AGENTS

SHAPES = (["a"], ["a", "a"], ["a", "b"], ["a", "b", "a"], ["a", "a", "b", "b"])


def make_world(name: str, seed: int, **changes: Any) -> World:
    """The world of a history. `changes` replace arguments of World, for a shorter one or other faults."""
    agent = AGENTS[name]
    choose = random.Random(f"circumstances {seed}")
    keys = SHAPES[seed % len(SHAPES)]
    equal = choose.random() < 0.15 and len(keys) > 1
    inputs = [(key, key if equal else f"{key}{place}") for place, key in enumerate(keys)]
    faults = Faults()
    if agent.lost_head:
        faults = replace(faults, lost_head=agent.lost_head, lost_end=agent.lost_head / 4)
    elif agent.fork or choose.random() < 0.1:
        faults = replace(faults, fork=agent.fork or 0.5)
    elif choose.random() < 0.05:
        faults = replace(faults, lost_head=0.5, lost_end=0.2)
    if agent.versions:
        faults = replace(faults, flip=0.4)
    settings = EngineSettings(
        strict_values=choose.random() < 0.7,
        call_parallelism=choose.choice((1, 2, sys.maxsize, sys.maxsize)),
        memory_ttl=agent.memory_ttl,
    )
    arguments: dict[str, Any] = {
        "faults": faults,
        "steps": choose.choice((40, 80, 80, 160)),
        "reorder": not agent.ordered and not equal,
        "equal": equal,
        "store": choose.random() >= 0.1 or agent.versions or agent.durable,
        "max_record_bytes": agent.max_record_bytes,
        "settings": settings,
    }
    inputs = changes.pop("inputs", inputs)
    if "crashes" in changes:
        arguments["faults"] = replace(faults, crashes=changes.pop("crashes"))
    return World(seed, agent.make, inputs, **{**arguments, **changes})


def run_history(name: str, seed: int, **changes: Any) -> World:
    """Run one history and check that every input has its outputs once."""
    world = make_world(name, seed, **changes)
    world.run()
    outputs = AGENTS[name].outputs
    got = Counter((key, output[0]) for key, output in world.outputs)
    if outputs >= 0:
        want: Counter[Any] = Counter()
        for entry in world.inputs:
            want[entry] += outputs
        if got != want:
            world.violation(f"outputs: lost {want - got}, doubled {got - want}")
    return world


def explain(name: str, violation: Violation) -> str:
    """The shortest history that shows a violation, and how to see it again."""

    def run(seed: int, **changes: Any) -> World:
        return run_history(name, seed, **changes)

    world = make_world(name, violation.seed)
    shortest_one = shortest(run, violation, world.inputs, world.faults.crashes)
    again = f"tools/simulate --agent {name} --seed {violation.seed} --schedules 1"
    return f"{name}, {shortest_one}\n  (again, in full: {again})"
