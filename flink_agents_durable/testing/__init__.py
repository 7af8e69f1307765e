"""Testing kit: run an agent without a JVM, crash it, restore it."""

from flink_agents_durable.testing.local_runner import Call, LocalRunner

__all__ = ["Call", "LocalRunner"]
