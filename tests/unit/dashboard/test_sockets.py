"""Which identities may listen on the websocket, from which origins, and for how long; and that no message
breaks it."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from asgiref.sync import sync_to_async
from asgiref.testing import ApplicationCommunicator
from django.contrib.auth.models import User
from django.db import transaction
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosedError
from websockets.frames import Close, CloseCode

from controlplane.events.services import event_publish
from dashboard import consumers
from dashboard.asgi import application
from supervision.programs import LONGEST_MESSAGE
from tests.unit.controlplane.identities import RANK, Identity, identity

pytestmark = pytest.mark.django_db(transaction=True)
HERE, ELSEWHERE = b"http://127.0.0.1:8000", b"https://evil.example"
UNAUTHENTICATED, FORBIDDEN = 4401, 4403
Headers = list[tuple[bytes, bytes]]


@asynccontextmanager
async def socket(
    headers: Headers, path: str = "/ws/v1/", host: bytes = b"127.0.0.1:8000", scheme: str = "ws"
) -> AsyncIterator[Any]:
    """A handshake with the whole application, as a server would make it."""
    scope = {"type": "websocket", "path": path, "query_string": b"", "scheme": scheme}
    make: Any = ApplicationCommunicator  # asgiref's test tools have no types
    communicator = make(application, {**scope, "subprotocols": [], "headers": [(b"host", host), *headers]})
    await communicator.send_input({"type": "websocket.connect"})
    try:
        yield communicator
    finally:
        await communicator.send_input({"type": "websocket.disconnect", "code": 1001})
        await communicator.wait(3)


async def ask(communicator: Any, text: str) -> None:
    await communicator.send_input({"type": "websocket.receive", "text": text})


async def verdict(headers: Headers) -> str | int:
    """`listens` if an event arrives, else the code with which it is closed (0: before it was accepted)."""
    async with socket(headers) as communicator:
        accepted = await communicator.receive_output(3)
        if accepted["type"] == "websocket.close":
            return 0
        await ask(communicator, '{"type": "subscribe", "after": 0, "topologies": null}')
        while True:
            message = await communicator.receive_output(3)
            if message["type"] == "websocket.close":
                return int(message["code"])
            if json.loads(message["text"])["type"] == "events":
                return "listens"


def publish() -> None:
    with transaction.atomic():
        event_publish(kind="topology.updated", changes=[], topology="counts")


def session_of(who: Identity) -> Headers:
    cookies = "; ".join(f"{name}={morsel.value}" for name, morsel in who.page.cookies.items())
    return [(b"cookie", cookies.encode()), (b"origin", HERE)]


def token_of(who: Identity) -> Headers:
    return [(b"authorization", f"Bearer {who.token}".encode())]


@pytest.mark.parametrize("name", RANK)
async def test_each_identity_hears_what_its_role_permits(name: str) -> None:
    await sync_to_async(publish)()
    who = await sync_to_async(identity)(name)
    expected = "listens" if who.rank >= RANK["viewer"] else FORBIDDEN if who.rank else UNAUTHENTICATED
    assert await verdict(session_of(who)) == expected
    if name != "anonymous":
        assert await verdict(token_of(who)) == expected
    assert await verdict([(b"authorization", b"Bearer nonsense")]) == UNAUTHENTICATED


async def test_pages_of_other_origins_are_refused_before_anything_is_said() -> None:
    who = await sync_to_async(identity)("operator")
    cookie = session_of(who)[0]
    assert await verdict([cookie, (b"origin", ELSEWHERE)]) == 0
    assert await verdict([cookie]) == 0, "a browser always sends the origin of a page"
    assert await verdict([cookie, (b"origin", b"null")]) == 0
    assert await verdict([*token_of(who), (b"origin", ELSEWHERE)]) == 0
    await sync_to_async(publish)()
    assert await verdict([*token_of(who), (b"origin", HERE)]) == "listens"
    # With an invalid token, a valid session in the same request does not help.
    assert await verdict([*session_of(who), (b"authorization", b"Bearer x")]) == UNAUTHENTICATED


@pytest.mark.parametrize(
    ("scheme", "host", "origin", "same"),
    [
        ("ws", b"127.0.0.1:8000", b"http://127.0.0.1:8000", True),
        ("ws", b"127.0.0.1:8000", b"HTTP://127.0.0.1:8000", True),
        ("ws", b"127.0.0.1:8000", b"http://127.0.0.1:9000", False),
        ("ws", b"127.0.0.1:8000", b"http://127.0.0.1", False),
        ("ws", b"127.0.0.1:8000", b"https://127.0.0.1:8000", False),
        ("ws", b"127.0.0.1:8000", b"http://localhost:8000", False),
        ("wss", b"localhost", b"https://localhost", True),
        ("wss", b"localhost", b"https://localhost:443", True),
        ("wss", b"localhost:443", b"https://localhost", True),
        ("wss", b"localhost", b"https://localhost:8443", False),
        ("wss", b"localhost", b"http://localhost", False),
        ("ws", b"[::1]:8000", b"http://[::1]:8000", True),
        ("ws", b"evil.example", b"http://evil.example", False),
        ("ws", b"127.0.0.1:8000", b"http://127.0.0.1:8000/page", False),
        ("ws", b"127.0.0.1:8000", b"http://127.0.0.1:8000@evil.example", False),
        ("ws", b"127.0.0.1:8000", b"http://127.0.0.1:80000", False),
        ("ws", b"127.0.0.1:8000", b"chrome-extension://127.0.0.1:8000", False),
        ("ws", b"127.0.0.1:8000", "http://\xe9".encode("latin-1"), False),
    ],
)
async def test_an_origin_is_the_same_by_scheme_host_and_port(
    scheme: str, host: bytes, origin: bytes, same: bool
) -> None:
    who = await sync_to_async(identity)("viewer")
    for credentials in (session_of(who)[:1], token_of(who)):
        async with socket([*credentials, (b"origin", origin)], host=host, scheme=scheme) as communicator:
            answer = await communicator.receive_output(3)
            assert answer["type"] == ("websocket.accept" if same else "websocket.close")


async def test_two_origins_are_none() -> None:
    who = await sync_to_async(identity)("viewer")
    assert await verdict([*session_of(who), (b"origin", HERE)]) == 0


async def test_there_is_nothing_at_other_addresses() -> None:
    who = await sync_to_async(identity)("administrator")
    async with socket(session_of(who), "/ws/v2/") as communicator:
        assert (await communicator.receive_output(3))["type"] == "websocket.close"


@pytest.mark.parametrize("how", ["token", "session", "deactivated", "role"])
async def test_a_socket_ends_with_what_opened_it(how: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(consumers, "PING", 0.05)
    monkeypatch.setattr(consumers, "SESSION_CHECK", 0.1)
    who = await sync_to_async(identity)("viewer")
    async with socket(session_of(who) if how == "session" else token_of(who)) as communicator:
        assert (await communicator.receive_output(3))["type"] == "websocket.accept"

        def end() -> None:
            if how == "token":
                who.user.auth_token_set.all().delete()
            elif how == "session":
                who.page.logout()
            elif how == "role":
                who.user.groups.clear()
            else:
                User.objects.filter(pk=who.user.pk).update(is_active=False)

        await sync_to_async(end)()
        for _ in range(200):
            message = await communicator.receive_output(3)
            if message["type"] == "websocket.close":
                assert message["code"] == UNAUTHENTICATED
                return
        raise AssertionError("still open")


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=8,
)
NEARLY = st.fixed_dictionaries(
    {"type": st.sampled_from(["subscribe", "events", "", "Subscribe"]) | JSON},
    optional={
        "after": st.integers() | JSON,
        "topologies": st.none() | st.lists(st.text(max_size=8), max_size=4) | JSON,
        "extra": JSON,
    },
)
MESSAGES = st.one_of(
    NEARLY.map(json.dumps),
    JSON.map(json.dumps),
    st.text(max_size=60),
    st.binary(max_size=60),
    st.integers(1, 70_000).map(lambda depth: "[" * depth),
)


async def test_no_message_breaks_a_consumer() -> None:
    """One socket gets all random messages; after each batch it still answers and still receives events."""
    who = await sync_to_async(identity)("viewer")
    await sync_to_async(publish)()
    batches: list[list[str | bytes]] = []

    @settings(
        max_examples=60,
        deadline=None,
        database=None,
        derandomize=True,
        suppress_health_check=list(HealthCheck),
    )
    @given(st.lists(MESSAGES, min_size=1, max_size=6))
    def collect(batch: list[str | bytes]) -> None:
        batches.append(batch)

    collect()
    async with socket(token_of(who)) as communicator:
        assert (await communicator.receive_output(3))["type"] == "websocket.accept"
        for batch in batches:
            for message in batch:
                kind = "bytes" if isinstance(message, bytes) else "text"
                await communicator.send_input({"type": "websocket.receive", kind: message})
            await ask(communicator, '{"type": "nonsense"}')
            await until(communicator, "error", "nonsense")
            await ask(communicator, '{"type": "subscribe", "after": 0}')
            await until(communicator, "events", "")


async def test_the_web_server_ends_a_socket_with_a_message_that_is_too_long(port: int) -> None:
    who = await sync_to_async(identity)("viewer")
    identified = {"Authorization": f"Bearer {who.token}"}
    address = f"ws://127.0.0.1:{port}/ws/v1/"
    async with connect(address, additional_headers=identified, compression=None) as client:
        await client.send(" " * LONGEST_MESSAGE)
        assert "longer than" in await said_by(client, "error")
        await client.send('{"type": "nonsense"}')
        assert "nonsense" in await said_by(client, "error")
    # The second one is too long only as the sum of its parts.
    for message in (" " * (LONGEST_MESSAGE + 1), [" " * 40_000] * 2):
        async with connect(address, additional_headers=identified, compression=None) as client:
            closed = await closed_after(client, message)
            # The code is lost if the server closes the connection before it has read all of the message.
            assert closed is None or closed.code == CloseCode.MESSAGE_TOO_BIG


async def closed_after(client: ClientConnection, message: str | list[str]) -> Close | None:
    """What the server says when it ends the connection, which it does without an answer to the message."""

    async def send() -> str:
        await client.send(message)
        return await said_by(client, "error")

    with pytest.raises(ConnectionClosedError) as ended:
        await send()
    return ended.value.rcvd


async def said_by(client: ClientConnection, kind: str) -> str:
    """The text of the next message of this kind."""
    async for message in client:
        told = json.loads(message)
        if told["type"] == kind:
            return str(told["error"])
    raise AssertionError("closed in order")


async def until(communicator: Any, kind: str, said: str) -> None:
    """Wait for a message of this kind with this text; the socket must not be closed meanwhile."""
    while True:
        message = await communicator.receive_output(5)
        assert message["type"] == "websocket.send", message
        told = json.loads(message["text"])
        assert told["type"] in {"events", "resync", "ping", "error"}
        if told["type"] == kind and said in str(told.get("error", "")):
            return
