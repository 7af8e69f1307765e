"""From a user's stream to what the Java operator takes: rows of (encoded key, pickle of (key, value))."""

from __future__ import annotations

import sys
import traceback
from collections.abc import Callable, Iterator, Mapping
from typing import Any, TypeAlias

import cloudpickle  # type: ignore[import-untyped]
from pyflink.common import Row, Types
from pyflink.datastream import DataStream, KeyedStream, KeySelector
from pyflink.java_gateway import get_gateway

from flink_agents_durable.api.errors import ConfigurationError, DurableExecutionError
from flink_agents_durable.engine.keys import encode_key
from flink_agents_durable.engine.payload import PayloadCodec
from flink_agents_durable.flink import modes
from flink_agents_durable.flink.values import reader
from flink_agents_durable.flink.workers import WorkerFunction

BYTES = Types.PRIMITIVE_ARRAY(Types.BYTE())
ENCODER_MODULE = "flink_agents_durable.flink.encoder"
Selector: TypeAlias = Callable[[Any], Any] | KeySelector


def encode(
    stream: DataStream,
    key_selector: Selector | None,
    name: str,
    plan_id: str,
    plan_classes: Mapping[str, type],
    main_names: tuple[str, ...] = (),
    *,
    more_fields: int = 0,
) -> DataStream:
    """The rows of a stream, with so many empty fields behind theirs.

    Keeps K3: keys are encoded by us, never partitioned by their pickles.

    Of a keyed stream the key that PyFlink computed is taken before its own partitioning: that one
    depends on pickled keys, and the operator partitions by the encoded ones anyway.
    """
    keyed = isinstance(stream, KeyedStream)
    if key_selector is None and not keyed:
        raise ConfigurationError(
            "from_datastream(stream) needs a keyed stream, or a key_selector: "
            "from_datastream(stream, key_selector=lambda record: ...)"
        )
    if key_selector is not None and not callable(key_selector) and not isinstance(key_selector, KeySelector):
        raise ConfigurationError(f"key_selector is a function or a KeySelector, not {key_selector!r}")
    if keyed:
        stream = before_partitioning(stream)
    kind = modes.type_of(stream)
    function = EncodeInput(key_selector, keyed, reader(kind), plan_id, plan_classes, main_names, more_fields)
    fields = 2 + more_fields
    if modes.reads_in_threads(kind):
        rows = _encoded(stream, function, fields, name)
    else:
        rows = stream.process(function, Types.ROW([BYTES] * fields)).name(name)
    keep_order(stream, rows)
    return rows


def _encoded(stream: DataStream, function: EncodeInput, fields: int, name: str) -> DataStream:
    """By our own operator: PyFlink's crosses to Python four times for each record."""
    data = bytearray(cloudpickle.dumps(function))
    agents = get_gateway().jvm.org.flinkagents.durable.DurableAgents
    return DataStream(agents.encode(stream._j_data_stream, name, data, fields, ENCODER_MODULE))


def keep_order(stream: DataStream, rows: DataStream) -> None:
    """With the parallelism of what comes before, records are not spread. Keeps L3: inputs of a key in order."""
    before = stream._j_data_stream.getTransformation()
    if (
        before.getName()
        == get_gateway().jvm.org.apache.flink.python.util.PythonConfigUtil.STREAM_KEY_BY_MAP_OPERATOR_NAME
    ):
        before = before.getInputs().get(0)  # PyFlink adjusts its own operator to that one, later
    rows._j_data_stream.getTransformation().setParallelism(
        before.getParallelism(), before.isParallelismConfigured()
    )


def before_partitioning(keyed: KeyedStream) -> DataStream:
    """The rows of (key, value) that a keyed stream partitions."""
    j_stream = keyed._j_data_stream
    inputs = j_stream.getTransformation().getInputs()
    java = get_gateway().jvm.org.apache.flink.streaming.api.datastream
    return DataStream(java.DataStream(j_stream.getExecutionEnvironment(), inputs.get(0)))


class EncodeFunction(WorkerFunction):
    """What turns elements into rows, with the classes of the plan."""

    def __init__(self, plan_id: str, plan_classes: Mapping[str, type], main_names: tuple[str, ...]) -> None:
        self._plan_id = plan_id
        self._plan_classes = dict(plan_classes)
        self._main_names = main_names

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Sources pickle objects of the submitted script by name; in the JVM the script is not `__main__`."""
        self.__dict__.update(state)
        main = sys.modules.setdefault("__main__", type(sys)("__main__"))
        for name in self._main_names:
            if not hasattr(main, "__file__"):
                setattr(main, name, self._plan_classes[name])

    def open(self, runtime_context: Any) -> None:
        self._dumps = PayloadCodec(self._plan_classes, self._plan_id).dumps


class EncodeInput(EncodeFunction):
    """Runs in the tasks. Errors carry their traceback as text: only the message crosses to Java."""

    def __init__(
        self,
        selector: Selector | None,
        keyed: bool,
        read: Callable[[Any], Any] | None,
        plan_id: str,
        plan_classes: Mapping[str, type],
        main_names: tuple[str, ...],
        more_fields: int = 0,
    ) -> None:
        super().__init__(plan_id, plan_classes, main_names)
        self._more = (None,) * more_fields
        self._selector = selector
        self._keyed = keyed
        self._read = read

    def open(self, runtime_context: Any) -> None:
        super().open(runtime_context)
        selector = self._selector
        if isinstance(selector, KeySelector):
            selector.open(runtime_context)
        self._select = selector.get_key if isinstance(selector, KeySelector) else selector

    def close(self) -> None:
        if isinstance(self._selector, KeySelector):
            self._selector.close()

    def process_element(self, value: Any, ctx: Any) -> Iterator[Row]:
        yield Row(*self.encode(value))

    def encode(self, value: Any) -> tuple[bytes | None, ...]:
        """The fields of a row: the encoded key of a record, the pickle of key and record, empty ones."""
        if self._read is not None:
            value = self._read(value)
        key = None
        if self._keyed:
            key, value = value
        if self._select is not None:
            try:
                key = self._select(value)
            except Exception as error:
                raise self._failure("failed", value, error) from error
        try:
            encoded = encode_key(key)
        except TypeError as error:
            raise self._failure(f"returned {key!r:.200}", value, error) from error
        return encoded, self._dumps((key, value)), *self._more

    def _failure(self, what: str, value: Any, error: Exception) -> DurableExecutionError:
        selector = "the keyed stream's key selector" if self._selector is None else _describe(self._selector)
        trace = "".join(traceback.format_exception(type(error), error, error.__traceback__))
        return DurableExecutionError(
            f"{selector} {what} for the record {shown(value)}: {type(error).__name__}: {error}\n{trace}"
        )


def _describe(selector: Any) -> str:
    function = selector.get_key if isinstance(selector, KeySelector) else selector
    code = getattr(function, "__code__", None)
    name = getattr(function, "__qualname__", None) or type(function).__qualname__
    where = f" ({code.co_filename}, line {code.co_firstlineno})" if code is not None else ""
    return f"key selector {name}{where}"


def shown(value: object) -> str:
    try:
        text = repr(value)
    except Exception as error:
        return f"of type {type(value).__name__} (its repr fails: {type(error).__name__})"
    return text if len(text) <= 500 else f"{text[:500]}... ({len(text)} characters)"
