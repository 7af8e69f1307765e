"""Prompts: placeholders are filled once, values are never formatted a second time."""

from __future__ import annotations

import pickle

import pytest

from flink_agents_durable.api.chat import ChatMessage, MessageRole
from flink_agents_durable.api.prompts import Prompt


@pytest.mark.parametrize(
    ("template", "fields", "expected"),
    [
        ("Hello {name}", {"name": "Ada"}, "Hello Ada"),
        ("{a}{b}{a}", {"a": 1, "b": None}, "1None1"),
        ("{{name}}", {"name": "Ada"}, "{name}"),
        ('{{"score": {score}}}', {"score": 5}, '{"score": 5}'),
        ('{{"a": {{"b": {x}}}}}', {"x": 1}, '{"a": {"b": 1}}'),
        ('{"a": {"b": 1}}', {}, '{"a": {"b": 1}}'),
        ('{\n "id": "12345"\n} {input}', {"input": "x"}, '{\n "id": "12345"\n} x'),
        ("{name}", {"name": "{other} {{ }} {name}"}, "{other} {{ }} {name}"),
        ("100% {x} %s {0} {}", {"x": "%d"}, "100% %d %s {0} {}"),
        ("{größe}", {"größe": "ü"}, "ü"),
        ("", {}, ""),
    ],
)
def test_placeholders_are_filled_once(template: str, fields: dict[str, object], expected: str) -> None:
    assert Prompt.from_text(template).format_string(**fields) == expected


def test_missing_value_names_the_field_and_the_nearest() -> None:
    with pytest.raises(ValueError, match=r"\{reveiw\}.*did you mean \{review\}"):
        Prompt.from_text("{reveiw}").format_string(review="x", id=1)


def test_text_becomes_a_message_of_the_role() -> None:
    prompt = Prompt.from_text("about {topic}")
    assert prompt.format_messages(topic="x") == [ChatMessage.system("about x")]
    assert prompt.format_messages(MessageRole.USER, topic="x") == [ChatMessage.user("about x")]


def test_messages_keep_their_roles_and_the_template() -> None:
    prompt = Prompt.from_messages([ChatMessage.system("be {how}"), ChatMessage.user("{input}")])
    assert prompt.format_messages(how="brief", input="{how}") == [
        ChatMessage.system("be brief"),
        ChatMessage.user("{how}"),
    ]
    assert prompt.format_string(how="brief", input="?") == "system: be brief\nuser: ?"
    assert prompt.format_messages(how="long", input="!")[0].content == "be long"


def test_a_field_may_be_called_role() -> None:
    assert Prompt.from_text("{role}").render({"role": "boss"})[0].content == "boss"


def test_prompts_travel_in_plans() -> None:
    prompt = Prompt.from_messages([ChatMessage.user("{x}")])
    assert pickle.loads(pickle.dumps(prompt)).format_string(x=1) == "user: 1"
