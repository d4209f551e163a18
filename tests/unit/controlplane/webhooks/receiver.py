"""A real HTTP server as the receiver: it gives the configured answers and keeps the requests."""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from email.message import Message
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

LOOPBACK = "127.0.0.1"


@dataclass(frozen=True)
class Got:
    """One request."""

    headers: Message
    body: bytes
    at: float

    @property
    def id(self) -> str:
        return str(self.headers["webhook-id"])

    @property
    def data(self) -> dict[str, Any]:
        return dict(json.loads(self.body))

    def signed_with(self, secret: str) -> bool:
        """Checks a signature as docs/webhooks.md tells receivers to do."""
        key = base64.b64decode(secret.removeprefix("whsec_"))
        signed = f"{self.id}.{self.headers['webhook-timestamp']}.".encode() + self.body
        expected = base64.b64encode(hmac.new(key, signed, hashlib.sha256).digest()).decode()
        given = self.headers["webhook-signature"].split(" ")
        return any(hmac.compare_digest(f"v1,{expected}", one) for one in given)


Answer = int | Callable[["Handler"], None]


class Handler(BaseHTTPRequestHandler):
    receiver: Receiver

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["content-length"]))
        answer = self.receiver.heard(Got(self.headers, body, time.time()))
        if isinstance(answer, int):
            self.reply(answer, f"answer {answer}".encode())
        else:
            answer(self)

    def reply(self, status: int, body: bytes = b"", headers: dict[str, str] | None = None) -> None:
        self.send_response(status)
        self.send_header("content-length", str(len(body)))
        for name, value in (headers or {}).items():
            self.send_header(name.replace("_", "-"), value)
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002  (the base class's name)
        pass


@dataclass
class Receiver:
    """`answers` are given in order, the last one repeatedly; an answer is a status or a function."""

    answers: list[Answer] = field(default_factory=lambda: [200])
    got: list[Got] = field(default_factory=list)

    def __enter__(self) -> Receiver:
        handler = type("BoundHandler", (Handler,), {"receiver": self})
        self.closing = threading.Event()
        self._lock = threading.Lock()
        self._server = ThreadingHTTPServer((LOOPBACK, 0), handler)
        self._server.daemon_threads = True
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.02})
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.closing.set()
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    @property
    def port(self) -> int:
        return int(self._server.server_address[1])

    @property
    def url(self) -> str:
        return f"http://{LOOPBACK}:{self.port}/hooks/s3cret-path"

    def heard(self, got: Got) -> Answer:
        with self._lock:
            self.got.append(got)
            return self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]


def hang(handler: Handler) -> None:
    """Send no answer until the test ends."""
    handler.receiver.closing.wait(30)


def drip(handler: Handler) -> None:
    """Send the status line byte by byte, with pauses, so that no single read takes long."""
    for byte in b"HTTP/1.1 200 OK\r\n" + b"x: y\r\n" * 1000:
        if handler.receiver.closing.wait(0.05):
            return
        try:
            handler.wfile.write(bytes([byte]))
        except OSError:
            return


def endless(handler: Handler) -> None:
    """A status 200 and a body without an end."""
    handler.send_response(200)
    handler.end_headers()
    while not handler.receiver.closing.is_set():
        try:
            handler.wfile.write(b"x" * 65536)
        except OSError:
            return


def slow_body(handler: Handler) -> None:
    """A status 200, the beginning of a body, and then nothing."""
    handler.send_response(200)
    handler.send_header("content-length", "100")
    handler.end_headers()
    handler.wfile.write(b"so far")
    handler.receiver.closing.wait(30)


def close(handler: Handler) -> None:
    """Close the connection without an answer."""
    handler.close_connection = True


def with_headers(status: int, **headers: str) -> Callable[[Handler], None]:
    return lambda handler: handler.reply(status, headers=headers)
