"""Tools: schemas from functions, and arguments that a model gets wrong."""

from __future__ import annotations

import functools
import pickle
import threading
from dataclasses import dataclass
from typing import Annotated, Any, Literal

import pytest
from pydantic import BaseModel, Field

from flink_agents_durable.api.errors import ConfigurationError
from flink_agents_durable.api.tools import Tool, ToolArgumentError, render_result


class Address(BaseModel):
    street: str
    number: int = 1


@dataclass
class Parcel:
    weight: float
    to: Address


def numpy_style(id: str, count: int = 2) -> str:
    """Notify the shipping manager.

    At once.

    Parameters
    ----------
    id : str
        The product's id,
        as on the label.
    count: int
        How many.

    Returns
    -------
    str
        Not part of it.
    """
    return id * count


def google_style(id: str, count: int = 2) -> None:
    """Notify the shipping manager.

    Args:
        id: The product's id,
            as on the label.
        count (int): How many.

    Returns:
        nothing
    """


def sphinx_style(id: str, count: int = 2) -> None:
    """Notify the shipping manager.

    :param id: The product's id,
        as on the label.
    :param int count: How many.
    :returns: nothing
    """


@pytest.mark.parametrize("function", [numpy_style, google_style, sphinx_style])
def test_schema_from_signature_docstring_and_hints(function: Any) -> None:
    metadata = Tool.from_callable(function).describe()
    assert metadata.name == function.__name__
    assert metadata.description.startswith("Notify the shipping manager.")
    assert "Args" not in metadata.description
    assert "param" not in metadata.description.lower()
    assert metadata.get_parameters_dict() == {
        "type": "object",
        "properties": {
            "id": {"type": "string", "description": "The product's id, as on the label."},
            "count": {"type": "integer", "default": 2, "description": "How many."},
        },
        "required": ["id"],
        "additionalProperties": False,
    }


def test_nested_types_and_annotated_descriptions() -> None:
    def send(
        parcel: Parcel,
        kind: Literal["fast", "slow"],
        notes: Annotated[list[str], Field(description="free text", max_length=2)],
        to: Address | None = None,
    ) -> None: ...

    schema = Tool.from_callable(send).describe().get_parameters_dict()
    assert schema["properties"]["kind"]["enum"] == ["fast", "slow"]
    assert schema["properties"]["notes"]["description"] == "free text"
    assert set(schema["$defs"]) == {"Address", "Parcel"}


def test_arguments_are_converted() -> None:
    def send(parcel: Parcel, schema: int, model_config: int = 0, _hidden: str = "h") -> tuple[Any, ...]:
        return parcel.to.street, type(parcel).__name__, schema, model_config, _hidden

    tool = Tool.from_callable(send)
    given = {"parcel": {"weight": 1, "to": {"street": "A"}}, "schema": "7", "_hidden": "x"}
    assert tool.invoke(given) == ("A", "Parcel", 7, 0, "x")


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        ({}, "id: Field required"),
        ({"id": "a", "count": "many"}, "count: Input should be a valid integer"),
        ({"id": "a", "colour": "red"}, "colour: Extra inputs are not permitted"),
        ("{id: a", "must be a JSON object"),
        ([1], "must be a JSON object"),
        (None, "must be a JSON object"),
    ],
)
def test_wrong_arguments_are_told_in_words_for_the_model(arguments: Any, problem: str) -> None:
    with pytest.raises(ToolArgumentError, match=problem) as caught:
        Tool.from_callable(numpy_style).validate_arguments(arguments)
    assert "http" not in str(caught.value)


async def _async_tool(x: int) -> int:
    return x


class _Sender:
    def send(self, x: int, /, *, y: int) -> int:
        """Send it."""
        return x * y

    def __call__(self, x: int) -> int:
        return x


def test_kinds_of_callables() -> None:
    assert Tool.from_callable(_Sender().send).invoke({"x": 2, "y": 3}) == 6
    assert Tool.from_callable(_Sender(), name="sender").invoke({"x": 2}) == 2
    partial = functools.partial(_Sender().send, y=5)
    assert Tool.from_callable(partial, name="send5").invoke({"x": 2}) == 10
    coroutine = Tool.from_callable(_async_tool).invoke({"x": 2})
    with pytest.raises(StopIteration):
        coroutine.send(None)


def test_what_no_model_can_fill_is_an_error_at_once() -> None:
    with pytest.raises(ConfigurationError, match=r"a model cannot fill \*args"):
        Tool.from_callable(lambda *args: None, name="any")

    def broken(x: int, y: threading.Lock) -> None: ...

    with pytest.raises(ConfigurationError, match="without a JSON schema"):
        Tool.from_callable(broken)


def test_names_that_no_server_takes() -> None:
    tool = Tool.from_callable(lambda x: x)
    with pytest.raises(ConfigurationError, match="<lambda>"):
        tool.open()


def test_tools_travel_in_plans() -> None:
    tool = pickle.loads(pickle.dumps(Tool.from_callable(numpy_style, description="other")))
    assert tool.describe().description == "other"
    assert tool.invoke({"id": "a"}) == "aa"


@pytest.mark.parametrize(
    ("result", "text"),
    [
        ("a", "a"),
        (None, "done"),
        (True, "true"),
        ({"ü": 1}, '{"ü": 1}'),
        (Address(street="x"), '{"street":"x","number":1}'),
    ],
)
def test_results_as_the_model_reads_them(result: Any, text: str) -> None:
    assert render_result(result) == text
    assert isinstance(render_result(object()), str)
