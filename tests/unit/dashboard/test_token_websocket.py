"""Websockets opened with a token instead of a session, as the command line does."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta
from typing import Any

import msgspec
import pytest
from asgiref.sync import sync_to_async
from asgiref.testing import ApplicationCommunicator
from django.contrib.auth.models import Group, User
from django.test import Client
from knox.models import AuthToken

from dashboard import consumers
from dashboard.asgi import application

pytestmark = pytest.mark.django_db(transaction=True)
HOST, ORIGIN = (b"host", b"127.0.0.1:8000"), (b"origin", b"http://127.0.0.1:8000")


@pytest.fixture
def viewer() -> User:
    user = User.objects.create_user("vera", password="a-long-one")
    user.groups.add(Group.objects.get_or_create(name="viewer")[0])
    return user


@asynccontextmanager
async def opened(*headers: tuple[bytes, bytes]) -> AsyncIterator[Any]:
    """A handshake with the whole application, as a server would make it."""
    scope = {"type": "websocket", "path": "/ws/v1/", "query_string": b"", "subprotocols": []}
    make: Any = ApplicationCommunicator  # asgiref's test tools have no types
    socket = make(application, {**scope, "headers": [HOST, *headers]})
    await socket.send_input({"type": "websocket.connect"})
    try:
        yield socket
    finally:
        await socket.send_input({"type": "websocket.disconnect", "code": 1001})
        await socket.wait(30)


async def close_code(socket: Any) -> int:
    """The code with which it is closed; other messages are skipped."""
    while True:
        message = await socket.receive_output(3)
        if message["type"] == "websocket.close":
            return int(message.get("code", 0))


def bearer(token: str) -> tuple[bytes, bytes]:
    return (b"authorization", f"Bearer {token}".encode())


async def test_a_token_of_a_viewer_may_listen(viewer: User) -> None:
    _, token = await sync_to_async(AuthToken.objects.create)(user=viewer)
    # No page can make a browser send a token, so a client with a token need not name its page.
    async with opened(bearer(token)) as socket:
        assert (await socket.receive_output(3))["type"] == "websocket.accept"
        await socket.send_input({"type": "websocket.receive", "text": '{"type": "nonsense"}'})
        answer = msgspec.json.decode((await socket.receive_output(3))["text"])
        assert answer["type"] == "error", "the consumer reads what it sends"


@pytest.mark.parametrize("given", ["0" * 64, "", "two words", "\xff"])
async def test_what_is_no_token_is_refused(given: str) -> None:
    async with opened(ORIGIN, (b"authorization", b"Bearer " + given.encode("latin-1"))) as socket:
        assert await close_code(socket) == 4401


async def test_an_expired_token_is_refused(viewer: User) -> None:
    _, token = await sync_to_async(AuthToken.objects.create)(user=viewer, expiry=timedelta(seconds=-1))
    async with opened(ORIGIN, bearer(token)) as socket:
        assert await close_code(socket) == 4401


async def test_a_token_without_a_role_is_refused() -> None:
    roleless = await sync_to_async(User.objects.create_user)("roleless")
    _, token = await sync_to_async(AuthToken.objects.create)(user=roleless)
    async with opened(ORIGIN, bearer(token)) as socket:
        assert await close_code(socket) == 4403


async def test_a_bad_token_does_not_fall_back_to_a_session(viewer: User) -> None:
    def session_cookie() -> bytes:
        client = Client()
        client.force_login(viewer)
        return f"sessionid={client.cookies['sessionid'].value}".encode()

    cookie = (b"cookie", await sync_to_async(session_cookie)())
    async with opened(ORIGIN, cookie) as socket:
        assert (await socket.receive_output(3))["type"] == "websocket.accept"
    async with opened(ORIGIN, cookie, bearer("0" * 64)) as socket:
        assert await close_code(socket) == 4401


async def test_a_token_does_not_excuse_a_strange_origin(viewer: User) -> None:
    _, token = await sync_to_async(AuthToken.objects.create)(user=viewer)
    async with opened((b"origin", b"http://elsewhere.example"), bearer(token)) as socket:
        assert (await socket.receive_output(3))["type"] == "websocket.close"


async def test_a_socket_ends_with_its_token(viewer: User, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(consumers, "PING", 0.05)
    monkeypatch.setattr(consumers, "SESSION_CHECK", 0.1)
    row, token = await sync_to_async(AuthToken.objects.create)(user=viewer)
    async with opened(ORIGIN, bearer(token)) as socket:
        assert (await socket.receive_output(3))["type"] == "websocket.accept"
        await asyncio.sleep(0.3)
        assert "ping" in (await socket.receive_output(3))["text"], "a valid one stays open"
        await sync_to_async(row.delete)()
        assert await close_code(socket) == 4401
