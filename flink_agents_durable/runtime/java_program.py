"""What the operators of a Java program call: the plan of an agent written in Java is made in the tasks.

No Python program applies such an agent, so that its plan comes as plain data: the class, its actions, the options.
Inputs, outputs and dead letters cross as MessagePack, as everything between Java actions and the engine does.
"""

from __future__ import annotations

import dataclasses
import pickle
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from flink_agents_durable.api.agent import Agent
from flink_agents_durable.api.configuration import AgentConfiguration
from flink_agents_durable.api.dead_letters import DeadLetter
from flink_agents_durable.api.errors import DurableSerializationError
from flink_agents_durable.api.java import JavaCallError, JavaFunction
from flink_agents_durable.engine.java_messages import encode, to_java
from flink_agents_durable.engine.keys import encode_key
from flink_agents_durable.runtime import operator
from flink_agents_durable.runtime.host import Host
from flink_agents_durable.runtime.plan import AgentPlan
from flink_agents_durable.runtime.task_settings import check_store

_JAVA_ERROR = f"{JavaCallError.__module__}.{JavaCallError.__qualname__}: "
"""Behind it is the class that Java users know."""


class JavaAgent(Agent):
    """Stands for an agent whose class is in Java."""


def open_operator(
    host: Host, settings: Mapping[str, Any]
) -> operator.AgentOperator | operator.FailedOperator:
    """Called by Java when it opens the operator of an agent. Never raises: see `operator.open_operator`."""

    def load(described: bytes) -> AgentPlan:
        return make_plan(described, settings["uid"])

    return operator.open_operator(host, settings, load)


def make_plan(described: bytes, uid: str) -> AgentPlan:
    """The plan of what `JavaProgram.java` describes. Raises ConfigurationError for options that cannot be."""
    plan = msgspec.msgpack.decode(described)
    agent = JavaAgent()
    for name, triggers, on_failure in plan["actions"]:
        function = JavaFunction(plan["agent"], name)
        agent.add_action(name, triggers, function, on_failure=on_failure or None)
    options = AgentConfiguration.from_flink(plan["options"])
    check_store(options)
    return AgentPlan(agent, uid, plan["id"], dict(options), encode_output=encode_output)


def encode_output(output: object) -> bytes:
    """An output or a dead letter for the Java stream behind the operator."""
    if isinstance(output, DeadLetter):
        letter = dataclasses.replace(output, error=output.error.removeprefix(_JAVA_ERROR))
        output = [getattr(letter, field.name) for field in dataclasses.fields(letter)]
    try:
        return encode(to_java(output))
    except OverflowError as error:
        raise DurableSerializationError(
            f"an output has a number that Java's long cannot hold: {error}"
        ) from error


class InputEncoder:
    """One subtask. Methods take at most one argument, so that they may raise: see `runtime.lasting_method`."""

    def encode(self, records: Sequence[bytes]) -> tuple[bytes, ...]:
        """Of packed pairs of key and record the fields of rows: encoded key (K3), pickle of the pair."""
        fields: list[bytes] = []
        for packed in records:
            key, value = msgspec.msgpack.decode(bytes(packed))
            fields.append(encode_key(_hashable(key)))
            fields.append(pickle.dumps((key, value), protocol=5))
        return tuple(fields)

    def close(self) -> bool:
        return True


def _hashable(key: Any) -> Any:
    """A bean in a key is the tuple of its fields by name."""
    if isinstance(key, dict):
        return tuple((name, _hashable(key[name])) for name in sorted(key))
    return [_hashable(part) for part in key] if isinstance(key, list) else key


def open_encoder(settings: Mapping[str, Any]) -> InputEncoder:
    """Called by Java when it opens the operator that encodes inputs."""
    return InputEncoder()
