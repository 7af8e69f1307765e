"""The codec of `agents.payload=json`: values as JSON, without pickle.

What JSON knows is written as it is. Every other value is an object `{"$": kind, ...}`, and a dict that looks like
one, or whose keys are not all texts, is written as pairs. Reading runs no code that the data chooses: kinds are a
closed list, and classes are looked up among those that are imported already (`class_references.py`) and made
without their constructors (`json_objects.py`).
"""

from __future__ import annotations

import base64
import json
import math
import sys
from collections.abc import Callable, Mapping
from typing import Any

from flink_agents_durable.api.errors import DurableSerializationError, UnreadableRecordError
from flink_agents_durable.engine import json_objects
from flink_agents_durable.engine.class_references import class_reference, find_class
from flink_agents_durable.engine.failures import decode_failure, encode_failure, is_failure
from flink_agents_durable.engine.json_scalars import SCALARS, read_scalar
from flink_agents_durable.engine.payload import PayloadCodec
from flink_agents_durable.engine.unpicklable import describe_culprit

KIND = "$"
_PICKLE = b"\x80"
_NUMPY_KINDS = "biufcSUMm"
"""Of dtypes whose bytes are their content: no objects, no structures."""


class JsonCodec:
    """Encodes and decodes user values for one plan."""

    trusts_records = False
    reads_bare_pickles = False

    def __init__(self, plan_classes: Mapping[str, type] | None = None, plan_id: str = "") -> None:
        self.inputs = PayloadCodec(plan_classes, plan_id)
        self.plan_classes = self.inputs.plan_classes
        self.plan_name = self.inputs.plan_name
        self.substitutes: dict[tuple[type, ...], type[BaseException]] = {}

    def dumps(self, value: object) -> bytes:
        """Raises DurableSerializationError that names what cannot be serialised, and where it is."""
        try:
            return self._encode(value)
        except Exception as error:
            raise DurableSerializationError(
                f"a value cannot be written as JSON: {describe_culprit(value, self._encode, error)}. With "
                "agents.payload=json recorded values are JSON-like, bytes, sets, tuples, dates, decimals, UUIDs, "
                "enums, dataclasses, pydantic models or named tuples: return such a one"
            ) from error

    def dumps_by_reference(self, value: object) -> None:
        """Nothing is pickled: failures replay as substitutes."""

    def loads(self, data: bytes) -> object:
        """Raises UnreadableRecordError for bytes that cannot be read, or whose classes are not imported."""
        try:
            return _decode(bytes(data).decode(), self._resolve)
        except Exception as error:
            text = f"a recorded value cannot be read as JSON: {type(error).__name__}: {error}"
            if data[:1] == _PICKLE:
                text = (
                    "a recorded value is a pickle, and agents.payload=json reads none: go on with the payload "
                    "that the job was started with, or start the job anew"
                )
            raise UnreadableRecordError(text) from error

    def _encode(self, value: object) -> bytes:
        return _dump(self._plain(value)).encode()

    # --- writing

    def _plain(self, value: Any) -> Any:
        kind = type(value)
        write = _WRITERS.get(kind)
        if write is not None:
            return write(self, value)
        scalar = SCALARS.get(kind)
        if scalar is not None:
            return {KIND: scalar.name, "v": scalar.write(value)}
        return self._other(value)

    def _array(self, value: list[Any]) -> list[Any]:
        return [self._plain(item) for item in value]

    def _mapping(self, value: dict[Any, Any]) -> Any:
        if KIND not in value and all(map(_is_simple_text, value)):
            return {key: self._plain(item) for key, item in value.items()}
        return {KIND: "dict", "v": [[self._plain(key), self._plain(item)] for key, item in value.items()]}

    def _other(self, value: Any) -> Any:
        if isinstance(value, BaseException):
            return {KIND: "error", "v": _base64(encode_failure(value, self))}
        array = _write_numpy(value)
        if array is not None:
            return array
        cls = type(value)
        shape = json_objects.shape_of(cls)
        if shape is None:
            raise TypeError(f"a {cls.__module__}.{cls.__qualname__} has no form in JSON")
        reference = class_reference(cls, self)
        if find_class(reference, self) is not cls:
            raise TypeError(f"the class {cls.__module__}.{cls.__qualname__} is not found by its name")
        return {KIND: "object", "class": reference, "v": self._plain(shape.state(value))}

    # --- reading

    def _resolve(self, item: dict[str, Any]) -> Any:
        """Called for every object, the innermost first."""
        if KIND not in item:
            return item
        kind, content = item[KIND], item["v"]
        if kind == "object":
            return self._object(item["class"], content)
        if kind == "error":
            return self._error(content)
        reader = _READERS.get(kind)
        return reader(content) if reader is not None else read_scalar(kind, content)

    def _object(self, reference: str, state: Any) -> Any:
        cls = find_class(reference, self)
        shape = json_objects.shape_of(cls) if cls is not None else None
        if cls is None or shape is None:
            raise LookupError(f"{reference} is no class for data that this job has imported")
        return shape.make(cls, state)

    def _error(self, content: str) -> BaseException:
        record = base64.b64decode(content)
        if not is_failure(record):
            raise ValueError("an error that is no failure record")
        return decode_failure(record, self)


def _is_simple_text(key: object) -> bool:
    return type(key) is str and key.isprintable()


def _dump(plain: Any) -> str:
    return json.dumps(plain, ensure_ascii=False, allow_nan=False, separators=(",", ":"))


def _decode(text: str, resolve: Callable[[dict[str, Any]], Any]) -> object:
    return json.loads(text, object_hook=resolve, parse_constant=_no_constant)


def _no_constant(name: str) -> Any:
    raise ValueError(f"{name} is no JSON")


def _base64(data: bytes) -> str:
    return base64.b64encode(data).decode()


def _tagged(kind: str, write: Callable[[Any], Any]) -> Callable[[JsonCodec, Any], Any]:
    return lambda codec, value: {KIND: kind, "v": write(value)}


def _items(kind: str) -> Callable[[JsonCodec, Any], Any]:
    return lambda codec, value: {KIND: kind, "v": codec._array(value)}


def _number(codec: JsonCodec, value: float) -> Any:
    return value if math.isfinite(value) else {KIND: "float", "v": repr(value)}


def _integer(codec: JsonCodec, value: int) -> Any:
    return value if -(1 << 63) <= value < 1 << 64 else {KIND: "int", "v": hex(value)}


def _text(codec: JsonCodec, value: str) -> Any:
    """Lone surrogates have no form in UTF-8; escaped, a pair of them would come back as one character."""
    try:
        value.encode()
    except UnicodeEncodeError:
        return {KIND: "text", "v": value.encode("utf-8", "surrogatepass").hex()}
    return value


_WRITERS: dict[type, Callable[[JsonCodec, Any], Any]] = {
    type(None): lambda codec, value: value,
    bool: lambda codec, value: value,
    str: _text,
    int: _integer,
    float: _number,
    list: JsonCodec._array,
    dict: JsonCodec._mapping,
    tuple: _items("tuple"),
    set: _items("set"),
    frozenset: _items("frozenset"),
    bytes: _tagged("bytes", _base64),
    bytearray: _tagged("bytearray", _base64),
}
_READERS: dict[Any, Callable[[Any], Any]] = {
    "dict": lambda pairs: {key: item for key, item in pairs},  # noqa: C416 - dict() takes other things as well
    "tuple": tuple,
    "set": set,
    "frozenset": frozenset,
    "bytes": base64.b64decode,
    "bytearray": lambda text: bytearray(base64.b64decode(text)),
    "int": lambda text: int(text, 16),
    "float": float,
    "text": lambda text: bytes.fromhex(text).decode("utf-8", "surrogatepass"),
    "numpy": lambda content: _read_numpy(*content),
}


def _write_numpy(value: Any) -> Any:
    numpy = sys.modules.get("numpy")
    if numpy is None or (type(value) is not numpy.ndarray and not isinstance(value, numpy.generic)):
        return None
    if value.dtype.kind not in _NUMPY_KINDS:
        raise TypeError(f"a numpy value of dtype {value.dtype} has no form in JSON")
    shape = list(value.shape) if type(value) is numpy.ndarray else None
    return {KIND: "numpy", "v": [value.dtype.str, shape, _base64(value.tobytes())]}


def _read_numpy(dtype: str, shape: list[int] | None, data: str) -> Any:
    import numpy

    kind = numpy.dtype(dtype)
    if kind.kind not in _NUMPY_KINDS:
        raise ValueError(f"a numpy value of dtype {dtype}")
    flat = numpy.frombuffer(base64.b64decode(data), kind)
    return flat[0] if shape is None else flat.reshape(shape).copy()
