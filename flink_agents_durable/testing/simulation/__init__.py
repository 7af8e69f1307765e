"""A seeded simulator: the real engine under every order of events and every moment of a crash."""

from flink_agents_durable.testing.simulation.faults import NONE, Faults
from flink_agents_durable.testing.simulation.invariants import Result
from flink_agents_durable.testing.simulation.minimise import shortest
from flink_agents_durable.testing.simulation.world import Violation, World

__all__ = ["NONE", "Faults", "Result", "Violation", "World", "shortest"]
