"""Testing kit: run an agent without a JVM, crash it, restore it."""

from flink_agents_durable.testing.check_replay import ReplayReport, check_replay
from flink_agents_durable.testing.local_runner import Call, LocalRunner
from flink_agents_durable.testing.replay_outputs import ReplayDifferenceError

__all__ = ["Call", "LocalRunner", "ReplayDifferenceError", "ReplayReport", "check_replay"]
