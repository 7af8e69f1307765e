"""What Java programs send to the tasks instead of a plan, and the options as Java names them."""

from __future__ import annotations

import pickle
import re
from datetime import timedelta
from pathlib import Path
from typing import Any

import msgspec
import pytest

from flink_agents_durable import AgentOptions, DeadLetter
from flink_agents_durable.api.errors import ConfigurationError, DurableSerializationError
from flink_agents_durable.engine.keys import encode_key
from flink_agents_durable.runtime.java_program import encode_output, make_plan, open_encoder

JAVA_OPTIONS = Path(__file__).resolve().parents[2] / (
    "java-bridge/src/main/java/org/flinkagents/durable/api/AgentOptions.java"
)


def described(**changes: Any) -> bytes:
    plan = {
        "agent": "org.example.Reviews",
        "id": "abc",
        "actions": [["review", ["_input_event", "again"], ""], ["fail", ["odd"], "skip"]],
        "options": {"agents.call.workers": "7", "agents.close-timeout": "200 ms"},
    }
    return msgspec.msgpack.encode({**plan, **changes})


def test_the_plan_has_the_actions_and_the_typed_options() -> None:
    plan = make_plan(described(), "reviews")
    assert (plan.uid, plan.plan_id) == ("reviews", "abc")
    assert plan.configuration().get(AgentOptions.CALL_WORKERS) == 7
    assert plan.configuration().get(AgentOptions.CLOSE_TIMEOUT) == timedelta(milliseconds=200)
    actions = plan.compiled().by_name
    assert str(actions["review"].spec.function) == "org.example.Reviews.review"
    assert actions["review"].spec.triggers == ("_input_event", "again")
    assert (actions["review"].spec.on_failure, actions["fail"].spec.on_failure) == (None, "skip")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"agents.stor.type": "none"}, "did you mean 'agents.store.type'"),
        ({"agents.store.type": "kafka"}, "needs agents.store.kafka.bootstrap-servers"),
        ({"agents.call.workers": "0"}, "must be at least 1"),
    ],
)
def test_options_that_cannot_be_are_named(options: dict[str, str], message: str) -> None:
    with pytest.raises(ConfigurationError, match=re.escape(message)):
        make_plan(described(options=options), "reviews")


@pytest.mark.parametrize(
    ("key", "same"),
    [
        ("anna", "anna"),
        (7, 7),
        (True, True),
        (b"\x00", b"\x00"),
        (None, None),
        (["a", 1], ["a", 1]),
        ({"shop": 1, "user": [{"b": 2, "a": 1}]}, (("shop", 1), ("user", [(("a", 1), ("b", 2))]))),
    ],
)
def test_k3_keys_of_java_are_encoded_as_those_of_python(key: Any, same: Any) -> None:
    packed = msgspec.msgpack.encode([key, {"n": 1}])
    encoded, payload = open_encoder({}).encode([packed])
    assert encoded == encode_key(same)
    assert pickle.loads(payload) == (key, {"n": 1})


def test_outputs_and_dead_letters_cross_as_plain_data() -> None:
    assert msgspec.msgpack.decode(encode_output({"a": (1, b"\xff")})) == {"a": [1, b"\xff"]}
    error = "flink_agents_durable.api.java.JavaCallError: java.io.IOException: no"
    letter = DeadLetter("k", {"n": 1}, "act", error, "trace", "run")
    assert msgspec.msgpack.decode(encode_output(letter)) == [
        "k",
        {"n": 1},
        "act",
        "java.io.IOException: no",
        "trace",
        "run",
    ]
    with pytest.raises(DurableSerializationError, match="long"):
        encode_output(1 << 70)


def test_java_knows_the_same_options_with_the_same_defaults() -> None:
    text = re.sub(r"\s+", "", JAVA_OPTIONS.read_text())
    found = dict(re.findall(r'\("(agents[^"]+)"\)(?:\.booleanType\(\))?\.(\w+\([^;]*\));', text))
    python = {option.key: option.default for option in AgentOptions.all() if not option.is_pattern}
    assert found == {key: _in_java(default) for key, default in python.items()}


def _in_java(default: Any) -> str:
    if default is None:
        return "noDefaultValue()"
    if isinstance(default, timedelta):
        return f"defaultValue(Duration.ofSeconds({default.seconds}))"
    if isinstance(default, bool):
        return f"defaultValue({str(default).lower()})"
    return f'defaultValue("{default}")' if isinstance(default, str) else f"defaultValue({default:_})"
