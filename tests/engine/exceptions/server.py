"""A server on 127.0.0.1 that fails as a path asks for, so that clients build their exceptions themselves."""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

SECRET = "planted"
"""Part of everything that must not be recorded: keys, cookies, passwords, prompts."""

LONGEST_HANG = 30.0
"""Seconds. Bounds how long a handler outlives a client that went away without a word."""

MESSAGES = {
    400: "the prompt 'planted prompt of the user' is not allowed",
    401: "Incorrect API key provided: planted-api-key-0123.",
}


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: Server

    def do_GET(self) -> None:
        length = int(self.headers.get("Content-Length") or 0)
        self.rfile.read(length)
        _, kind, argument, *_ = [*self.path.partition("?")[0].split("/"), "", ""]
        self.close_connection = True
        if kind == "hang":
            self.server.closing.wait(LONGEST_HANG)
        elif kind == "status":
            self._answer(int(argument))
        elif kind == "text":
            self._send(200, {"Content-Type": "text/plain"}, b"no json")
        elif kind == "redirect":
            self._send(302, {"Location": self.path}, b"")
        elif kind == "cut":
            self._send(200, {"Content-Type": "text/plain"}, b"short", length=100)
        # "drop": the connection closes without an answer.

    do_POST = do_GET

    def _answer(self, status: int) -> None:
        message = MESSAGES.get(status, "Rate limit reached")
        error = {
            "message": message,
            "code": status if "v1beta" in self.path else "rate_limit_exceeded",
            "type": "rate_limit_error",
            "status": "RESOURCE_EXHAUSTED",
        }
        headers = {
            "Content-Type": "application/json",
            "Retry-After": "7",
            "x-request-id": "req-1",
            "request-id": "req-1",
            "x-amzn-ErrorType": "ThrottlingException",
            "Set-Cookie": "session=planted-cookie-4567; Path=/; HttpOnly",
        }
        self._send(
            status, headers, json.dumps({"type": "error", "error": error, "message": message}).encode()
        )

    def _send(self, status: int, headers: dict[str, str], body: bytes, length: int | None = None) -> None:
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body) if length is None else length))
        self.send_header("Connection", "close")
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:
        pass


class Server(ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.closing = threading.Event()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Clients that time out leave broken pipes behind."""


@contextmanager
def failing_server() -> Iterator[str]:
    """The address of a server while it runs."""
    with Server() as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_address[1]}"
        finally:
            server.closing.set()
            server.shutdown()
            thread.join()


@contextmanager
def silent_port() -> Iterator[str]:
    """An address that takes no connection and refuses none: its queue is full."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen(0)
        waiting = []
        for _ in range(8):
            client = socket.socket()
            client.setblocking(False)
            client.connect_ex(listener.getsockname())
            waiting.append(client)
        try:
            yield f"http://127.0.0.1:{listener.getsockname()[1]}"
        finally:
            for client in waiting:
                client.close()


def closed_port() -> str:
    """An address that refuses connections."""
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        return f"http://127.0.0.1:{unused.getsockname()[1]}"
