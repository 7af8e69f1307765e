"""One conversation with a chat model: ask, run the tools it asks for, ask again, until it answers."""

from __future__ import annotations

import difflib
from collections.abc import Mapping, Sequence
from typing import Any

from flink_agents_durable.agents.output_schema import AnswerError, OutputSchema
from flink_agents_durable.agents.tool_calls import run_tools
from flink_agents_durable.api.chat import ChatMessage
from flink_agents_durable.api.context import RunnerContext
from flink_agents_durable.api.errors import DurableExecutionError, MaxStepsExceededError
from flink_agents_durable.api.tools import Tool
from flink_agents_durable.models.chat_model import BaseChatModelSetup

STRUCTURED_OUTPUT = "structured_output"
"""Key of `extra_args` under which the typed answer is."""

MAX_REPAIRS = 3
"""How often an answer that does not fit is sent back; bounds what a model that never mends it costs."""


class InvalidAnswerError(DurableExecutionError):
    """The model's answers did not fit the output schema, however often it was told."""


async def converse(
    ctx: RunnerContext,
    model: str,
    messages: Sequence[ChatMessage],
    *,
    prompt_args: Mapping[str, Any] | None = None,
    schema: OutputSchema | None = None,
    max_steps: int = 20,
) -> ChatMessage:
    """Talk to a chat model until it answers; with a schema the typed answer is in `extra_args`.

    Every request and every tool is a durable call, so that a restart continues where it was. Keeps L4.
    """
    chat_model: BaseChatModelSetup = ctx.get_resource(model, BaseChatModelSetup)
    history = list(messages)
    repairs = 0
    for _ in range(max_steps):
        answer = await _ask(ctx, chat_model, history, prompt_args, schema, repairing=repairs > 0)
        _count_tokens(ctx, answer)
        history.append(answer)
        if answer.tool_calls:
            results = await run_tools(ctx, answer.tool_calls, lambda name: _find_tool(chat_model, name))
            history.extend(result.to_message() for result in results)
            continue
        if schema is None:
            return answer
        try:
            value = schema.parse(answer.content)
        except AnswerError as error:
            if repairs == MAX_REPAIRS:
                raise InvalidAnswerError(
                    f"chat model {model!r} gave {repairs + 1} answers that are no {schema.name}; "
                    f"the last: {error}"
                ) from None
            repairs += 1
            history.append(_correction(error))
            continue
        return answer.model_copy(update={"extra_args": {**answer.extra_args, STRUCTURED_OUTPUT: value}})
    raise MaxStepsExceededError(f"chat model {model!r} did not answer within {max_steps} steps")


async def _ask(
    ctx: RunnerContext,
    chat_model: BaseChatModelSetup,
    history: list[ChatMessage],
    prompt_args: Mapping[str, Any] | None,
    schema: OutputSchema | None,
    *,
    repairing: bool,
) -> ChatMessage:
    """One request. Where a schema silences tools it is sent only to mend an answer, without the tools."""
    kwargs: dict[str, Any] = {}
    if schema is not None and chat_model.structured_output != "never":
        beside_tools = chat_model.structured_output == "always" or not chat_model.resolved_tools
        if beside_tools or repairing:
            kwargs["output_schema"] = schema.describe()
            if not beside_tools:
                kwargs["with_tools"] = False
    if chat_model.prompt is not None:
        kwargs["prompt_args"] = {name: str(value) for name, value in (prompt_args or {}).items()}
    answer: Any = await ctx.durable_execute_async(
        chat_model.chat, list(history), options=chat_model.call_options, **kwargs
    )
    if not isinstance(answer, ChatMessage):
        raise TypeError(f"{type(chat_model).__qualname__}.chat returned {answer!r}, not a ChatMessage")
    return answer


def _find_tool(chat_model: BaseChatModelSetup, name: str) -> Tool:
    tools = chat_model.resolved_tools
    if name in tools:
        return tools[name]
    near = difflib.get_close_matches(name, tools, n=1)
    hint = f"did you mean {near[0]}?" if near else f"the tools are: {', '.join(tools) or 'none'}"
    raise LookupError(f"there is no tool {name}; {hint}")


def _correction(error: AnswerError) -> ChatMessage:
    return ChatMessage.user(
        f"Your last answer cannot be used: {error}. Answer again with nothing but JSON that fits the schema."
    )


def _count_tokens(ctx: RunnerContext, answer: ChatMessage) -> None:
    """Count the usage per model. The metric group does not count what is replayed."""
    metrics = ctx.action_metric_group
    name = answer.extra_args.get("model_name")
    if metrics is None or not name:
        return
    group = metrics.get_sub_group(str(name))
    for counter in ("promptTokens", "completionTokens"):
        tokens = answer.extra_args.get(counter)
        if tokens:
            group.get_counter(counter).inc(int(tokens))
