"""A model and tools over real HTTP that fail and stall: a process of its own, to be killed at any moment.

python -m tests.soak.model_server PORT
"""

from __future__ import annotations

import json
import os
import random
import sys
import threading
import time
import uuid
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs, urlsplit

FAILING, BUSY, STALLING, SILENT = 0.08, 0.08, 0.04, 0.03
"""The share of requests that get a 503, a 429, an answer that comes too late, or a closed connection."""
STALL_SECONDS = 4.0
"""Above what clients wait for an answer (`tests.soak.agent.HTTP_SECONDS`)."""
ANSWER_SECONDS = 0.01, 0.08


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        kind = random.choices(
            ["fail", "busy", "stall", "silent", "answer"],
            [FAILING, BUSY, STALLING, SILENT, 1 - FAILING - BUSY - STALLING - SILENT],
        )[0]
        if kind == "silent":
            self.close_connection = True
            return
        time.sleep(STALL_SECONDS if kind == "stall" else random.uniform(*ANSWER_SECONDS))
        if kind == "fail":
            self.answer(503, {"error": "overloaded"})
        elif kind == "busy":
            self.answer(429, {"error": "too many requests"}, {"retry-after": "0.1"})
        else:
            (question,) = parse_qs(urlsplit(self.path).query)["question"]
            self.answer(200, {"answer": question, "nonce": uuid.uuid4().hex})

    def answer(self, status: int, body: dict[str, str], headers: dict[str, str] | None = None) -> None:
        data = json.dumps(body).encode()
        self.send_response(status)
        for name, value in (headers or {}).items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, format: str, *args: object) -> None:
        pass


class Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 128

    def handle_error(self, request: object, client_address: object) -> None:
        """Clients that gave up, or were killed."""


def end_with(parent: int) -> None:
    """Nothing is left behind when the soak itself is killed."""
    while os.getppid() == parent:
        time.sleep(1)
    os._exit(0)


if __name__ == "__main__":
    threading.Thread(target=end_with, args=(os.getppid(),), daemon=True).start()
    Server(("127.0.0.1", int(sys.argv[1])), Handler).serve_forever()
