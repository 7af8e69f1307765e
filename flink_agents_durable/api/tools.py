"""Tools: functions that a chat model may ask for."""

from __future__ import annotations

import inspect
import json
import re
import typing
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

from pydantic import BaseModel, ConfigDict, Field, PrivateAttr, ValidationError, create_model
from pydantic.errors import PydanticUserError

from flink_agents_durable.api.call_options import CallOptions
from flink_agents_durable.api.docstrings import describe
from flink_agents_durable.api.errors import ConfigurationError
from flink_agents_durable.api.java import JavaFunction
from flink_agents_durable.api.resources import Resource, ResourceType, mark_resource

F = TypeVar("F")

_NAME = re.compile(r"[a-zA-Z0-9_-]{1,64}")
_KEYWORDS = ("type", "properties", "required", "additionalProperties", "$defs")


class ToolArgumentError(ValueError):
    """The arguments that a model gave do not fit the tool; the text is meant for the model."""


@dataclass(frozen=True)
class ToolMetadata:
    """What a model is told about a tool; `args_schema` is a pydantic model of the arguments."""

    name: str
    description: str
    args_schema: type[BaseModel]

    def get_parameters_dict(self) -> dict[str, Any]:
        """The JSON schema of the arguments."""
        schema = self.args_schema.model_json_schema(by_alias=True)
        parameters = {key: schema[key] for key in _KEYWORDS if key in schema}
        for argument in parameters.get("properties", {}).values():
            argument.pop("title", None)
        return {"type": "object", "properties": {}, **parameters}


@dataclass(frozen=True)
class ToolResponse:
    """What a tool may return to say that it failed: `ToolResponse.failure("no such order")`."""

    result: Any = None
    error: str | None = None
    execution_time_ms: int = 0
    tool_name: str | None = None

    @classmethod
    def success(cls, result: Any, execution_time_ms: int = 0, tool_name: str | None = None) -> ToolResponse:
        """A result; returning it as it is says the same."""
        return cls(result, None, execution_time_ms, tool_name)

    @classmethod
    def failure(cls, error: str, execution_time_ms: int = 0, tool_name: str | None = None) -> ToolResponse:
        """A failure, with the text that the model reads."""
        return cls(None, str(error), execution_time_ms, tool_name)

    def is_success(self) -> bool:
        """Whether the tool did what it was asked for."""
        return self.error is None

    def is_error(self) -> bool:
        """Whether the tool failed."""
        return self.error is not None


class Tool(Resource):
    """Base of tools. A subclass gives `metadata` and `call`; `Tool.from_callable` makes one from a function.

    `call_options` are the options of the durable call that runs the tool, such as its timeout.
    """

    metadata: ToolMetadata | None = None
    call_options: CallOptions | None = None

    @classmethod
    def resource_type(cls) -> ResourceType:
        """Tools are of the kind TOOL."""
        return ResourceType.TOOL

    @staticmethod
    def from_callable(
        func: Callable[..., Any],
        *,
        name: str | None = None,
        description: str | None = None,
        call_options: CallOptions | None = None,
    ) -> FunctionTool:
        """A tool of a plain or async function.

        Name, description and schema come from its name, docstring and type hints; `typing.Annotated` with a
        pydantic `Field` says more about a parameter.
        """
        tool = FunctionTool(func=func, tool_name=name, description=description, call_options=call_options)
        tool.describe()
        return tool

    @staticmethod
    def from_java(
        function: JavaFunction,
        *,
        name: str,
        description: str,
        args_schema: type[BaseModel],
        call_options: CallOptions | None = None,
    ) -> JavaTool:
        """A tool of a static Java method, whose one parameter is a map or a bean of the arguments.

        It runs in the durable calls of a Flink job only.
        """
        metadata = ToolMetadata(name, description, args_schema)
        return JavaTool(function=function, metadata=metadata, call_options=call_options)

    def describe(self) -> ToolMetadata:
        """What the model is told about this tool."""
        if self.metadata is None:
            raise ConfigurationError(f"tool {type(self).__qualname__} needs its field `metadata`")
        return self.metadata

    @property
    def name(self) -> str:
        """The name by which a model asks for the tool: the one it is registered under."""
        return self.resource_name or self.describe().name

    def open(self) -> None:
        """Check what no model server would take."""
        if not _NAME.fullmatch(self.name):
            raise ConfigurationError(
                f"tool name {self.name!r}: servers take 1 to 64 letters, digits, '_' and '-'; register it "
                "under such a name"
            )

    def validate_arguments(self, arguments: object) -> dict[str, Any]:
        """Arguments of a model, converted to the types of the tool; ToolArgumentError if they do not fit."""
        if not isinstance(arguments, Mapping):
            raise ToolArgumentError(f"the arguments must be a JSON object, not {_short(arguments)}")
        schema = self.describe().args_schema
        try:
            model = schema.model_validate(dict(arguments))
        except ValidationError as error:
            raise ToolArgumentError(_explain(error)) from None
        return {info.alias or field: getattr(model, field) for field, info in schema.model_fields.items()}

    def invoke(self, arguments: Mapping[str, Any]) -> Any:
        """Run the tool with arguments as a model gave them. The durable call of a tool is this method.

        The arguments are one value, so that no parameter of a tool clashes with those of a durable call.
        """
        return self.call(**arguments)

    @property
    def durable_call(self) -> Any:
        """What a durable call of this tool is made with; its argument is the arguments of the model."""
        return self.invoke

    def call(self, *args: Any, **kwargs: Any) -> Any:
        """Run the tool; may return an awaitable."""
        raise NotImplementedError(f"{type(self).__qualname__} does not implement call()")


class FunctionTool(Tool):
    """A tool of a function. Made by `Tool.from_callable`."""

    func: Callable[..., Any]
    tool_name: str | None = None
    description: str | None = None

    _described: ToolMetadata | None = PrivateAttr(default=None)

    def describe(self) -> ToolMetadata:
        """Name, description and schema of the function."""
        if self._described is None:
            self._described = _metadata_of(self.func, self.tool_name, self.description)
        return self._described

    def invoke(self, arguments: Mapping[str, Any]) -> Any:
        """Run the function with arguments as a model gave them."""
        values = self.validate_arguments(arguments)
        positional = [
            values.pop(name)
            for name, parameter in inspect.signature(self.func).parameters.items()
            if parameter.kind is parameter.POSITIONAL_ONLY
        ]
        return self.func(*positional, **values)

    def call(self, *args: Any, **kwargs: Any) -> Any:
        """Call the function as it is."""
        return self.func(*args, **kwargs)


class JavaTool(Tool):
    """A tool written in Java. Made by `Tool.from_java`."""

    function: JavaFunction

    @property
    def durable_call(self) -> JavaFunction:
        """It runs on a worker of Java."""
        return self.function

    def invoke(self, arguments: Mapping[str, Any]) -> Any:
        """Only a durable call of a Flink job can run it."""
        return self.function(dict(arguments))


def tool(function: F) -> F:
    """The decorated method of an agent is a tool of its name; `self` and `cls` are not part of its schema."""
    return mark_resource(function, ResourceType.TOOL)


def _metadata_of(func: Callable[..., Any], name: str | None, description: str | None) -> ToolMetadata:
    label = name or getattr(func, "__name__", None) or type(func).__name__
    where = getattr(func, "__qualname__", label)
    parameters = _parameters(func, where)
    hints = _hints(func, where)
    described = describe(func, parameters)
    fields: dict[str, Any] = {}
    for index, (parameter_name, parameter) in enumerate(parameters.items()):
        annotation = hints.get(parameter_name, Any)
        default = ... if parameter.default is parameter.empty else parameter.default
        # The field has a name of its own: a parameter may be called as a member of BaseModel is.
        text = described.parameters.get(parameter_name)
        # A description of None would hide the one of an Annotated type.
        more: dict[str, Any] = {} if text is None else {"description": text}
        field = Field(default, alias=parameter_name, **more)
        fields[f"argument_{index}"] = (annotation, field)
    try:
        schema = create_model(f"{label}_arguments", __config__=ConfigDict(extra="forbid"), **fields)
        schema.model_json_schema()
    except (PydanticUserError, TypeError) as error:
        raise ConfigurationError(
            f"tool {where}: a parameter has a type without a JSON schema; use JSON-like types, dataclasses "
            f"or pydantic models ({error})"
        ) from error
    return ToolMetadata(label, description or described.text, schema)


def _parameters(func: Callable[..., Any], where: str) -> dict[str, inspect.Parameter]:
    try:
        parameters = dict(inspect.signature(func).parameters)
    except (TypeError, ValueError) as error:
        raise ConfigurationError(f"tool {where}: {error}; wrap it in a function of its own") from error
    for parameter in parameters.values():
        if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD):
            raise ConfigurationError(
                f"tool {where}: a model cannot fill {parameter}; name the parameters, or take a dict"
            )
    return parameters


def _hints(func: Callable[..., Any], where: str) -> dict[str, Any]:
    target: Any = func
    while hasattr(target, "func"):  # functools.partial
        target = target.func
    if not inspect.isroutine(target) and not isinstance(target, type):
        target = type(target).__call__
    try:
        return typing.get_type_hints(target, include_extras=True)
    except NameError as error:
        raise ConfigurationError(
            f"tool {where}: the type hint {error.name!r} cannot be resolved; import it where the tool is "
            "defined, not under TYPE_CHECKING"
        ) from error


def _explain(error: ValidationError) -> str:
    """What is wrong with the arguments, for the model: one line each, without links."""
    problems = []
    for problem in error.errors(include_url=False, include_context=False, include_input=False)[:10]:
        where = ".".join(str(part) for part in problem["loc"]) or "arguments"
        problems.append(f"{where}: {problem['msg']}")
    return "; ".join(problems)


def _short(value: object) -> str:
    text = value if isinstance(value, str) else repr(value)
    return text if len(text) <= 200 else text[:200] + "..."


def render_result(result: object) -> str:
    """A tool's result as the text that the model reads."""
    if isinstance(result, str):
        return result
    if result is None:
        return "done"
    if isinstance(result, BaseModel):
        return result.model_dump_json()
    try:
        return json.dumps(result, ensure_ascii=False)
    except (TypeError, ValueError):
        return str(result)
