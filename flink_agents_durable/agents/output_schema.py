"""The type of an agent's answer: its JSON schema for the model, and reading what the model wrote."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import re
from collections.abc import Iterator
from functools import cached_property
from typing import Any

from pydantic import BaseModel, TypeAdapter, ValidationError, create_model
from pydantic.errors import PydanticUserError

from flink_agents_durable.api.errors import ConfigurationError
from flink_agents_durable.engine.dataclass_fields import dataclass_fields

_FENCED = re.compile(r"```(?:json)?\s*\n?(.*?)```", re.DOTALL)
_ROW_TYPES = {
    "STRING": str,
    "CHAR": str,
    "BYTE": int,
    "SHORT": int,
    "INT": int,
    "LONG": int,
    "BIG_INT": int,
    "FLOAT": float,
    "DOUBLE": float,
    "BIG_DEC": float,
    "BOOLEAN": bool,
}


class AnswerError(ValueError):
    """The model's answer does not fit the schema; the text is meant for the model."""


class OutputSchema:
    """A pydantic model, a dataclass, any type that pydantic knows, or a `RowTypeInfo`."""

    def __init__(self, output_schema: Any) -> None:
        self.row_fields: tuple[tuple[str, Any], ...] | None = None
        if isinstance(output_schema, OutputSchema):
            self.__dict__.update(output_schema.__dict__)
            return
        self.output_schema = output_schema
        if _is_row_type(output_schema):
            # A type information may hold objects of the client's JVM, so only names and types are kept.
            self.row_fields = tuple(_row_fields(output_schema))
            self.output_schema = None
        elif not isinstance(output_schema, type):
            raise ConfigurationError(
                f"output_schema is a pydantic model, a dataclass or a RowTypeInfo, not {output_schema!r}"
            )
        try:
            self.json_schema  # noqa: B018 - what has no schema is said here, not in the task
        except (PydanticUserError, TypeError) as error:
            raise ConfigurationError(f"output_schema {self.name} has no JSON schema: {error}") from error

    @property
    def name(self) -> str:
        """A name for the model server."""
        return "Row" if self.row_fields is not None else str(self.output_schema.__name__)

    @cached_property
    def json_schema(self) -> dict[str, Any]:
        """The JSON schema that an answer keeps to."""
        return self._adapter.json_schema()

    @property
    def durable_id(self) -> str:
        """Stands for the schema in the identity of calls and events: another schema is another id."""
        text = json.dumps(self.json_schema, sort_keys=True)
        return f"output_schema:{self.name}:{hashlib.blake2b(text.encode(), digest_size=8).hexdigest()}"

    def describe(self) -> dict[str, Any]:
        """Name and schema as plain data, for the request."""
        return {"name": self.name, "schema": self.json_schema}

    def parse(self, text: str) -> Any:
        """The answer as an object of the type. Raises AnswerError, which tells the model what is wrong."""
        problem: str | None = None
        for candidate in _candidates(text):
            try:
                value = self._adapter.validate_json(candidate)
            except ValidationError as error:
                problem = problem or _explain(error)
                continue
            return self._to_row(value) if self.row_fields is not None else value
        raise AnswerError(problem or "the answer is empty")

    def _to_row(self, value: Any) -> Any:
        assert self.row_fields is not None
        fields = enumerate(name for name, _ in self.row_fields)
        return _row({name: _plain(getattr(value, f"f_{index}")) for index, name in fields})

    @cached_property
    def _adapter(self) -> TypeAdapter[Any]:
        if self.row_fields is None:
            return TypeAdapter(self.output_schema)
        return TypeAdapter(_model_of("Row", self.row_fields))

    def __getstate__(self) -> dict[str, Any]:
        return {
            name: value for name, value in self.__dict__.items() if name not in ("_adapter", "json_schema")
        }

    def __eq__(self, other: object) -> bool:
        return isinstance(other, OutputSchema) and self.durable_id == other.durable_id

    def __hash__(self) -> int:
        return hash(self.durable_id)

    def __repr__(self) -> str:
        return f"OutputSchema({self.name})"


def _candidates(text: str) -> Iterator[str]:
    """What may be the JSON in an answer: all of it, a fenced block, or what stands between the braces."""
    stripped = text.strip()
    if not stripped:
        return
    yield stripped
    for fenced in _FENCED.findall(stripped):
        yield fenced.strip()
    for opening, closing in (("{", "}"), ("[", "]")):
        start, end = stripped.find(opening), stripped.rfind(closing)
        if 0 <= start < end and (start, end) != (0, len(stripped) - 1):
            yield stripped[start : end + 1]


def _explain(error: ValidationError) -> str:
    problems = []
    for problem in error.errors(include_url=False, include_context=False, include_input=False)[:10]:
        where = ".".join(str(part) for part in problem["loc"])
        problems.append(f"{where}: {problem['msg']}" if where else problem["msg"])
    return "; ".join(problems)


def _is_row_type(schema: Any) -> bool:
    """By name, so that PyFlink is not imported for agents that do not use it."""
    return any(cls.__name__ == "RowTypeInfo" for cls in type(schema).__mro__)


def _row_fields(info: Any) -> Iterator[tuple[str, Any]]:
    for name, field_type in zip(info.get_field_names(), info.get_field_types(), strict=True):
        yield name, _field_type(name, field_type)


def _field_type(name: str, info: Any) -> Any:
    """A picklable description: a Python type, `("list", item)` or `("row", fields)`."""
    if _is_row_type(info):
        return ("row", tuple(_row_fields(info)))
    basic = getattr(getattr(info, "_basic_type", None), "name", None)
    if basic in _ROW_TYPES:
        return _ROW_TYPES[basic]
    item = getattr(info, "_element_type", None) or getattr(info, "elem_type", None)
    if item is not None:
        return ("list", _field_type(name, item))
    raise ConfigurationError(
        f"output_schema: field {name!r} has the type {info}; a model's answer has texts, numbers, truth "
        "values, lists and rows"
    )


def _model_of(name: str, fields: tuple[tuple[str, Any], ...]) -> type[BaseModel]:
    from pydantic import Field

    definitions: dict[str, Any] = {
        f"f_{index}": (_annotation(field_name, kind), Field(alias=field_name))
        for index, (field_name, kind) in enumerate(fields)
    }
    return create_model(name, **definitions)


def _annotation(name: str, kind: Any) -> Any:
    if isinstance(kind, tuple):
        tag, inner = kind
        return _model_of(name, inner) if tag == "row" else list[_annotation(name, inner)]  # type: ignore[misc]
    return kind


def _plain(value: Any) -> Any:
    """Nested rows as rows."""
    if isinstance(value, BaseModel):
        fields = type(value).model_fields
        return _row({info.alias or name: _plain(getattr(value, name)) for name, info in fields.items()})
    return [_plain(item) for item in value] if isinstance(value, list) else value


def _row(fields: dict[str, Any]) -> Any:
    from pyflink.common import Row

    return Row(**fields)


def fields_of(value: Any) -> dict[str, Any] | None:
    """The fields of an input by name: of a dict, a row, a pydantic model, a dataclass, or a named tuple.

    None for what is one value, which prompts call `{input}`.
    """
    if value is None or isinstance(value, (str, int, float, bool, bytes)):
        return None
    if isinstance(value, dict):
        return {str(name): field for name, field in value.items()}
    if isinstance(value, BaseModel):
        return {name: getattr(value, name) for name in type(value).model_fields}
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {field.name: getattr(value, field.name) for field in dataclass_fields(value)}
    if hasattr(value, "as_dict") and type(value).__name__ == "Row":
        return _fields_of_row(value)
    if hasattr(value, "_asdict"):
        return dict(value._asdict())
    return dict(vars(value)) if hasattr(value, "__dict__") else None


def _fields_of_row(row: Any) -> dict[str, Any]:
    if not getattr(row, "_fields", None):
        raise ValueError(
            "the input is a Row without field names, so the prompt's placeholders cannot be filled: give the "
            "stream a type with names (Types.ROW_NAMED), or map it to dicts"
        )
    return dict(row.as_dict(recursive=True))
