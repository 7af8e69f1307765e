"""Token usage is counted per model, once: what is replayed does not count again."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from flink_agents_durable.agents.conversation import _count_tokens
from flink_agents_durable.api.chat import ChatMessage
from flink_agents_durable.runtime.metrics import MetricRegistry


def context(registry: MetricRegistry, replaying: bool) -> Any:
    return SimpleNamespace(action_metric_group=registry.group("react", is_replaying=lambda: replaying))


def test_tokens_are_counted_per_model_and_not_on_replay() -> None:
    registry = MetricRegistry()
    usage = {"model_name": "m", "promptTokens": 7, "completionTokens": 2}
    answer = ChatMessage.assistant("x", extra_args=usage)
    _count_tokens(context(registry, replaying=False), answer)
    _count_tokens(context(registry, replaying=True), answer)
    _count_tokens(context(registry, replaying=False), ChatMessage.assistant("no usage"))
    group = registry.group("react").get_sub_group("m")
    assert group.get_counter("promptTokens").get_count() == 7
    assert group.get_counter("completionTokens").get_count() == 2
    _count_tokens(SimpleNamespace(action_metric_group=None), answer)  # type: ignore[arg-type]
