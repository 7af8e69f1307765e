"""The options of the runtime, and the configuration that holds their values."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import timedelta
from typing import Any, TypeVar, overload

from flink_agents_durable.api.errors import ConfigurationError
from flink_agents_durable.api.options import ConfigOption, did_you_mean

__all__ = ["AgentConfiguration", "AgentOptions", "ConfigOption"]

T = TypeVar("T")

PREFIX = "agents."


class AgentOptions:
    """Every option of the runtime, by the key under which it stands in Flink's configuration."""

    STORE_TYPE: ConfigOption[str] = ConfigOption(
        "agents.store.type",
        str,
        "auto",
        choices=("auto", "none", "sqlite", "kafka", "fluss"),
    )
    """Where journal records are kept between checkpoints. `auto`: sqlite in local execution, else none."""
    STORE_SQLITE_PATH: ConfigOption[str] = ConfigOption(
        "agents.store.sqlite.path", str, ".flink-agents-durable"
    )
    """The folder of the databases, one a log id; relative to the working directory at `apply()`."""
    STORE_APPEND_TIMEOUT: ConfigOption[timedelta] = ConfigOption(
        "agents.store.append-timeout", timedelta, timedelta(seconds=30), minimum=0.001
    )
    """How long an append that is known not to be written is retried before the task fails."""
    STORE_SIGNING_KEY_FILE: ConfigOption[str | None] = ConfigOption(
        "agents.store.signing-key-file", str, None
    )
    """A file with a key a line, on every task manager: records of the store are signed with the first and
    verified with all, and what is not signed is refused before it is read."""

    KAFKA_BOOTSTRAP_SERVERS: ConfigOption[str | None] = ConfigOption(
        "agents.store.kafka.bootstrap-servers", str, None
    )
    KAFKA_TOPIC: ConfigOption[str | None] = ConfigOption("agents.store.kafka.topic", str, None)
    """Made when it is absent. One for each agent of a job: it has as many partitions as key groups."""
    KAFKA_REPLICATION_FACTOR: ConfigOption[int | None] = ConfigOption(
        "agents.store.kafka.replication-factor", int, None, minimum=1
    )
    KAFKA_PROPERTIES: ConfigOption[str] = ConfigOption(
        "agents.store.kafka.properties.*", str, "", secret=True
    )
    """Properties of librdkafka, among them those for SASL and TLS."""
    FLUSS_BOOTSTRAP_SERVERS: ConfigOption[str | None] = ConfigOption(
        "agents.store.fluss.bootstrap-servers", str, None
    )
    FLUSS_DATABASE: ConfigOption[str] = ConfigOption("agents.store.fluss.database", str, "fluss")
    """Made when it is absent."""
    FLUSS_TABLE: ConfigOption[str | None] = ConfigOption("agents.store.fluss.table", str, None)
    """Made when it is absent. One for each agent of a job: it has as many buckets as key groups."""
    FLUSS_REPLICATION_FACTOR: ConfigOption[int | None] = ConfigOption(
        "agents.store.fluss.replication-factor", int, None, minimum=1
    )
    FLUSS_PROPERTIES: ConfigOption[str] = ConfigOption(
        "agents.store.fluss.properties.*", str, "", secret=True
    )
    """Properties of pyfluss, among them those for SASL."""

    PAYLOAD: ConfigOption[str] = ConfigOption("agents.payload", str, "pickle", choices=("pickle", "json"))
    """How recorded values are written. `json`: results, failures, events and memory without pickle; values are
    JSON-like or plain data of classes that the agent imports, and failures replay as substitutes."""
    LIMIT_MAX_CONCURRENCY: ConfigOption[int | None] = ConfigOption(
        "agents.limits.<name>.max-concurrency", int, None, minimum=1
    )
    """Calls with `CallOptions(limit=<name>)` of a subtask that run at a time."""
    LIMIT_PER_SECOND: ConfigOption[float | None] = ConfigOption(
        "agents.limits.<name>.per-second", float, None, minimum=0.001
    )
    """Calls with `CallOptions(limit=<name>)` of a subtask that start in a second: never more, in any second. So
    many may start at once (at least one), the next when the first of them is a second old. When a server answers
    429 or 503 with a `Retry-After`, no call of the limit starts for so long, at most five minutes."""

    JOB_ID: ConfigOption[str | None] = ConfigOption("agents.job-id", str, None)
    """Names the log; without it the Flink job id of the first start does. Set it to find the log again
    without a checkpoint."""
    WATERMARK_HOLD: ConfigOption[bool] = ConfigOption("agents.watermark.hold", bool, True)
    """Watermarks wait for the runs before them; false lets them pass."""
    MAX_IN_FLIGHT_RUNS: ConfigOption[int] = ConfigOption("agents.max-in-flight-runs", int, 10_000, minimum=1)
    """Runs and queued inputs of a subtask; beyond it the input is back-pressured."""
    CALL_MAX_CONCURRENCY: ConfigOption[int] = ConfigOption(
        "agents.call.max-concurrency", int, 10_000, minimum=1
    )
    """Durable calls of a subtask that run at a time."""
    CALL_WORKERS: ConfigOption[int] = ConfigOption("agents.call.workers", int, 128, minimum=1)
    """Threads for plain functions, started as needed."""
    CALL_PARALLELISM: ConfigOption[int | None] = ConfigOption("agents.call.parallelism", int, None, minimum=1)
    """Calls of one gather that run at a time; None: all."""
    MISMATCH_POLICY: ConfigOption[str] = ConfigOption(
        "agents.mismatch-policy", str, "reexecute", choices=("reexecute", "fail")
    )
    """What happens when an action asks on replay for another call than the recorded one."""
    UNCAUGHT_FAILURE: ConfigOption[str] = ConfigOption(
        "agents.uncaught-failure", str, "retry", choices=("retry", "replay")
    )
    """Whether a call whose failure ended the task attempt is tried again after the restart."""
    ACTION_FAILURE: ConfigOption[str] = ConfigOption(
        "agents.action-failure",
        str,
        "fail",
        choices=("fail", "skip", "dead-letter"),
    )
    """What happens when an action ends with an exception: the task fails and tries again, or this execution
    ends without its memory writes. `dead-letter` also emits a `DeadLetter`, which `dead_letters()` reads."""
    STRICT_VALUES: ConfigOption[bool] = ConfigOption("agents.strict-values", bool, False)
    """The first run gets what a replay would get: copies of results, substitutes of exceptions."""
    CLOSE_TIMEOUT: ConfigOption[timedelta] = ConfigOption(
        "agents.close-timeout", timedelta, timedelta(seconds=5), minimum=0
    )
    """How long closing waits for running calls before it abandons them."""
    SHORT_TERM_MEMORY_TTL: ConfigOption[timedelta | None] = ConfigOption(
        "agents.short-term-memory.ttl", timedelta, None, minimum=0.001
    )
    """The short-term memory of a key that no action has used for this long is gone, all of it; None: never. A run
    finds it gone or not as of its recorded start, also on replay. The first use in a run then costs a record. Keys
    that never come back are removed from the state as well, some time later."""

    @classmethod
    def all(cls) -> list[ConfigOption[Any]]:
        """Every option, in the order in which they are declared."""
        return [value for value in vars(cls).values() if isinstance(value, ConfigOption)]

    @classmethod
    def find(cls, key: str) -> ConfigOption[Any]:
        """The option of a key; an unknown one is an error that names the nearest known key."""
        for option in _OPTIONS:
            if option.matches(key):
                return option
        raise ConfigurationError(
            f"unknown option {key!r}{did_you_mean(key, [option.key for option in _OPTIONS])}"
        )


_OPTIONS = AgentOptions.all()


class AgentConfiguration(Mapping[str, Any]):
    """Values of options: those set in code win over those of Flink's configuration.

    Keys under `agents.` are checked when they are set; other keys are the user's own, kept as they are.
    As a mapping it shows what was set, typed, without defaults.
    """

    def __init__(self, values: Mapping[Any, object] | None = None) -> None:
        self._values: dict[str, Any] = {}
        for key, value in (values or {}).items():
            self.set(key, value)

    @classmethod
    def from_flink(cls, values: Mapping[str, str]) -> AgentConfiguration:
        """What stands under `agents.` in Flink's own configuration."""
        return cls({key: value for key, value in values.items() if key.startswith(PREFIX)})

    @overload
    def set(self, option: ConfigOption[Any], value: object) -> AgentConfiguration: ...
    @overload
    def set(self, option: str, value: object) -> AgentConfiguration: ...
    def set(self, option: ConfigOption[Any] | str, value: object) -> AgentConfiguration:
        """Set a value by option or key; None goes back to the default."""
        key = option.key if isinstance(option, ConfigOption) else option
        known = _known(key)
        if known is not None and known.is_pattern and key == known.key:
            raise ConfigurationError(f"{key!r} stands for many keys: use .of(name) to choose one")
        if value is None:
            self._values.pop(key, None)
        else:
            self._values[key] = value if known is None else known.read(value, key)
        return self

    @overload
    def get(self, option: ConfigOption[T]) -> T: ...
    @overload
    def get(self, option: str, default: Any = None) -> Any: ...
    def get(self, option: Any, default: Any = None) -> Any:
        """The value of an option, or of a key, or the default."""
        if isinstance(option, ConfigOption):
            return self._values.get(option.key, option.default)
        known = _known(option)
        if option in self._values or known is None or default is not None:
            return self._values.get(option, default)
        return known.default

    def under(self, option: ConfigOption[T]) -> dict[str, T]:
        """The values of an option whose key has a placeholder, by what stands in its place."""
        head, tail = option.key.replace("<name>", "*").split("*")
        keys = [key for key in self._values if option.matches(key)]
        return {key[len(head) : len(key) - len(tail)]: self._values[key] for key in keys}

    def secrets(self) -> dict[str, Any]:
        """What was set of the options whose values are shown nowhere, by key."""
        return {key: value for key, value in self._values.items() if _is_secret(key)}

    def set_str(self, key: str, value: str) -> None:
        self.set(key, _expect(key, value, str))

    def set_int(self, key: str, value: int) -> None:
        self.set(key, _expect(key, value, int))

    def set_float(self, key: str, value: float) -> None:
        self.set(key, _expect(key, value, float))

    def set_bool(self, key: str, value: bool) -> None:
        self.set(key, _expect(key, value, bool))

    def get_str(self, key: str, default: str | None = None) -> str | None:
        return self._typed(key, str, default)

    def get_int(self, key: str, default: int | None = None) -> int | None:
        return self._typed(key, int, default)

    def get_float(self, key: str, default: float | None = None) -> float | None:
        return self._typed(key, float, default)

    def get_bool(self, key: str, default: bool | None = None) -> bool | None:
        return self._typed(key, bool, default)

    def copy(self) -> AgentConfiguration:
        return AgentConfiguration(self._values)

    def _typed(self, key: str, kind: type[T], default: T | None) -> T | None:
        value = self.get(key, default)
        reader: ConfigOption[Any] = ConfigOption(key, kind, None)
        return None if value is None else reader.read(value)

    def __getitem__(self, key: str) -> Any:
        return self._values[key]

    def __iter__(self) -> Iterator[str]:
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)

    def __repr__(self) -> str:
        shown = {key: "***" if _is_secret(key) else value for key, value in self._values.items()}
        return f"AgentConfiguration({shown!r})"


def _known(key: str) -> ConfigOption[Any] | None:
    if not isinstance(key, str) or not key:
        raise ConfigurationError(f"an option is named by a ConfigOption or a string, not by {key!r}")
    return AgentOptions.find(key) if key.startswith(PREFIX) else None


def _is_secret(key: str) -> bool:
    return any(option.secret and option.matches(key) for option in _OPTIONS)


def _expect(key: str, value: object, kind: type) -> object:
    fits = isinstance(value, kind) and (kind is bool or not isinstance(value, bool))
    if not fits and not (kind is float and isinstance(value, int) and not isinstance(value, bool)):
        shown = "***" if _is_secret(key) else repr(value)
        raise ConfigurationError(f"{key} = {shown}: must be of type {kind.__name__}")
    return value
