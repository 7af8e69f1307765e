"""Types of Flink for Python classes: what `output_type` may be."""

from __future__ import annotations

import dataclasses
import datetime
import decimal
import enum
import types
import typing
from collections.abc import Mapping, Sequence
from typing import Any

from pyflink.common import Types
from pyflink.common.typeinfo import TypeInformation
from pyflink.table.types import DataType
from pyflink.table.types import RowType as TableRowType

from flink_agents_durable.api.errors import ConfigurationError
from flink_agents_durable.engine.dataclass_fields import dataclass_fields

_BASIC = {
    str: Types.STRING,
    bool: Types.BOOLEAN,
    int: Types.LONG,
    float: Types.DOUBLE,
    decimal.Decimal: Types.BIG_DEC,
    datetime.datetime: Types.SQL_TIMESTAMP,
    datetime.date: Types.SQL_DATE,
    datetime.time: Types.SQL_TIME,
}
# By the class names of PyFlink's table types: what their values are in a stream.
_TABLE = {
    "TinyIntType": Types.BYTE,
    "SmallIntType": Types.SHORT,
    "IntType": Types.INT,
    "BigIntType": Types.LONG,
    "FloatType": Types.FLOAT,
    "DoubleType": Types.DOUBLE,
    "BooleanType": Types.BOOLEAN,
    "CharType": Types.STRING,
    "VarCharType": Types.STRING,
    "DecimalType": Types.BIG_DEC,
    "DateType": Types.SQL_DATE,
    "TimeType": Types.SQL_TIME,
    "TimestampType": Types.SQL_TIMESTAMP,
}
_UNION = (typing.Union, types.UnionType)


def type_info(output_type: Any) -> TypeInformation:
    """Flink's type of an `output_type`: itself, or the row of a dataclass's or pydantic model's fields."""
    if isinstance(output_type, TypeInformation):
        return output_type
    if isinstance(output_type, DataType):
        return of_table_type(output_type, "output_type")
    fields = field_types(output_type) if isinstance(output_type, type) else None
    if fields is not None:
        return _row(fields, output_type.__name__)
    try:
        return _of(output_type, "output_type")
    except ConfigurationError:
        raise ConfigurationError(
            "output_type is a Flink type (Types.LONG(), Types.ROW_NAMED(...)), a dataclass or a pydantic "
            f"model, not {output_type!r}"
        ) from None


def field_types(cls: type) -> Mapping[str, Any] | None:
    """Names and types of the fields of a dataclass, a pydantic model or a named tuple; None for others."""
    if dataclasses.is_dataclass(cls):
        names = [field.name for field in dataclass_fields(cls)]
    elif isinstance(models := getattr(cls, "model_fields", None), dict):
        names = list(models)
    elif issubclass(cls, tuple) and hasattr(cls, "_fields"):
        names = list(cls._fields)
    else:
        return None
    hints = typing.get_type_hints(cls)
    return {name: hints.get(name, Any) for name in names}


def _row(fields: Mapping[str, Any], path: str) -> TypeInformation:
    return Types.ROW_NAMED(list(fields), [_of(kind, f"{path}.{name}") for name, kind in fields.items()])


def _of(hint: Any, path: str) -> TypeInformation:
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if origin is typing.Annotated:
        return _of(arguments[0], path)
    if origin in _UNION:
        present = [part for part in arguments if part is not type(None)]
        return _of(present[0], path) if len(present) == 1 else _refuse(hint, path)
    if origin is typing.Literal:
        kinds = {type(part) for part in arguments}
        return _of(kinds.pop(), path) if len(kinds) == 1 else _refuse(hint, path)
    if origin in (list, Sequence, set, frozenset) and arguments:
        element = _of(arguments[0], f"{path}[]")
        return Types.LIST(element) if arguments[0] in _BASIC else Types.OBJECT_ARRAY(element)
    if origin in (dict, Mapping) and len(arguments) == 2:
        return Types.MAP(_of(arguments[0], f"{path} key"), _of(arguments[1], f"{path}[]"))
    if origin is tuple and arguments and Ellipsis not in arguments:
        return Types.TUPLE([_of(part, f"{path}[{index}]") for index, part in enumerate(arguments)])
    return _of_class(hint, path) if isinstance(hint, type) else _refuse(hint, path)


def _of_class(cls: type, path: str) -> TypeInformation:
    if cls is bytes:
        return Types.PRIMITIVE_ARRAY(Types.BYTE())
    if issubclass(cls, enum.Enum):
        kinds = {type(member.value) for member in cls}
        return _of(kinds.pop(), path) if len(kinds) == 1 else _refuse(cls, path)
    fields = field_types(cls)
    if fields is not None:
        return _row(fields, path)
    for base, make in _BASIC.items():
        if cls is base or (issubclass(cls, base) and base is not int):
            return make()
    return _refuse(cls, path)


def _refuse(hint: Any, path: str) -> typing.NoReturn:
    raise ConfigurationError(
        f"{path} is declared as {hint!r}, which has no Flink type. Remedy: leave output_type out, then the "
        "stream holds pickled Python objects, or give a Flink type: output_type=Types.ROW_NAMED([...], [...])"
    )


def of_table_type(kind: DataType, path: str) -> TypeInformation:
    """The type of a stream whose elements go into a column, or a table, of this type."""
    if isinstance(kind, TableRowType):
        parts = [of_table_type(field.data_type, f"{path}.{field.name}") for field in kind.fields]
        return Types.ROW_NAMED([field.name for field in kind.fields], parts)
    name = type(kind).__name__
    if name in _TABLE:
        return _TABLE[name]()
    if name in ("BinaryType", "VarBinaryType"):
        return Types.PRIMITIVE_ARRAY(Types.BYTE())
    if name in ("ArrayType", "ListViewType"):
        return Types.OBJECT_ARRAY(of_table_type(kind.element_type, f"{path}[]"))
    if name == "MapType":
        return Types.MAP(
            of_table_type(kind.key_type, f"{path} key"), of_table_type(kind.value_type, f"{path}[]")
        )
    raise ConfigurationError(
        f"{path} is of the table type {kind}, which agents cannot write. Remedy: give output_type, a "
        "dataclass, a pydantic model or Types.ROW_NAMED(...), and convert the column in SQL"
    )
