"""A real HTTP server that keeps its clients waiting until a test lets them go."""

from __future__ import annotations

import threading
from collections import Counter
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

HELD_SECONDS = 120.0
"""After so long a request is answered all the same, so that a test that failed leaves nothing behind for ever."""


class SlowServer:
    """Answers a request once it is let go; counts what comes in."""

    def __init__(self) -> None:
        self.requests: Counter[str] = Counter()
        self.let_go = threading.Event()
        server = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                server.requests[self.path] += 1
                server.let_go.wait(HELD_SECONDS)
                body = f"answer to {self.path}".encode()
                try:
                    self.send_response(200)
                    self.send_header("Content-Length", str(len(body)))
                    self.end_headers()
                    self.wfile.write(body)
                except OSError:
                    return  # who asked has gone

            def log_message(self, *args: Any) -> None: ...

        self.http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.http.daemon_threads = True
        self.url = f"http://127.0.0.1:{self.http.server_port}"
        self._thread = threading.Thread(target=self.http.serve_forever, kwargs={"poll_interval": 0.05})
        self._thread.start()

    def close(self) -> None:
        self.let_go.set()
        self.http.shutdown()
        self.http.server_close()
        self._thread.join()
