"""Hands requests on to a real model server, and takes them back when nobody waits for the answer any more."""

from __future__ import annotations

import http.client
import json
import os
import socket
import threading
import urllib.parse
from typing import Any


class UpstreamError(Exception):
    """The real server answered with an error."""

    def __init__(self, status: int, body: dict[str, Any]) -> None:
        super().__init__(f"status {status}: {body}")
        self.status = status
        self.body = body


class Relay:
    """Answers of the server at a `base_url`; its key is that of the environment."""

    TIMEOUT = 600.0
    """Seconds after which a server that hangs is given up; the job gives up much earlier."""

    def __init__(self, base_url: str) -> None:
        self._address = urllib.parse.urlsplit(base_url.rstrip("/"))
        key = os.environ.get("OPENAI_API_KEY")
        self._headers = {"Content-Type": "application/json"}
        if key:
            self._headers["Authorization"] = f"Bearer {key}"

    def connection(self) -> http.client.HTTPConnection:
        """A connection of its own for each request, so that it can be cut alone."""
        secure = self._address.scheme == "https"
        kind = http.client.HTTPSConnection if secure else http.client.HTTPConnection
        return kind(self._address.netloc, timeout=self.TIMEOUT)

    def ask(self, connection: http.client.HTTPConnection, request: dict[str, Any]) -> dict[str, Any]:
        """The server's answer; an OSError or HTTPException when the connection was cut."""
        path = f"{self._address.path}/chat/completions"
        connection.request("POST", path, json.dumps(request).encode(), self._headers)
        response = connection.getresponse()
        body = json.loads(response.read() or b"{}")
        if response.status != 200:
            raise UpstreamError(response.status, body)
        answer: dict[str, Any] = body
        return answer


class RelayedRequest:
    """One request on its way, in a thread of its own."""

    def __init__(self, relay: Relay, request: dict[str, Any], on_done: Any) -> None:
        self.answer: dict[str, Any] | None = None
        self.error: UpstreamError | None = None
        self.done = threading.Event()
        self._on_done = on_done
        self._relay, self._request = relay, request
        self._connection = relay.connection()
        threading.Thread(target=self._run, daemon=True).start()

    def _run(self) -> None:
        try:
            self.answer = self._relay.ask(self._connection, self._request)
        except UpstreamError as error:
            self.error = error
        except (OSError, ValueError, http.client.HTTPException) as error:
            self.error = UpstreamError(502, {"error": {"message": f"the model server is gone: {error!r}"}})
        finally:
            self._connection.close()
            self.done.set()
            self._on_done()

    def cancel(self) -> None:
        """Cut the connection, by which servers learn to stop."""
        open_socket = self._connection.sock
        if open_socket is not None and not self.done.is_set():
            try:
                open_socket.shutdown(socket.SHUT_RDWR)
            except OSError:
                self._connection.close()
