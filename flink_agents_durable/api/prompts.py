"""Prompts: text or messages with `{field}` placeholders."""

from __future__ import annotations

import difflib
import re
from collections.abc import Mapping, Sequence
from typing import TypeVar

from flink_agents_durable.api.chat import ChatMessage, MessageRole
from flink_agents_durable.api.resources import Resource, ResourceType, mark_resource

F = TypeVar("F")

_TOKEN = re.compile(r"\{\{|\}\}|\{([A-Za-z_]\w*)\}")


def format_template(template: str, fields: Mapping[str, object]) -> str:
    """Fill the `{field}` placeholders of a template.

    The template is read once from left to right and values are only inserted, so that braces in a value stay
    what they are. `{{` is a literal brace and `}}` its counterpart. Other braces, as in a JSON example, stand
    for themselves.
    """
    parts: list[str] = []
    position = 0
    escaped = 0
    for token in _TOKEN.finditer(template):
        text = token.group()
        parts.append(template[position : token.start()])
        position = token.end()
        if text == "{{":
            escaped += 1
            parts.append("{")
        elif text == "}}":
            # Without a `{{` before it this is the end of two nested braces of an example, not an escape.
            parts.append("}" if escaped else "}}")
            escaped = max(escaped - 1, 0)
        else:
            parts.append(_value(token.group(1), fields))
    parts.append(template[position:])
    return "".join(parts)


def _value(name: str, fields: Mapping[str, object]) -> str:
    if name in fields:
        return str(fields[name])
    near = difflib.get_close_matches(name, list(fields), n=1)
    hint = f"; did you mean {{{near[0]}}}?" if near else ""
    known = ", ".join(sorted(fields)) or "none"
    raise ValueError(
        f"the prompt has a placeholder {{{name}}} and no value for it (fields given: {known}){hint} "
        "A literal brace is written {{"
    )


class Prompt(Resource):
    """A prompt. `{field}` is replaced by a value, a literal brace is written `{{`.

    Values are never formatted a second time.
    """

    template: str | list[ChatMessage]

    @classmethod
    def resource_type(cls) -> ResourceType:
        """Prompts are of the kind PROMPT."""
        return ResourceType.PROMPT

    @staticmethod
    def from_text(text: str) -> Prompt:
        """A prompt of one text."""
        return Prompt(template=text)

    @staticmethod
    def from_messages(messages: Sequence[ChatMessage]) -> Prompt:
        """A prompt of several messages, each with its role."""
        return Prompt(template=list(messages))

    def format_string(self, **kwargs: object) -> str:
        """The prompt as one text; messages are put on lines of their own, with their roles."""
        if isinstance(self.template, str):
            return format_template(self.template, kwargs)
        return "\n".join(str(message) for message in self.render(kwargs))

    def format_messages(self, role: MessageRole = MessageRole.SYSTEM, **kwargs: object) -> list[ChatMessage]:
        """The prompt as messages; a prompt of one text becomes one message of this role."""
        return self.render(kwargs, role)

    def render(
        self, fields: Mapping[str, object], role: MessageRole = MessageRole.SYSTEM
    ) -> list[ChatMessage]:
        """As `format_messages`, for fields of any name (`role` is a name that inputs have, too)."""
        if isinstance(self.template, str):
            return [ChatMessage(role, format_template(self.template, fields))]
        return [
            message.model_copy(update={"content": format_template(message.content, fields)}, deep=True)
            for message in self.template
        ]


def prompt(function: F) -> F:
    """The decorated method of an agent returns the prompt of its name."""
    return mark_resource(function, ResourceType.PROMPT)
