"""A local model server for the example: it speaks the OpenAI protocol, counts, and fails on purpose.

The answers are scripted: computed from the words of the review, after a delay. With `relay` it hands the
requests on to a real server instead, and counts just the same.

    python examples/scripted_model_server.py --port 8000
"""

from __future__ import annotations

import argparse
import contextlib
import hashlib
import json
import re
import select
import socket
import threading
import time
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from model_calls import ANSWERED, CUT_OFF, FAILED, Call, CallLog
from relay import Relay, RelayedRequest, UpstreamError

Request = dict[str, Any]
Completion = dict[str, Any]

_GOOD = (
    "great",
    "good",
    "happy",
    "love",
    "excellent",
    "beautiful",
    "comfortable",
    "solid",
    "fine",
    "friendly",
)
_BAD = {
    "broke": "it broke",
    "leaks": "it leaks",
    "poor": "poor quality",
    "cheap": "feels cheap",
    "dim": "too dim",
    "uncomfortable": "uncomfortable",
    "weak": "weak",
    "late": "late delivery",
    "weeks": "late delivery",
    "crushed": "damaged on the way",
    "damaged": "damaged on the way",
    "terrible": "terrible shipping",
}
_SHIPPING = ("parcel", "courier", "delivery", "shipping", "arrived", "box")


def scripted_answer(request: Request) -> Completion:
    """An answer from the words of the review: the tool for trouble with the shipping, then the analysis."""
    messages = request["messages"]
    review_id, review = _review_of(messages)
    words = re.findall(r"[a-z]+", review.lower())
    reasons = list(dict.fromkeys(reason for word, reason in _BAD.items() if word in words))
    tools = [tool["function"]["name"] for tool in request.get("tools", ())]
    if reasons and tools and any(word in words for word in _SHIPPING) and messages[-1]["role"] == "user":
        arguments = json.dumps({"id": review_id, "review": review})
        call = {
            "id": f"call_{review_id}",
            "type": "function",
            "function": {"name": tools[0], "arguments": arguments},
        }
        return completion(request, None, [call])
    score = max(1, min(5, 4 + sum(word in _GOOD for word in words) - 2 * len(reasons)))
    return completion(request, json.dumps({"score": score, "reasons": reasons[:3]}))


def completion(request: Request, content: str | None, tool_calls: list[Any] | None = None) -> Completion:
    """An answer in the form of the protocol."""
    message: dict[str, Any] = {"role": "assistant", "content": content}
    if tool_calls:
        message["tool_calls"] = tool_calls
    prompt_tokens = len(json.dumps(request["messages"]).split())
    completion_tokens = len((content or json.dumps(tool_calls)).split())
    return {
        "id": f"scripted-{time.monotonic_ns()}",
        "object": "chat.completion",
        "created": int(time.time()),
        "model": request.get("model", "scripted"),
        "choices": [
            {"index": 0, "message": message, "finish_reason": "tool_calls" if tool_calls else "stop"}
        ],
        "usage": {
            "prompt_tokens": prompt_tokens,
            "completion_tokens": completion_tokens,
            "total_tokens": prompt_tokens + completion_tokens,
        },
    }


def _review_of(messages: list[Any]) -> tuple[str, str]:
    for message in messages:
        found = re.match(r"\s*Review (\S+)[^\n]*\n(.*)", str(message.get("content")), re.DOTALL)
        if message["role"] == "user" and found:
            return found.group(1), found.group(2).strip()
    last = [message for message in messages if message["role"] == "user"]
    return "?", str(last[-1]["content"]) if last else ""


def state_of(request: Request) -> str:
    """Stands for the whole content of a request."""
    return hashlib.sha256(json.dumps(request, sort_keys=True).encode()).hexdigest()


class ModelServer:
    """The server in threads of its own. `answer` makes the answers, `log` counts the requests.

    Two ways to force a failover without leaving it to chance what was answered before it:

    - `before_failover()` is for a part of the job that is about to fail. From then on nothing is answered, so
      that all answers that were given had their time to be recorded.
    - `slow_next(timeout)`: the next new question is not answered, so that its call exceeds its timeout.

    Both end when a question that was left unanswered is asked again, which is what the restarted job does.
    """

    QUIET = 0.5
    """Seconds without an answer before a failover, in which the last answer reaches the journal."""

    def __init__(
        self,
        answer: Callable[[Request], Completion] = scripted_answer,
        *,
        relay: Relay | None = None,
        delay: float = 0.0,
        fail_first: int = 0,
        port: int = 0,
    ) -> None:
        self.log = CallLog()
        self.answer = answer
        self.relay = relay
        self.delay = delay
        self.fail_first = fail_first
        self.finished: Callable[[], frozenset[str]] = frozenset
        self.notifications: list[Any] = []
        self.requests: list[Request] = []
        self._holding = False
        self._slow_timeout: float | None = None
        self._slow_ongoing = False
        self._slow_calls = 0
        handler = type("Handler", (_Handler,), {"model_server": self})
        self._server = ThreadingHTTPServer(("127.0.0.1", port), handler)
        self._server.daemon_threads = True
        self.address = f"http://127.0.0.1:{self._server.server_address[1]}"
        self.base_url = f"{self.address}/v1"
        self._thread = threading.Thread(target=self._server.serve_forever, name="model-server", daemon=True)

    def __enter__(self) -> ModelServer:
        self._thread.start()
        return self

    def __exit__(self, *exc_info: object) -> None:
        self._server.shutdown()
        self._server.server_close()

    # --- failing on purpose

    def next_failover(
        self, due: int, timeout: float, ongoing: bool = False, last: bool = False
    ) -> int | None:
        """For a job that passes a record: whether to fail now, so that `due` failovers have been forced.

        Task failures and model timeouts come in turns. Returns the number of calls in flight if the job is to
        fail now, None if it is not. `last` says that there will be no further record to fail at.
        """
        done = len(self.log.failovers)
        if done < due and done % 2 == 1:
            if self._slow_calls == done // 2:
                self.slow_next(timeout, ongoing)
            if not last or due == done + 1:
                return None
            with self.log.changed:
                self.log.changed.wait_for(lambda: len(self.log.failovers) > done, timeout + 10)
            done = len(self.log.failovers)
        if done >= due or done % 2 == 1:
            return None
        # A job that has just started may take long to make its first call.
        wait = 0.0 if not last else 10.0 if self.log.calls else 60.0
        return self.before_failover(ongoing, wait, insist=last)

    def before_failover(self, ongoing: bool = False, wait: float = 30.0, insist: bool = True) -> int | None:
        """Stop answering, and return the number of model calls that are in flight after a quiet time.

        With `ongoing` one of them belongs to a conversation that has an answer already, else any has. If that
        does not come in `wait` seconds, it happens all the same (`insist`), or not (None).
        """
        with self.log.changed:
            if not self.log.changed.wait_for(lambda: not self._holding and self._is_busy(ongoing), wait):
                if not insist:
                    return None
                self.log.changed.wait_for(lambda: not self._holding and bool(self.log.in_flight()), wait)
            self.hold()
        time.sleep(self.QUIET)
        calls = len(self.log.in_flight())
        self.log.failed_over("task failure", calls, self.finished())
        return calls

    def _is_busy(self, ongoing: bool) -> bool:
        calls = self.log.in_flight()
        if ongoing:
            return any(self.log.answered_calls(call.review) for call in calls)
        return bool(calls) and self.log.count(ANSWERED) > 0

    def slow_next(self, timeout: float, ongoing: bool = False) -> None:
        """Leave the next new question unanswered; its call is given up by the job after `timeout` seconds.

        With `ongoing` it is the next one of a conversation that has an answer already.
        """
        with self.log.changed:
            self._slow_calls += 1
            self._slow_timeout = timeout
            self._slow_ongoing = ongoing

    def hold(self) -> None:
        """Answer nothing until a question that is left unanswered now is asked again."""
        with self.log.changed:
            self._holding = True
            for call in self.log.in_flight():
                call.doomed = True

    def _admit(self, call: Call) -> None:
        """What becomes of a request that has just come."""
        with self.log.changed:
            again = any(other.doomed and other.state == call.state for other in self.log.calls)
            if again:
                self._holding = False
            if self._holding:
                call.doomed = True
            elif self._slow_timeout is not None and self._is_to_be_slow(call):
                call.doomed = True
                # The others stop a little earlier, so that no answer is on its way when the call times out.
                threading.Timer(max(0.0, self._slow_timeout - self.QUIET), self.hold).start()
                threading.Thread(target=self._note_timeout, args=(call,), daemon=True).start()
                self._slow_timeout = None

    def _is_to_be_slow(self, call: Call) -> bool:
        new = self.log.seen(call.state) == 1
        return new and (not self._slow_ongoing or self.log.answered_calls(call.review) > 0)

    def _note_timeout(self, call: Call) -> None:
        with self.log.changed:
            self.log.changed.wait_for(lambda: call.ended is not None)
            calls = len(self.log.in_flight())
        self.log.failed_over("model timeout", calls, self.finished())

    # --- one request

    def serve(self, request: Request, client: socket.socket) -> tuple[int, Completion] | None:
        """Status and answer, or None when the client has gone."""
        call = self.log.begin(_review_of(request["messages"])[0], state_of(request))
        with self.log.changed:
            self.requests.append(request)
            failing = self.fail_first > 0
            self.fail_first -= failing
        self._admit(call)
        if failing:
            self.log.end(call, FAILED)
            return 500, {"error": {"message": "failed on purpose", "type": "server_error"}}
        reply = self._relayed(call, request, client) if self.relay else self._made(call, request, client)
        with self.log.changed:
            if call.doomed or reply is None:
                self.log.end(call, CUT_OFF)
                return None
            self.log.end(call, ANSWERED if reply[0] == 200 else FAILED)
        return reply

    def _made(self, call: Call, request: Request, client: socket.socket) -> tuple[int, Completion] | None:
        ready = call.started + self.delay
        self._wait(call, client, lambda: time.monotonic() >= ready)
        try:
            return None if call.doomed else (200, self.answer(request))
        except UpstreamError as error:
            return error.status, error.body

    def _relayed(self, call: Call, request: Request, client: socket.socket) -> tuple[int, Completion] | None:
        if call.doomed:
            self._wait(call, client, lambda: True)
            return None
        assert self.relay is not None
        relayed = RelayedRequest(self.relay, request, self.log.notify)
        self._wait(call, client, relayed.done.is_set)
        if call.doomed:
            relayed.cancel()
            return None
        return (relayed.error.status, relayed.error.body) if relayed.error else (200, relayed.answer or {})

    def _wait(self, call: Call, client: socket.socket, is_ready: Callable[[], bool]) -> None:
        """Wait as long as the answer takes; a doomed call until the client has gone."""
        while not _has_gone(client):
            if not call.doomed and is_ready():
                return
            with self.log.changed:
                self.log.changed.wait(0.05)
        call.doomed = True


def _has_gone(client: socket.socket) -> bool:
    readable, _, _ = select.select([client], [], [], 0)
    try:
        return bool(readable) and client.recv(1, socket.MSG_PEEK) == b""
    except OSError:
        return True


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    model_server: ModelServer

    def do_GET(self) -> None:
        if self.path == "/v1/models":
            self._send(200, {"object": "list", "data": [{"id": "scripted", "object": "model"}]})
        else:
            self._send(404, {"error": {"message": f"no such path: {self.path}"}})

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers.get("Content-Length", 0))) or b"{}")
        server = self.model_server
        if self.path == "/v1/chat/completions":
            reply = server.serve(body, self.connection)
            if reply is None:
                self.close_connection = True
            else:
                self._send(*reply)
        elif self.path == "/failover":
            self._send(200, {"calls_in_flight": server.next_failover(**body)})
        elif self.path == "/notifications":
            server.notifications.append(body)
            self._send(200, {"notified": True})
        else:
            self._send(404, {"error": {"message": f"no such path: {self.path}"}})

    def _send(self, status: int, body: dict[str, Any]) -> None:
        data = json.dumps(body).encode()
        try:
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)
        except OSError:
            self.close_connection = True

    def log_message(self, format: str, *args: Any) -> None:
        """Silent: the example prints what matters."""


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--port", type=int, default=8000)
    parser.add_argument("--delay", type=float, default=1.0, help="seconds that an answer takes")
    options = parser.parse_args()
    with ModelServer(delay=options.delay, port=options.port) as server:
        print(f"scripted answers at {server.base_url}; Ctrl-C ends it")
        with contextlib.suppress(KeyboardInterrupt):
            threading.Event().wait()


if __name__ == "__main__":
    main()
