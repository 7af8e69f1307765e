"""The ReAct agent under the LocalRunner, against a real model server over HTTP. Covers L4."""

from __future__ import annotations

import contextlib
import json
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from model_calls import ANSWERED
from pydantic import BaseModel, Field
from scripted_model_server import ModelServer, completion

from flink_agents_durable.agents.conversation import MAX_REPAIRS, InvalidAnswerError
from flink_agents_durable.agents.react_agent import ReActAgent
from flink_agents_durable.api.call_options import CallOptions
from flink_agents_durable.api.chat import ChatMessage
from flink_agents_durable.api.errors import CallTimeoutError, ConfigurationError, MaxStepsExceededError
from flink_agents_durable.api.prompts import Prompt
from flink_agents_durable.api.resources import ResourceDescriptor, ResourceType
from flink_agents_durable.api.tools import Tool
from flink_agents_durable.models.openai import OpenAIChatModelConnection, OpenAIChatModelSetup
from flink_agents_durable.store.sqlite import SqliteActionStateStore
from flink_agents_durable.testing.local_runner import LocalRunner

TIMEOUT = 30.0


class Analysis(BaseModel):
    score: int = Field(ge=1, le=5)
    reasons: list[str] = []


@dataclass
class Review:
    id: str
    text: str


PROMPT = Prompt.from_messages(
    [ChatMessage.system("Analyse reviews. {{json}}"), ChatMessage.user("Review {id}:\n{text}")]
)


def agent_of(server: ModelServer, tools: list[Callable[..., Any]] | None = None, **kwargs: Any) -> ReActAgent:
    setup = {name: kwargs.pop(name) for name in ("call_options", "temperature") if name in kwargs}
    connection = {name: kwargs.pop(name) for name in ("structured_output",) if name in kwargs}
    agent: ReActAgent = kwargs.pop("make", ReActAgent)(
        chat_model=ResourceDescriptor(
            clazz=OpenAIChatModelSetup,
            connection="server",
            model="m",
            tools=[tool.__name__ for tool in tools or ()],
            **setup,
        ),
        **kwargs,
    )
    agent.add_resource(
        "server",
        ResourceType.CHAT_MODEL_CONNECTION,
        ResourceDescriptor(clazz=OpenAIChatModelConnection, base_url=server.base_url, **connection),
    )
    for tool in tools or ():
        agent.add_resource(tool.__name__, ResourceType.TOOL, Tool.from_callable(tool))
    return agent


def answers(*replies: Any) -> Callable[[Any], Any]:
    """The replies in their order: texts, or lists of tool calls `(id, name, arguments)`."""
    left = list(replies)
    lock = threading.Lock()

    def answer(request: Any) -> Any:
        with lock:
            reply = left.pop(0) if len(left) > 1 else left[0]
        if isinstance(reply, str):
            return completion(request, reply)
        calls = [
            {"id": id, "type": "function", "function": {"name": name, "arguments": arguments}}
            for id, name, arguments in reply
        ]
        return completion(request, None, calls)

    return answer


def run(agent: ReActAgent, value: Any) -> Any:
    with LocalRunner(agent) as runner:
        runner.process("key", value)
        runner.run_until_idle(timeout=TIMEOUT)
        ((_, output),) = runner.outputs
        return output


@pytest.fixture
def server() -> Iterator[ModelServer]:
    with ModelServer() as running:
        yield running


def sent(server: ModelServer, request: int = -1) -> list[Any]:
    messages: list[Any] = server.requests[request]["messages"]
    return messages


# --- inputs and outputs


@pytest.mark.parametrize("value", ["hello", 7, 1.5, True])
def test_a_single_value_without_a_prompt_is_the_message(server: ModelServer, value: Any) -> None:
    server.answer = answers("hi")
    assert run(agent_of(server), value) == "hi"
    assert sent(server) == [{"role": "user", "content": str(value)}]


def test_a_single_value_fills_input(server: ModelServer) -> None:
    server.answer = answers("hi")
    run(agent_of(server, prompt=Prompt.from_text("Say {input}")), "{x}")
    assert sent(server) == [{"role": "user", "content": "Say {x}"}]


class ReviewModel(BaseModel):
    id: str
    text: str


def _row() -> Any:
    from pyflink.common import Row

    return Row(id="r1", text="fine")


@pytest.mark.parametrize(
    "value",
    [{"id": "r1", "text": "fine"}, ReviewModel(id="r1", text="fine"), Review("r1", "fine"), _row()],
    ids=["dict", "model", "dataclass", "row"],
)
def test_fields_of_the_input_fill_the_prompt(server: ModelServer, value: Any) -> None:
    server.answer = answers("ok")
    run(agent_of(server, prompt=PROMPT), value)
    assert sent(server) == [
        {"role": "system", "content": "Analyse reviews. {json}"},
        {"role": "user", "content": "Review r1:\nfine"},
    ]


def test_typed_output_and_the_servers_own_structured_output(server: ModelServer) -> None:
    server.answer = answers('{"score": 4, "reasons": ["light"]}')
    output = run(agent_of(server, prompt=PROMPT, output_schema=Analysis), Review("r1", "fine"))
    assert output == Analysis(score=4, reasons=["light"])
    assert server.requests[0]["response_format"]["json_schema"]["name"] == "Analysis"
    assert "JSON" in sent(server)[0]["content"]
    assert [message["role"] for message in sent(server)] == ["system", "user"]


class Named(ReActAgent):
    def make_output(self, input: Any, answer: Any) -> Any:
        return {"id": input["id"], "score": answer.score}


def test_the_output_may_have_the_inputs_own_fields(server: ModelServer) -> None:
    server.answer = answers('{"score": 4}')
    agent = agent_of(server, make=Named, output_schema=Analysis)
    assert run(agent, {"id": "r1", "text": "fine"}) == {"id": "r1", "score": 4}


def test_typed_output_as_a_row(server: ModelServer) -> None:
    from pyflink.common import Row
    from pyflink.common.typeinfo import Types

    schema = Types.ROW_NAMED(
        ["score", "reasons", "model_name"], [Types.INT(), Types.LIST(Types.STRING()), Types.STRING()]
    )
    server.answer = answers('{"score": 4, "reasons": ["light"], "model_name": "x"}')
    output = run(agent_of(server, output_schema=schema), "fine")
    assert output == Row(score=4, reasons=["light"], model_name="x")


@pytest.mark.parametrize(
    "text", ['```json\n{"score": 4}\n```', 'Here you are: {"score": 4} Bye.', '\n {"score": 4}\n']
)
def test_json_is_found_in_the_answer(server: ModelServer, text: str) -> None:
    server.answer = answers(text)
    assert run(agent_of(server, output_schema=Analysis), "fine") == Analysis(score=4)


def test_invalid_answers_are_sent_back_with_the_error(server: ModelServer) -> None:
    server.answer = answers("no idea", '{"score": 9}', '{"score": 2}')
    assert run(agent_of(server, output_schema=Analysis), "fine") == Analysis(score=2)
    assert len(server.requests) == 3
    assert "score: Input should be less than or equal to 5" in sent(server)[-1]["content"]
    assert sent(server)[-2] == {"role": "assistant", "content": '{"score": 9}'}


def test_invalid_answers_are_sent_back_a_bounded_number_of_times(server: ModelServer) -> None:
    server.answer = answers("no idea")
    with pytest.raises(Exception) as caught:  # noqa: PT011 - the runner wraps what the action raised
        run(agent_of(server, output_schema=Analysis), "fine")
    assert isinstance(cause_of(caught.value), InvalidAnswerError)
    assert len(server.requests) == MAX_REPAIRS + 1


def cause_of(error: BaseException) -> BaseException:
    while error.__cause__ is not None:
        error = error.__cause__
    return error


def test_too_many_steps(server: ModelServer) -> None:
    server.answer = answers([("c", "look", "{}")])

    def look() -> str:
        return "nothing"

    with pytest.raises(Exception) as caught:  # noqa: PT011 - the runner wraps what the action raised
        run(agent_of(server, [look], max_steps=3), "fine")
    assert isinstance(cause_of(caught.value), MaxStepsExceededError)
    assert len(server.requests) == 3


@pytest.mark.parametrize(("tool", "error"), [(True, MaxStepsExceededError), (False, InvalidAnswerError)])
def test_an_input_that_the_model_cannot_answer_is_a_dead_letter(
    server: ModelServer, tool: bool, error: type[Exception]
) -> None:
    server.answer = answers([("c", "look", "{}")] if tool else "no idea")

    def look() -> str:
        return "nothing"

    agent = agent_of(server, [look], max_steps=MAX_REPAIRS + 1, output_schema=Analysis)
    with LocalRunner(agent, options={"agents.action-failure": "dead-letter"}) as runner:
        runner.process("k", "fine")
        runner.run_until_idle(timeout=TIMEOUT)
        (letter,) = runner.dead_letters
    assert letter.input == "fine"
    assert letter.error.startswith(f"{error.__module__}.{error.__name__}: ")
    assert runner.outputs == []


def test_what_cannot_work_is_an_error_when_the_agent_is_made() -> None:
    with pytest.raises(ConfigurationError, match="max_steps"):
        ReActAgent(chat_model="m", max_steps=0)
    with pytest.raises(ConfigurationError, match="output_schema"):
        ReActAgent(chat_model="m", output_schema=Analysis(score=1))
    with pytest.raises(ConfigurationError, match="prompt is a Prompt"):
        ReActAgent(chat_model="m", prompt=7)  # type: ignore[arg-type]


# --- tools


def test_tools_run_in_parallel_and_their_results_go_back_in_order(server: ModelServer) -> None:
    both = threading.Barrier(2, timeout=TIMEOUT)

    def weigh(x: int) -> dict[str, int]:
        both.wait()
        return {"grams": x}

    async def name(x: int) -> str:
        import asyncio

        await asyncio.to_thread(both.wait)
        return f"n{x}"

    server.answer = answers([("a", "weigh", '{"x": 2}'), ("b", "name", '{"x": "3"}')], "done")
    assert run(agent_of(server, [weigh, name]), "fine") == "done"
    assert sent(server)[-2:] == [
        {"role": "tool", "content": '{"grams": 2}', "tool_call_id": "a"},
        {"role": "tool", "content": "n3", "tool_call_id": "b"},
    ]


def test_what_the_model_gets_wrong_is_answered_to_the_model(server: ModelServer) -> None:
    called: list[int] = []

    def weigh(x: int) -> int:
        called.append(x)
        return x

    server.answer = answers(
        [
            ("a", "weigh", '{"y": 2}'),
            ("b", "weight", "{}"),
            ("c", "weigh", "{x: 1"),
            ("d", "weigh", '{"x": 5}'),
        ],
        "done",
    )
    assert run(agent_of(server, [weigh]), "fine") == "done"
    texts = {message["tool_call_id"]: message["content"] for message in sent(server)[-4:]}
    assert "x: Field required" in texts["a"]
    assert texts["b"] == "error: there is no tool weight; did you mean weigh?"
    assert "must be a JSON object" in texts["c"]
    assert texts["d"] == "5"
    assert called == [5]


def test_what_a_tool_raises_is_answered_to_the_model(server: ModelServer) -> None:
    def fail() -> int:
        raise ValueError("no such parcel")

    server.answer = answers([("a", "fail", "")], "done")
    assert run(agent_of(server, [fail]), "fine") == "done"
    assert sent(server)[-1]["content"] == "error: builtins.ValueError: no such parcel"


def test_a_tool_may_have_parameters_named_as_those_of_durable_calls(server: ModelServer) -> None:
    def send(options: str, reconciler: str, func: str) -> str:
        return options + reconciler + func

    server.answer = answers([("a", "send", '{"options": "a", "reconciler": "b", "func": "c"}')], "done")
    run(agent_of(server, [send]), "fine")
    assert sent(server)[-1]["content"] == "abc"


def test_a_schema_does_not_silence_the_tools(server: ModelServer) -> None:
    def look() -> str:
        return "nothing"

    server.answer = answers([("a", "look", "{}")], "I think four", '{"score": 4}')
    assert run(agent_of(server, [look], output_schema=Analysis), "fine") == Analysis(score=4)
    formats = ["response_format" in request for request in server.requests]
    tools = ["tools" in request for request in server.requests]
    assert (formats, tools) == ([False, False, True], [True, True, False])


def test_d3_two_tools_called_through_one_method_are_told_apart(server: ModelServer) -> None:
    def weigh(x: int) -> str:
        return f"weight {x}"

    def measure(x: int) -> str:
        return f"length {x}"

    server.answer = answers([("a", "weigh", '{"x": 1}'), ("b", "measure", '{"x": 1}')], "done")
    with LocalRunner(agent_of(server, [weigh, measure])) as runner:
        runner.process("key", "fine")
        runner.run_until_idle(timeout=TIMEOUT)
        names = [call.name for call in runner.calls]
    assert names == [
        "chat_model:_default_chat_model.chat",
        "tool:weigh.invoke",
        "tool:measure.invoke",
        "chat_model:_default_chat_model.chat",
    ]


# --- crashes


def reviews() -> list[Any]:
    path = Path(__file__).resolve().parents[2] / "examples/data/reviews.jsonl"
    return [json.loads(line) for line in path.read_text().splitlines()]


REVIEW_PROMPT = Prompt.from_text("Review {id} of {product}:\n{review}")


def notify_shipping_manager(id: str, review: str) -> str:
    """Notify the shipping manager."""
    return f"notified about {id}"


def run_until_answered(runner: LocalRunner, server: ModelServer, calls: int) -> None:
    """Let the runner work until the server has answered so many calls, and record these answers."""
    deadline = time.monotonic() + TIMEOUT
    while server.log.count(ANSWERED) < calls:
        assert time.monotonic() < deadline
        with contextlib.suppress(TimeoutError):
            runner.run_until_idle(timeout=0.02)
    server.hold()
    with pytest.raises(TimeoutError):
        runner.run_until_idle(timeout=0.5)


def test_l4_one_answer_an_input_and_no_answered_call_repeated(server: ModelServer, tmp_path: Path) -> None:
    """Crashes with model calls in flight, and nothing but the store's log between the attempts."""
    agent = agent_of(server, [notify_shipping_manager], prompt=REVIEW_PROMPT, output_schema=Analysis)
    store = SqliteActionStateStore(tmp_path)
    server.delay = 0.02
    runner = LocalRunner(agent, store=store)
    for review in reviews():
        runner.process(review["product"], review)
    checkpoint = runner.checkpoint()
    for calls in (5, 11):
        run_until_answered(runner, server, calls)
        assert server.log.in_flight()
        runner.crash()
        runner = LocalRunner.restore(agent, checkpoint, store=store)
    with runner:
        runner.run_until_idle(timeout=TIMEOUT)
        assert len(runner.outputs) == len(reviews())
    assert server.log.repeated() == 0
    assert server.log.asked_again() >= 2


def test_an_uncaught_model_timeout_fails_the_task_and_the_call_is_tried_again(
    server: ModelServer, tmp_path: Path
) -> None:
    agent = agent_of(server, call_options=CallOptions(timeout=2.0))
    store = SqliteActionStateStore(tmp_path)
    server.answer = answers("first", "second")
    server.slow_next(2.0)
    runner = LocalRunner(agent, store=store)
    checkpoint = runner.checkpoint()
    runner.process("key", "hello")
    with pytest.raises(Exception) as caught:  # noqa: PT011 - the runner wraps what the action raised
        runner.run_until_idle(timeout=TIMEOUT)
    assert isinstance(cause_of(caught.value), CallTimeoutError)
    runner.crash()
    with LocalRunner.restore(agent, checkpoint, store=store) as runner:
        runner.process("key", "hello")
        runner.run_until_idle(timeout=TIMEOUT)
        assert [output for _, output in runner.outputs] == ["first"]
    assert server.log.repeated() == 0
