"""PyFlink: the environment, shipping of agents, and what a job needs to find jar and interpreter."""

from flink_agents_durable.flink.interpreter import put_interpreter_first_on_path

# Before anything here starts PyFlink's JVM, which gets its environment variables only then.
put_interpreter_first_on_path()

from flink_agents_durable.flink.builder import AgentBuilder  # noqa: E402
from flink_agents_durable.flink.environment import AgentsExecutionEnvironment  # noqa: E402

__all__ = ["AgentBuilder", "AgentsExecutionEnvironment"]
