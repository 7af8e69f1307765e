"""What type checkers know of the public API: right code passes, wrong code fails; and the public names.

Keeps the promise that `await ctx.durable_execute_async(f, 1)` is what `f` returns, and that a wrong argument
is an error before the job runs.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

import flink_agents_durable

ROOT = Path(__file__).parents[2]
MYPY_SECONDS = 300
"""A first run without a cache reads all dependencies, on a loaded machine for minutes."""

HEADER = """
from __future__ import annotations
import asyncio
import functools
from datetime import timedelta
from typing import Any
from typing_extensions import assert_type
from flink_agents_durable import (
    Agent, CallOptions, DurableFuture, InputEvent, Outcome, OutputEvent, RetryPolicy,
    RunnerContext, action, configured,
)

def size(text: str, *, factor: int = 1) -> int:
    return factor
async def ask(question: str, tries: int = 1) -> float:
    return 1.0
def found() -> int:
    return 1
async def found_later() -> float:
    return 1.0
"""

BODY = """
async def act(event: InputEvent, ctx: RunnerContext) -> None:
"""

RIGHT = {
    "plain_function": "assert_type(await ctx.durable_execute_async(size, 'a', factor=2), int)",
    "async_function": "assert_type(await ctx.durable_execute_async(ask, 'a', tries=2), float)",
    "synchronous": "assert_type(ctx.durable_execute(size, 'a'), int)",
    "synchronous_async_function": "assert_type(ctx.durable_execute(ask, 'a'), float)",
    "future": "assert_type(ctx.durable_execute_async(size, 'a'), DurableFuture[int])",
    "reconciler": "assert_type(await ctx.durable_execute_async(size, 'a', reconciler=found), int)",
    "async_reconciler": """
    assert_type(await ctx.durable_execute_async(ask, 'a', reconciler=found_later), float)
""",
    "options": """
    assert_type(await ctx.durable_execute_async(ask, 'a', options=CallOptions(timeout=3)), float)
""",
    "both_keywords": """
    options = CallOptions(durable_id="size", timeout=timedelta(seconds=3))
    assert_type(ctx.durable_execute(size, 'a', factor=2, reconciler=found, options=options), int)
""",
    "retries": """
    def advice(error: OSError) -> float | None:
        return None
    policy = RetryPolicy(5, 1, 2, timedelta(minutes=1), retry_on=(OSError, ValueError), retry_after=advice)
    other = RetryPolicy(max_attempts=2, retry_on=lambda error: error.status_code == 429)
    options = CallOptions(retry=policy, total_timeout=timedelta(minutes=5))
    assert_type(await ctx.durable_execute_async(size, 'a', options=options), int)
    assert_type(ctx.durable_execute(size, 'a', options=CallOptions(retry=other)), int)
""",
    "configured": """
    careful = configured(size, reconciler=found, options=CallOptions(timeout=3))
    assert_type(careful('a', factor=2), int)
    assert_type(await ctx.durable_execute_async(careful, 'a', factor=2), int)
""",
    "lambda": "assert_type(await ctx.durable_execute_async(lambda: 'a'), str)",
    "partial": "assert_type(await ctx.durable_execute_async(functools.partial(size, 'a')), int)",
    "gather_of_mixed_results": """
    one, two = await ctx.gather(ctx.durable_execute_async(size, 'a'), ctx.durable_execute_async(ask, 'b'))
    assert_type(one, Outcome[int])
    assert_type(two.value, float)
""",
    "gather_of_five": """
    a, b, c, d, e = await ctx.gather(
        ctx.durable_execute_async(size, 'a'), ctx.durable_execute_async(ask, 'b'),
        ctx.durable_execute_async(size, 'a'), ctx.durable_execute_async(ask, 'b'),
        ctx.durable_execute_async(lambda: 'a'), timeout=timedelta(seconds=3),
    )
    assert_type(e, Outcome[str])
""",
    "gather_of_a_list": """
    futures = [ctx.durable_execute_async(size, text) for text in ('a', 'b')]
    assert_type(await ctx.gather(*futures, timeout=3), list[Outcome[int]])
""",
    "asyncio": """
    (number,) = await asyncio.gather(ctx.durable_execute_async(size, 'a'))
    assert_type(number, int)
""",
    "create_task": """
    task = asyncio.create_task(ctx.durable_execute_async(ask, 'a'))
    assert_type(await task, float)
    assert_type(await asyncio.wait_for(ctx.durable_execute_async(ask, 'a'), 3), float)
""",
    "memory_and_events": """
    ctx.short_term_memory.set('a', 1)
    ctx.send_event(OutputEvent(ctx.short_term_memory.get('a', 0)))
    assert_type(ctx.run_id, str)
""",
}

WRONG = {
    "wrong_argument": "await ctx.durable_execute_async(size, 1)",
    "wrong_argument_of_async_function": "await ctx.durable_execute_async(ask, 1)",
    "wrong_argument_of_a_synchronous_call": "ctx.durable_execute(size, 1)",
    "missing_argument": "await ctx.durable_execute_async(size)",
    "unknown_keyword": "await ctx.durable_execute_async(size, 'a', times=2)",
    "wrong_keyword": "await ctx.durable_execute_async(size, 'a', factor='2')",
    "called_function": "await ctx.durable_execute_async(size('a'))",
    "no_function": "await ctx.durable_execute_async('size', 'a')",
    "wrong_result": "text: str = await ctx.durable_execute_async(size, 'a')",
    "wrong_result_with_options": """
    text: str = await ctx.durable_execute_async(size, 'a', options=CallOptions(timeout=3))
""",
    "retry_on_a_name": "RetryPolicy(retry_on='OSError')",
    "retry_of_another_kind": "CallOptions(retry=3)",
    "retry_after_that_is_no_time": "RetryPolicy(retry_after=lambda error: 'soon')",
    "forgotten_await": "number: int = ctx.durable_execute_async(size, 'a')",
    "reconciler_with_parameters": "await ctx.durable_execute_async(size, 'a', reconciler=size)",
    "reconciler_that_was_called": "await ctx.durable_execute_async(size, 'a', reconciler=found())",
    "options_of_another_kind": "await ctx.durable_execute_async(size, 'a', options={'timeout': 3})",
    "wrong_argument_of_configured": """
    await ctx.durable_execute_async(configured(size, reconciler=found), 1)
""",
    "gather_of_a_coroutine": "await ctx.gather(ask('a'))",
    "gather_result": """
    one, two = await ctx.gather(ctx.durable_execute_async(size, 'a'), ctx.durable_execute_async(ask, 'b'))
    text: str = one.value
""",
    "gather_outcome_is_no_value": """
    [one] = await ctx.gather(ctx.durable_execute_async(size, 'a'))
    number: int = one
""",
    "send_of_a_value": "ctx.send_event('done')",
    "unknown_member": "ctx.long_term_memory",
}

CLASSES = """
class Reviews(Agent):
    @action(InputEvent)
    async def review(self, event: InputEvent, ctx: RunnerContext) -> None:
        ctx.send_event(OutputEvent(await ctx.durable_execute_async(self.score, event.input)))

    @action("other", InputEvent)
    @staticmethod
    def other(event: InputEvent, ctx: RunnerContext) -> None:
        ctx.send_event(OutputEvent(ctx.durable_execute(size, "a")))

    def score(self, text: str) -> int:
        return len(text)

Agent().add_action("act", [InputEvent], Reviews.other, limit=3)
"""


def _snippet(text: str) -> str:
    body = text if text.startswith("\n") else f"    {text}\n"
    return HEADER + BODY + body


@pytest.fixture(scope="module")
def errors(tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[str]]:
    """Errors of mypy by snippet, from one run over all of them."""
    folder = tmp_path_factory.mktemp("snippets")
    snippets = {f"right_{name}": _snippet(text) for name, text in RIGHT.items()}
    snippets["right_classes"] = HEADER + CLASSES
    snippets.update({f"wrong_{name}": _snippet(text) for name, text in WRONG.items()})
    for name, text in snippets.items():
        (folder / f"{name}.py").write_text(text)
    command = [sys.executable, "-m", "mypy", "--strict", "--config-file", str(ROOT / "pyproject.toml")]
    command += ["--cache-dir", str(ROOT / ".mypy_cache" / "snippets"), "--no-error-summary", str(folder)]
    environment = {**os.environ, "MYPYPATH": str(ROOT)}
    result = subprocess.run(
        command,
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        timeout=MYPY_SECONDS,
        check=False,
    )
    assert not result.stderr.strip(), result.stderr
    found: dict[str, list[str]] = {name: [] for name in snippets}
    for line in result.stdout.splitlines():
        match = re.search(r"(\w+)\.py:\d+: error: .*", line)
        if match is not None:
            assert match[1] in found, f"an error outside of the snippets: {line}"
            found[match[1]].append(line)
    return found


@pytest.mark.timeout(MYPY_SECONDS)
@pytest.mark.parametrize("name", [*RIGHT, "classes"])
def test_right_code_passes(errors: dict[str, list[str]], name: str) -> None:
    assert errors[f"right_{name}"] == []


@pytest.mark.timeout(MYPY_SECONDS)
@pytest.mark.parametrize("name", list(WRONG))
def test_wrong_code_fails_type_checking(errors: dict[str, list[str]], name: str) -> None:
    assert errors[f"wrong_{name}"], "mypy found nothing wrong with this snippet"


def test_the_package_says_that_it_is_typed() -> None:
    assert (Path(flink_agents_durable.__file__).parent / "py.typed").is_file()


def test_public_names() -> None:
    """What the package exports; a change here is a change of the public API."""
    assert flink_agents_durable.__all__ == [
        "ActionFailedError",
        "Agent",
        "AgentConfiguration",
        "AgentOptions",
        "AgentsExecutionEnvironment",
        "AttemptEndedError",
        "Awakeable",
        "AwakeableFailedError",
        "AwakeableResolution",
        "BaseChatModelConnection",
        "BaseChatModelSetup",
        "CallOptions",
        "CallTimeoutError",
        "ChatMessage",
        "ChatRequestEvent",
        "ChatResponseEvent",
        "ConfigurationError",
        "DeadLetter",
        "DurableExecutionError",
        "DurableFuture",
        "DurableSerializationError",
        "Event",
        "EventType",
        "FlussActionStateStore",
        "InputEvent",
        "InvalidAnswerError",
        "JavaCallError",
        "JavaFunction",
        "KafkaActionStateStore",
        "MaxStepsExceededError",
        "MemoryObject",
        "MessageRole",
        "NoActionStateStore",
        "NonDeterministicActionError",
        "OpenAIChatModelConnection",
        "OpenAIChatModelSetup",
        "Outcome",
        "OutputEvent",
        "Prompt",
        "ReActAgent",
        "RealIOError",
        "RecordTooLargeError",
        "RecordedCallError",
        "Resource",
        "ResourceDescriptor",
        "ResourceType",
        "RetryPolicy",
        "RunnerContext",
        "SqliteActionStateStore",
        "StalledActionError",
        "StoreUnavailableError",
        "Tool",
        "ToolRequestEvent",
        "ToolResponse",
        "ToolResponseEvent",
        "UnreadableRecordError",
        "UnresolvedAwakeablesError",
        "action",
        "awakeable_failure",
        "awakeable_result",
        "chat_model_connection",
        "chat_model_setup",
        "configured",
        "current_context",
        "lazy",
        "prompt",
        "retry_after_header",
        "tool",
    ]


@pytest.mark.parametrize("name", flink_agents_durable.__all__)
def test_public_names_are_there_and_documented(name: str) -> None:
    value = getattr(flink_agents_durable, name)
    assert value.__doc__, f"{name} has no docstring"
