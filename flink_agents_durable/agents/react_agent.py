"""The ReAct agent: a chat model that reasons and acts by tools until it has an answer."""

from __future__ import annotations

import json
from typing import Any

from flink_agents_durable.agents.conversation import STRUCTURED_OUTPUT, converse
from flink_agents_durable.agents.output_schema import OutputSchema, fields_of
from flink_agents_durable.api.agent import Agent, action
from flink_agents_durable.api.chat import ChatMessage, MessageRole
from flink_agents_durable.api.context import RunnerContext
from flink_agents_durable.api.errors import ConfigurationError
from flink_agents_durable.api.events import InputEvent, OutputEvent
from flink_agents_durable.api.prompts import Prompt
from flink_agents_durable.api.resources import ResourceDescriptor, ResourceType
from flink_agents_durable.models.chat_model import BaseChatModelSetup

DEFAULT_CHAT_MODEL = "_default_chat_model"


class ReActAgent(Agent):
    """Answers each input with a chat model and its tools.

    `chat_model` is the descriptor (or the name) of a chat model. The prompt is filled with the fields of the
    input, or with `{input}` for a single value. With `output_schema` the output is an object of that type,
    else the text of the answer. No answer after `max_steps` requests raises `MaxStepsExceededError`.
    """

    def __init__(
        self,
        *,
        chat_model: ResourceDescriptor | BaseChatModelSetup | str,
        prompt: Prompt | str | None = None,
        output_schema: Any = None,
        max_steps: int = 20,
    ) -> None:
        if max_steps < 1:
            raise ConfigurationError(f"max_steps must be at least 1, not {max_steps}")
        if prompt is not None and not isinstance(prompt, (Prompt, str)):
            raise ConfigurationError(f"prompt is a Prompt or the name of one, not {prompt!r}")
        if isinstance(chat_model, str):
            self._chat_model = chat_model
        else:
            self._chat_model = DEFAULT_CHAT_MODEL
            self.add_resource(DEFAULT_CHAT_MODEL, ResourceType.CHAT_MODEL, chat_model)
        self._prompt = prompt
        self._schema = None if output_schema is None else OutputSchema(output_schema)
        self._max_steps = max_steps

    @action(InputEvent)
    async def start_action(self, event: InputEvent, ctx: RunnerContext) -> None:
        """Answer one input."""
        fields = fields_of(event.input)
        answer = await converse(
            ctx,
            self._chat_model,
            self._messages(event.input, fields, ctx),
            prompt_args={"input": event.input} if fields is None else fields,
            schema=self._schema,
            max_steps=self._max_steps,
        )
        found = answer.extra_args[STRUCTURED_OUTPUT] if self._schema is not None else answer.content
        ctx.send_event(OutputEvent(output=self.make_output(event.input, found)))

    def make_output(self, input: Any, answer: Any) -> Any:
        """What is emitted for an input. Override it to put the input's own fields beside the answer."""
        return answer

    def _messages(self, value: Any, fields: dict[str, Any] | None, ctx: RunnerContext) -> list[ChatMessage]:
        prompt = self._prompt
        if isinstance(prompt, str):
            prompt = ctx.get_resource(prompt, Prompt)
        if isinstance(prompt, Prompt):
            messages = prompt.render({"input": value} if fields is None else fields, MessageRole.USER)
        else:
            messages = [ChatMessage.user(_as_text(value, fields))]
        return messages if self._schema is None else with_schema(messages, self._schema)


def _as_text(value: Any, fields: dict[str, Any] | None) -> str:
    """An input without a prompt: a single value as it is, fields as JSON."""
    if fields is None:
        return str(value)
    if set(fields) == {"input"}:
        return str(fields["input"])
    return json.dumps(fields, default=str, ensure_ascii=False)


def with_schema(messages: list[ChatMessage], schema: OutputSchema) -> list[ChatMessage]:
    """The messages with the demand for JSON, in the first system message: many models take only one."""
    demand = (
        "When you have the final answer, write it as JSON without any other text. It must fit this schema: "
        + json.dumps(schema.json_schema, ensure_ascii=False)
    )
    if messages and messages[0].role is MessageRole.SYSTEM:
        first = messages[0].model_copy(update={"content": f"{messages[0].content}\n\n{demand}"})
        return [first, *messages[1:]]
    return [ChatMessage.system(demand), *messages]
