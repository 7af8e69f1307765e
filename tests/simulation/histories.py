"""Histories for the simulator: an agent, inputs and a seed."""

from __future__ import annotations

from collections import Counter

from agents import AGENTS, IN_ORDER  # type: ignore[import-not-found]

from flink_agents_durable.testing.simulation import World

SHAPES = (["a"], ["a", "a"], ["a", "b", "a", "b"], ["a", "a", "a"])


def run_history(name: str, seed: int) -> World:
    """Run one history and check that every input has its outputs once."""
    make_agent, outputs = AGENTS[name]
    keys = SHAPES[seed % len(SHAPES)]
    inputs = [(key, f"{key}{place}") for place, key in enumerate(keys)]
    world = World(seed, make_agent, inputs, reorder=name not in IN_ORDER)
    world.run()
    got = Counter((key, output[0]) for key, output in world.outputs)
    want = Counter({entry: outputs for entry in inputs})
    if got != want:
        world.violation(f"outputs: lost {want - got}, doubled {got - want}")
    return world
