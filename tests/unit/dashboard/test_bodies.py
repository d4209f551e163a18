"""How much of a request's body the whole application takes, and of whom. Counted is what it receives."""

from __future__ import annotations

import asyncio
import socket
from typing import Any

import pytest
from asgiref.sync import sync_to_async

from controlplane.api.parsers import LONGEST
from dashboard.asgi import application
from dashboard.bodies import LONGEST_ANONYMOUS
from tests.unit.controlplane.identities import RANK, UNKNOWN, Identity, identity

pytestmark = pytest.mark.django_db(transaction=True)
CHUNK = 65_536
Headers = list[tuple[bytes, bytes]]
LENGTH, CHUNKED = b"content-length", (b"transfer-encoding", b"chunked")


class Exchange:
    """One request as a server hands it over; the body of `size` bytes comes in chunks."""

    def __init__(self, path: str, headers: Headers, size: int, method: str = "POST") -> None:
        self.scope = {
            "type": "http",
            "http_version": "1.1",
            "method": method,
            "scheme": "http",
            "path": path,
            "raw_path": path.encode(),
            "query_string": b"",
            "root_path": "",
            "client": ("198.51.100.7", 1),
            "server": ("127.0.0.1", 8000),
            "headers": [(b"host", b"127.0.0.1:8000"), (b"content-type", b"application/json"), *headers],
        }
        self.size = size
        self.taken = 0
        self.status = 0
        self.headers: dict[bytes, bytes] = {}
        self.text = b""

    async def run(self) -> Exchange:
        await asyncio.wait_for(application(self.scope, self._receive, self._send), 20)
        return self

    async def _receive(self) -> dict[str, Any]:
        if self.taken >= self.size > 0 or (self.size == 0 and self.taken):
            await asyncio.Event().wait()
        part = min(CHUNK, self.size - self.taken)
        self.taken += part or 1
        return {"type": "http.request", "body": b" " * part, "more_body": self.taken < self.size}

    async def _send(self, message: dict[str, Any]) -> None:
        if message["type"] == "http.response.start":
            self.status, self.headers = message["status"], dict(message["headers"])
        else:
            self.text += message.get("body", b"")


def length(size: int) -> tuple[bytes, bytes]:
    return LENGTH, str(size).encode()


def credentials(who: Identity, how: str) -> Headers:
    if how == "token":
        return [(b"authorization", f"Bearer {who.token}".encode())] if who.token else []
    cookies = "; ".join(f"{name}={morsel.value}" for name, morsel in who.page.cookies.items())
    return [(b"cookie", cookies.encode())] if cookies else []


@pytest.mark.parametrize("name", UNKNOWN)
@pytest.mark.parametrize("how", ["token", "session"])
@pytest.mark.parametrize("framing", [length(10_000_000), CHUNKED])
async def test_the_body_of_a_stranger_is_not_read(name: str, how: str, framing: tuple[bytes, bytes]) -> None:
    who = await sync_to_async(identity)(name)
    if name in ("expired", "revoked") and how == "session":
        who.page.cookies.clear()  # of these two it is the token that has ended
    for path in ("/api/v1/topologies/", "/api/v1/nothing/", "/admin/accounts/user/add/", "/", "/metrics"):
        asked = await Exchange(path, [*credentials(who, how), framing], 10_000_000).run()
        assert asked.taken == 0, path
        assert asked.status in ({401} if path.startswith("/api/") else {302, 401, 403, 405}), path
        assert asked.headers[b"connection"] == b"close"


@pytest.mark.parametrize("framing", [length(LONGEST_ANONYMOUS + 1), CHUNKED])
async def test_the_sign_in_page_takes_a_short_form_only(db: None, framing: tuple[bytes, bytes]) -> None:
    asked = await Exchange("/login/", [framing], 10_000_000).run()
    assert (asked.status, asked.taken <= CHUNK) == (413, True)
    assert b"longer than" in asked.text
    short = await Exchange("/login/", [length(100)], 100).run()
    assert (short.status, short.taken) == (403, 100), "there is no CSRF token in it"


@pytest.mark.parametrize("name", [name for name in RANK if name not in UNKNOWN])
@pytest.mark.parametrize("how", ["token", "session"])
async def test_the_body_of_a_user_is_bounded(name: str, how: str) -> None:
    who = await sync_to_async(identity)(name)
    given = credentials(who, how)
    declared = await Exchange("/api/v1/topologies/", [*given, length(LONGEST + 1)], 10_000_000).run()
    assert (declared.status, declared.taken) == (413, 0)
    assert b'"errors"' in declared.text
    counted = await Exchange("/api/v1/topologies/", [*given, CHUNKED], 10_000_000).run()
    assert (counted.status, counted.taken <= LONGEST + CHUNK) == (413, True)
    within = await Exchange("/api/v1/topologies/", [*given, length(1_000_000)], 1_000_000).run()
    assert within.taken == 1_000_000
    assert within.status != 413


@pytest.mark.parametrize("size", [1, 100_000])
async def test_a_body_in_chunks_is_read_like_any_other(db: None, size: int) -> None:
    given = credentials(await sync_to_async(identity)("operator"), "token")
    whole = await Exchange("/api/v1/topologies/", [*given, length(size)], size).run()
    chunked = await Exchange("/api/v1/topologies/", [*given, CHUNKED], size).run()
    assert b"JSON parse error" in whole.text
    assert (chunked.text, chunked.taken) == (whole.text, size)


async def test_a_body_that_was_not_announced_is_refused(db: None) -> None:
    asked = await Exchange("/api/v1/topologies/", [], 10_000_000).run()
    assert (asked.status, asked.taken <= CHUNK) == (413, True)


@pytest.mark.parametrize("path", ["/healthz", "/login/"])
async def test_requests_without_a_body_go_on_as_they_are(db: None, path: str) -> None:
    asked = await Exchange(path, [], 0, method="GET").run()
    assert asked.status == 200
    assert b"connection" not in asked.headers


@pytest.mark.parametrize(
    "framing",
    [
        "Content-Length: 100000000000",
        "Transfer-Encoding: chunked",
        "Content-Length: 9\r\nExpect: 100-continue",
    ],
)
@pytest.mark.parametrize(("path", "status"), [("/api/v1/topologies/", 401), ("/admin/", 403)])
def test_the_web_server_answers_a_stranger_before_the_body(
    port: int, framing: str, path: str, status: int
) -> None:
    with socket.create_connection(("127.0.0.1", port), timeout=20) as client:
        head = f"POST {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: text/plain\r\n{framing}\r\n\r\n"
        client.sendall(head.encode())
        answer = b"".join(iter(lambda: client.recv(65_536), b""))
    said = answer.partition(b"\r\n\r\n")[0].lower()
    assert said.startswith(f"http/1.1 {status} ".encode())
    assert b"connection: close" in said


BEGIN = b"GET /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\n"
CHUNKS = b"POST /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\nTransfer-Encoding: chunked\r\n\r\n"


@pytest.mark.parametrize(
    "sent",
    [
        BEGIN + b"Cookie: name=value\r\n" * 4_000,
        BEGIN + b"Cookie: " + b"a" * 70_000,
        b"GET /healthz?" + b"a" * 70_000,
        CHUNKS + b"1\r\na\r\n" * 20_000,
        CHUNKS + b"0\r\n" + b"Trailer: value\r\n" * 5_000,
    ],
    ids=["headers", "header", "address", "lengths", "trailers"],
)
def test_what_comes_before_a_body_and_after_it_is_bounded(port: int, sent: bytes) -> None:
    with socket.create_connection(("127.0.0.1", port), timeout=20) as client:
        client.sendall(sent)
        assert client.recv(1_000).startswith(b"HTTP/1.1 431")


def test_a_usual_head_and_many_requests_of_a_connection_are_no_problem(port: int) -> None:
    head = BEGIN + b"Cookie: " + b"a" * 30_000 + b"\r\n\r\n"
    with socket.create_connection(("127.0.0.1", port), timeout=20) as client:
        for _ in range(5):
            client.sendall(head)
            assert client.recv(1_000).startswith(b"HTTP/1.1 200")
