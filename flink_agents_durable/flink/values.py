"""Python values of typed streams: what thread mode leaves to do, and values as rows of declared fields."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any

from pyflink.common import Instant, Row
from pyflink.common.typeinfo import (
    BasicArrayTypeInfo,
    BasicType,
    BasicTypeInfo,
    ListTypeInfo,
    MapTypeInfo,
    ObjectArrayTypeInfo,
    PrimitiveArrayTypeInfo,
    RowTypeInfo,
    TupleTypeInfo,
)

from flink_agents_durable.api.errors import DurableExecutionError
from flink_agents_durable.flink.modes import is_bytes

Convert = Callable[[Any], Any]


def reader(kind: Any) -> Convert | None:
    """Turns what thread mode gives for this type into what process mode gives; None: nothing to do."""
    if isinstance(kind, BasicTypeInfo):
        return {BasicType.BIG_INT: _or_none(int), BasicType.INSTANT: _instant}.get(kind._basic_type)
    if isinstance(kind, (BasicArrayTypeInfo, ObjectArrayTypeInfo, PrimitiveArrayTypeInfo)):
        return None if is_bytes(kind) else _or_none(_each(reader(kind._element_type)))
    if isinstance(kind, ListTypeInfo):
        return _or_none(_each(reader(kind.elem_type)))
    if isinstance(kind, MapTypeInfo):
        return _map_reader(reader(kind._key_type_info), reader(kind._value_type_info))
    if isinstance(kind, (RowTypeInfo, TupleTypeInfo)):
        return _fields_reader([reader(part) for part in kind.get_field_types()])
    return None


def _or_none(convert: Convert) -> Convert:
    return lambda value: None if value is None else convert(value)


def _each(convert: Convert | None) -> Convert:
    return list if convert is None else lambda value: [convert(element) for element in value]


def _instant(value: Any) -> Any:
    return Instant(value.getEpochSecond(), value.getNano()) if hasattr(value, "getEpochSecond") else value


def _map_reader(key: Convert | None, item: Convert | None) -> Convert | None:
    if key is None and item is None:
        return None
    key, item = key or _same, item or _same
    return _or_none(lambda value: {key(name): item(part) for name, part in value.items()})


def _fields_reader(converts: list[Convert | None]) -> Convert | None:
    changes = [(index, convert) for index, convert in enumerate(converts) if convert is not None]
    if not changes:
        return None

    def read(value: Any) -> Any:
        if value is None:
            return None
        if isinstance(value, Row):
            for index, convert in changes:
                value._values[index] = convert(value._values[index])
            return value
        fields = list(value)
        for index, convert in changes:
            fields[index] = convert(fields[index])
        return tuple(fields)

    return read


def _same(value: Any) -> Any:
    return value


def writer(kind: Any, path: str = "output") -> Convert:
    """Turns an output into a value of this type: dicts, models, dataclasses and rows by field name."""
    if isinstance(kind, RowTypeInfo):
        names = list(kind.get_field_names())
        parts = zip(names, kind.get_field_types(), strict=True)
        return _row_writer(names, [writer(part, f"{path}.{name}") for name, part in parts], path)
    if isinstance(kind, TupleTypeInfo):
        fields = [writer(part, f"{path}[{index}]") for index, part in enumerate(kind.get_field_types())]
        return _or_none(lambda value: tuple(f(part) for f, part in zip(fields, value, strict=True)))
    if isinstance(kind, (ListTypeInfo, BasicArrayTypeInfo, ObjectArrayTypeInfo)):
        element = writer(
            kind.elem_type if isinstance(kind, ListTypeInfo) else kind._element_type, f"{path}[]"
        )
        return _or_none(lambda value: [element(part) for part in value])
    if isinstance(kind, MapTypeInfo):
        item = writer(kind._value_type_info, f"{path}[]")
        return _or_none(lambda value: {name: item(part) for name, part in value.items()})
    if isinstance(kind, BasicTypeInfo):
        return _basic_writer(kind._basic_type, path)
    return _same


_PYTHON_TYPES: dict[BasicType, tuple[type, ...]] = {
    BasicType.STRING: (str,),
    BasicType.BOOLEAN: (bool,),
    BasicType.BYTE: (int,),
    BasicType.SHORT: (int,),
    BasicType.INT: (int,),
    BasicType.LONG: (int,),
    BasicType.FLOAT: (float, int),
    BasicType.DOUBLE: (float, int),
}
_BITS = {BasicType.BYTE: 8, BasicType.SHORT: 16, BasicType.INT: 32, BasicType.LONG: 64}


def _basic_writer(basic: BasicType, path: str) -> Convert:
    """Checks here, by name: PyFlink would report a wrong type by a class cast somewhere in the JVM."""
    if basic not in _PYTHON_TYPES:
        return _same
    expected = _PYTHON_TYPES[basic]
    bits = _BITS.get(basic)

    def write(value: Any) -> Any:
        if not isinstance(value, expected):
            value = getattr(value, "value", value)  # an enum
        if value is None:
            return None
        if not isinstance(value, expected) or (isinstance(value, bool) and bool not in expected):
            raise DurableExecutionError(
                f"{path} is {value!r:.200}, a {type(value).__name__}, and the declared type is {basic.name}"
            )
        number: Any = value
        if bits is not None and not -(1 << (bits - 1)) <= number < 1 << (bits - 1):
            raise DurableExecutionError(f"{path} is {value!r:.200}, which does not fit into {basic.name}")
        return float(number) if expected == (float, int) else value

    return write


def _row_writer(names: list[str], writers: list[Convert], path: str) -> Convert:
    def write(value: Any) -> Any:
        if value is None:
            return None
        row = Row(
            *[convert(part) for convert, part in zip(writers, _fields(value, names, path), strict=True)]
        )
        row.set_field_names(names)
        return row

    return write


def _fields(value: Any, names: list[str], path: str) -> list[Any]:
    if isinstance(value, Mapping):
        return [_field(value, name, path) for name in names]
    own = getattr(value, "_fields", None)
    if isinstance(value, Row):
        named = own and set(names) <= set(own)
        return [value[name] for name in names] if named else _by_position(value, names, path)
    if isinstance(value, (tuple, list)) and own is None:
        return _by_position(value, names, path)
    if dataclasses.is_dataclass(value) or own is not None or hasattr(type(value), "model_fields"):
        return [_attribute(value, name, path) for name in names]
    if len(names) == 1:
        return [value]  # a plain value in a row of one column
    raise DurableExecutionError(
        f"{path} is {value!r:.200}, a {type(value).__name__}, and the declared type has the fields "
        f"{', '.join(names)}: emit a dict, a dataclass, a pydantic model or a row"
    )


def _field(value: Mapping[str, Any], name: str, path: str) -> Any:
    try:
        return value[name]
    except KeyError:
        raise DurableExecutionError(
            f"{path} has no field {name!r}; it has {', '.join(map(str, value))}"
        ) from None


def _attribute(value: Any, name: str, path: str) -> Any:
    try:
        return getattr(value, name)
    except AttributeError:
        raise DurableExecutionError(f"{path}, a {type(value).__name__}, has no field {name!r}") from None


def _by_position(value: Any, names: list[str], path: str) -> list[Any]:
    if len(value) != len(names):
        raise DurableExecutionError(
            f"{path} has {len(value)} fields, the declared type {len(names)}: {names}"
        )
    return list(value)
