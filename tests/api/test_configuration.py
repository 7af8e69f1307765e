"""Options under `agents.`: names, types, defaults, and errors that help."""

from __future__ import annotations

import pickle
from datetime import timedelta
from pathlib import Path

import pytest

from flink_agents_durable.api.configuration import AgentConfiguration, AgentOptions, ConfigOption
from flink_agents_durable.api.errors import ConfigurationError

DEFAULTS = {
    "agents.store.type": "auto",
    "agents.store.sqlite.path": ".flink-agents-durable",
    "agents.payload": "pickle",
    "agents.watermark.hold": True,
    "agents.job-id": None,
    "agents.store.append-timeout": timedelta(seconds=30),
    "agents.max-in-flight-runs": 10_000,
    "agents.call.max-concurrency": 10_000,
    "agents.call.workers": 128,
    "agents.call.parallelism": None,
    "agents.mismatch-policy": "reexecute",
    "agents.uncaught-failure": "retry",
    "agents.action-failure": "fail",
    "agents.strict-values": False,
    "agents.close-timeout": timedelta(seconds=5),
    "agents.short-term-memory.ttl": None,
}


def test_every_documented_key_has_its_default() -> None:
    config = AgentConfiguration()
    assert {key: config.get(key) for key in DEFAULTS} == DEFAULTS
    assert {key: config.get(AgentOptions.find(key)) for key in DEFAULTS} == DEFAULTS


@pytest.mark.parametrize(
    ("value", "seconds"),
    [
        (timedelta(minutes=2), 120),
        (3, 3),
        (0.25, 0.25),
        ("5 s", 5),
        ("5s", 5),
        ("200 ms", 0.2),
        ("1 min", 60),
        ("2 hours", 7200),
        ("1 D", 86_400),
        ("30 seconds", 30),
    ],
)
def test_durations_are_timedelta_seconds_or_flink_strings(value: object, seconds: float) -> None:
    config = AgentConfiguration({AgentOptions.CLOSE_TIMEOUT: value})
    assert config.get(AgentOptions.CLOSE_TIMEOUT).total_seconds() == seconds


@pytest.mark.parametrize("value", ["5", "five s", "5 parsecs", True, [], -1, "", float("nan"), 1e300])
def test_what_is_no_duration_is_an_error_that_names_the_key(value: object) -> None:
    with pytest.raises(ConfigurationError, match=r"agents\.close-timeout"):
        AgentConfiguration().set(AgentOptions.CLOSE_TIMEOUT, value)


@pytest.mark.parametrize(
    ("key", "value", "expected"),
    [
        ("agents.max-in-flight-runs", "500", 500),
        ("agents.strict-values", "TRUE", True),
        ("agents.watermark.hold", "false", False),
        ("agents.store.sqlite.path", Path("/var/x"), "/var/x"),
        ("agents.call.parallelism", 4, 4),
        ("agents.store.kafka.properties.security.protocol", "SSL", "SSL"),
    ],
)
def test_values_from_flink_are_strings_and_become_typed(key: str, value: object, expected: object) -> None:
    assert AgentConfiguration({key: value}).get(key) == expected


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("agents.max-in-flight-runs", "many"),
        ("agents.max-in-flight-runs", 1.5),
        ("agents.max-in-flight-runs", True),
        ("agents.max-in-flight-runs", 0),
        ("agents.strict-values", "yes"),
        ("agents.strict-values", 1),
        ("agents.store.type", 3),
        ("agents.job-id", ""),
        ("agents.mismatch-policy", "failed"),
    ],
)
def test_a_wrong_value_is_an_error_that_names_key_and_value(key: str, value: object) -> None:
    with pytest.raises(ConfigurationError, match=key) as error:
        AgentConfiguration({key: value})
    assert repr(value) in str(error.value) or value == ""


@pytest.mark.parametrize(
    ("key", "nearest"),
    [
        ("agents.store.typ", "agents.store.type"),
        ("agents.max-inflight-runs", "agents.max-in-flight-runs"),
        ("agents.close.timeout", "agents.close-timeout"),
    ],
)
def test_an_unknown_key_is_an_error_that_names_the_nearest(key: str, nearest: str) -> None:
    for attempt in (lambda: AgentConfiguration({key: "1"}), lambda: AgentConfiguration().get(key)):
        with pytest.raises(ConfigurationError, match=f"{key}.*did you mean '{nearest}'"):
            attempt()


def test_a_wrong_choice_names_the_nearest() -> None:
    with pytest.raises(ConfigurationError, match="did you mean 'sqlite'"):
        AgentConfiguration({"agents.store.type": "sqllite"})


def test_code_wins_over_flink_and_none_goes_back_to_the_default() -> None:
    flink = {"agents.store.type": "none", "execution.checkpointing.interval": "1 s"}
    config = AgentConfiguration.from_flink(flink)
    assert dict(config) == {"agents.store.type": "none"}
    assert config.set(AgentOptions.STORE_TYPE, "sqlite").get(AgentOptions.STORE_TYPE) == "sqlite"
    config.set(AgentOptions.STORE_TYPE, None)
    assert config.get(AgentOptions.STORE_TYPE) == "auto"


def test_keys_of_the_user_are_kept_with_typed_accessors() -> None:
    config = AgentConfiguration()
    config.set_str("shop.name", "north")
    config.set_int("shop.size", 3)
    config.set_float("shop.share", 1)
    config.set_bool("shop.open", True)
    assert config.get_str("shop.name") == "north"
    assert config.get_int("shop.size") == 3
    assert config.get_float("shop.share") == 1.0
    assert config.get_bool("shop.open") is True
    assert config.get_int("shop.none", 7) == 7
    with pytest.raises(ConfigurationError, match=r"shop\.size"):
        config.set_int("shop.size", "3")  # type: ignore[arg-type]
    with pytest.raises(ConfigurationError, match=r"shop\.name"):
        config.get_int("shop.name")


def test_an_option_with_a_placeholder_is_read_by_name() -> None:
    properties = AgentOptions.KAFKA_PROPERTIES
    config = AgentConfiguration({properties.of("sasl.username"): "me", properties.of("linger.ms"): "5"})
    assert config.under(properties) == {"sasl.username": "me", "linger.ms": "5"}
    with pytest.raises(ConfigurationError, match="of\\(name\\)"):
        config.set(properties, "x")


def test_options_have_the_accessors_of_flink_agents() -> None:
    option: ConfigOption[int] = ConfigOption("shop.size", int, 3)
    assert (option.get_key(), option.get_type(), option.get_default_value()) == ("shop.size", int, 3)
    assert AgentConfiguration().get(option) == 3


def test_a_configuration_travels_with_the_plan() -> None:
    config = AgentConfiguration({AgentOptions.STORE_TYPE: "sqlite", "shop.name": "north"})
    assert dict(pickle.loads(pickle.dumps(config))) == dict(config)


@pytest.mark.parametrize("properties", [AgentOptions.KAFKA_PROPERTIES, AgentOptions.FLUSS_PROPERTIES])
def test_properties_of_clients_are_shown_nowhere(properties: ConfigOption[str]) -> None:
    """They are passwords among other things; where they go is the job's configuration, not the plan."""
    key = properties.of("sasl.password").key
    config = AgentConfiguration({key: "hidden"})
    assert "hidden" not in repr(config)
    assert config.secrets() == {key: "hidden"}
    with pytest.raises(ConfigurationError) as caught:
        config.set(key, ["hidden"])
    assert "hidden" not in str(caught.value)
