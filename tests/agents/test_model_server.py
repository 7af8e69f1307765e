"""The count of model calls that the example's claim rests on."""

from __future__ import annotations

import json
import threading
import urllib.error
import urllib.request
from collections.abc import Callable
from typing import Any

import pytest
from model_calls import ANSWERED, CUT_OFF, CallLog
from relay import Relay
from scripted_model_server import ModelServer, scripted_answer

TOOL = {"type": "function", "function": {"name": "notify", "parameters": {}}}


def request_of(review: str, text: str = "Great.") -> dict[str, Any]:
    return {"messages": [{"role": "user", "content": f"Review {review} of lamp:\n{text}"}], "model": "m"}


def ask(server: ModelServer, request: dict[str, Any], timeout: float = 30) -> Any:
    body = json.dumps(request).encode()
    with urllib.request.urlopen(f"{server.base_url}/chat/completions", body, timeout=timeout) as response:
        return json.load(response)


def wait_for(server: ModelServer, condition: Callable[[], bool]) -> None:
    with server.log.changed:
        assert server.log.changed.wait_for(condition, 30)


def test_scripted_answers() -> None:
    request = {**request_of("r1", "The parcel was late."), "tools": [TOOL]}
    call = scripted_answer(request)["choices"][0]["message"]["tool_calls"][0]
    assert json.loads(call["function"]["arguments"]) == {"id": "r1", "review": "The parcel was late."}
    request["messages"].append({"role": "tool", "content": "done", "tool_call_id": call["id"]})
    answer = json.loads(scripted_answer(request)["choices"][0]["message"]["content"])
    assert answer == {"score": 2, "reasons": ["late delivery"]}
    assert scripted_answer(request_of("r1"))["choices"][0]["finish_reason"] == "stop"


def test_a_repeated_call_is_one_that_had_been_answered() -> None:
    with ModelServer() as server:
        ask(server, request_of("r1"))
        ask(server, request_of("r2"))
        assert server.log.repeated() == 0
        ask(server, request_of("r1"))
        assert (server.log.repeated(), server.log.repeated("r1"), server.log.repeated("r2")) == (1, 1, 0)
        assert server.log.asked_again() == 0


def test_what_was_cut_off_may_be_asked_again() -> None:
    with ModelServer(delay=60) as server:
        with pytest.raises(TimeoutError):
            ask(server, request_of("r1"), timeout=0.2)
        wait_for(server, lambda: server.log.count(CUT_OFF) == 1)
        server.delay = 0
        ask(server, request_of("r1"))
        assert (server.log.repeated(), server.log.asked_again()) == (0, 1)


def test_nothing_is_answered_after_a_failover_until_its_question_comes_again() -> None:
    with ModelServer(delay=0.05) as server:
        ask(server, request_of("r1"))
        server.delay = 60

        def ask_in_vain() -> None:
            with pytest.raises(OSError, match="timed out"):
                ask(server, request_of("r2"), 1.0)

        asking = threading.Thread(target=ask_in_vain)
        asking.start()
        assert server.before_failover() == 1
        server.delay = 0
        with pytest.raises(TimeoutError):
            ask(server, request_of("r3"), timeout=0.2)
        asking.join()
        ask(server, request_of("r2"))
        ask(server, request_of("r3"))
        assert server.log.replayed("r1") == 1
        assert server.log.replayed("r2") == 0
        assert server.log.repeated() == 0


def test_committed_answers_need_no_replay() -> None:
    log = CallLog()
    log.end(log.begin("r1", "a"), ANSWERED)
    log.failed_over("task failure", 0, frozenset({"r1"}))
    assert log.replayed("r1") == 0


def test_relay_hands_on_answers_errors_and_cancellation() -> None:
    with ModelServer() as real, ModelServer(relay=Relay(real.base_url)) as server:
        assert ask(server, request_of("r1"))["object"] == "chat.completion"
        real.fail_first = 1
        with pytest.raises(urllib.error.HTTPError, match="500"):
            ask(server, request_of("r2"))
        real.delay = 60
        with pytest.raises(TimeoutError):
            ask(server, request_of("r3"), timeout=0.2)
        wait_for(real, lambda: real.log.count(CUT_OFF) == 1)
