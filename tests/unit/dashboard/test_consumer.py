"""The websocket: access, the messages, invalid messages of clients, and failures of other servers."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import msgspec
import pytest
from asgiref.sync import sync_to_async
from asgiref.testing import ApplicationCommunicator
from channels.layers import get_channel_layer
from django.contrib.auth.models import AnonymousUser, User
from django.db import OperationalError, transaction
from django.utils.functional import LazyObject

from controlplane.events.circuit import Circuit
from controlplane.events.models import Event, EventCounter
from controlplane.events.services import HINT_GROUP, event_publish
from dashboard import consumers, feed
from dashboard.consumers import EventConsumer

pytestmark = pytest.mark.django_db(transaction=True)


PATIENCE = 30.0
"""Seconds after which something never comes: longer than a machine that is busy with other tests needs."""


class Socket:
    """A websocket client of the consumer alone; `scope` has the values that the middleware would add."""

    def __init__(self, **scope: Any) -> None:
        path: dict[str, Any] = {"type": "websocket", "path": "/ws/v1/", "headers": [], "subprotocols": []}
        make: Any = ApplicationCommunicator  # asgiref's test tools have no types
        self._application = make(EventConsumer.as_asgi(), path | scope)

    async def connect(self) -> None:
        await self._application.send_input({"type": "websocket.connect"})
        assert (await self.receive())["type"] == "websocket.accept"

    async def disconnect(self) -> None:
        await self._application.send_input({"type": "websocket.disconnect", "code": 1001})
        await self._application.wait(PATIENCE)

    async def send(self, *, text: str | None = None, data: bytes | None = None) -> None:
        message: dict[str, Any] = {"type": "websocket.receive"}
        await self._application.send_input(message | ({"bytes": data} if text is None else {"text": text}))

    async def receive(self) -> dict[str, Any]:
        message: dict[str, Any] = await self._application.receive_output(PATIENCE)
        return message


def publish(count: int = 1, topology: str | None = "hashtags", **fields: Any) -> int:
    """The sequence number of the last of `count` new events."""
    for number in range(count):
        with transaction.atomic():
            changes: Any = [{"entity": "topology", "key": topology or "-", "fields": {"n": number, **fields}}]
            event = event_publish(kind="topology.updated", changes=changes, topology=topology)
    return event.sequence


async def publish_soon(count: int = 1, **options: Any) -> int:
    return await sync_to_async(publish)(count, **options)


@asynccontextmanager
async def listening(user: Any = None, **scope: Any) -> AsyncIterator[Socket]:
    if user is None:
        user = await sync_to_async(User.objects.create_superuser)("watcher", password="x")
    socket = Socket(user=user, **scope)
    await socket.connect()
    try:
        yield socket
    finally:
        await socket.disconnect()


async def ask(socket: Socket, **message: Any) -> None:
    await socket.send(text=msgspec.json.encode(message).decode())


async def hear(socket: Socket, kind: str) -> dict[str, Any]:
    """The next message of this kind; pings are skipped."""
    while True:
        message: dict[str, Any] = msgspec.json.decode((await socket.receive())["text"])
        if message["type"] == kind:
            return message
        assert message["type"] == "ping", message


async def test_events_after_the_snapshot_arrive_in_order() -> None:
    before = await publish_soon(3)
    async with listening() as client:
        await ask(client, type="subscribe", after=before - 2, topologies=None)
        first = await hear(client, "events")
        assert (first["after"], first["sequence"]) == (before - 2, before)
        assert [event["sequence"] for event in first["events"]] == [before - 1, before]
        assert first["events"][0]["changes"][0]["entity"] == "topology"
        last = await publish_soon(5)
        got: list[int] = []
        while not got or got[-1] < last:
            message = await hear(client, "events")
            assert message["after"] == (got[-1] if got else before)
            got += [event["sequence"] for event in message["events"]]
        assert got == list(range(before + 1, last + 1))


async def test_an_event_is_seen_although_its_hint_was_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    async with listening() as client:
        await ask(client, type="subscribe", after=0)
        monkeypatch.setattr("controlplane.events.services.hint_send", lambda sequence: None)
        await publish_soon()
        assert (await hear(client, "events"))["sequence"] == 1


async def hints_heard() -> None:
    """Until the feed listens to the channel layer, which is the one in memory here."""
    layer: Any = get_channel_layer()
    while not layer.groups.get(HINT_GROUP):
        await asyncio.sleep(0.01)


async def test_a_hint_wakes_the_feed_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(feed, "POLL", 2 * PATIENCE)
    async with listening() as client:
        await ask(client, type="subscribe", after=0)
        await hints_heard()
        await publish_soon()
        assert (await hear(client, "events"))["sequence"] == 1


class BrokenLayer:
    """A channel layer without a reachable Redis."""

    async def new_channel(self) -> str:
        raise ConnectionError("Redis is gone")

    async def group_send(self, group: str, message: dict[str, Any]) -> None:
        raise ConnectionError("Redis is gone")


async def test_without_redis_events_still_arrive(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(feed, "get_channel_layer", BrokenLayer)
    monkeypatch.setattr("controlplane.events.services.get_channel_layer", BrokenLayer)
    # That of the process would send no hints of the tests that follow.
    monkeypatch.setattr("controlplane.events.services.redis_circuit", Circuit())
    async with listening() as client:
        await ask(client, type="subscribe", after=0)
        await publish_soon()
        assert (await hear(client, "events"))["sequence"] == 1


async def test_what_a_hint_says_is_not_trusted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(feed, "POLL", 2 * PATIENCE)
    async with listening() as client:
        await ask(client, type="subscribe", after=0)
        await hints_heard()
        layer = get_channel_layer()
        assert layer is not None
        await layer.group_send(HINT_GROUP, {"type": "event.hint", "sequence": "nonsense"})
        await publish_soon()
        assert (await hear(client, "events"))["sequence"] == 1


async def test_only_topologies_asked_for_but_every_number() -> None:
    async with listening() as client:
        await ask(client, type="subscribe", after=0, topologies=["wanted"])
        await publish_soon(2, topology="other")
        await publish_soon(1, topology="wanted")
        last = await publish_soon(1, topology=None)
        got: list[int] = []
        reached = 0
        while reached < last:
            message = await hear(client, "events")
            assert message["after"] == reached
            reached = message["sequence"]
            got += [event["sequence"] for event in message["events"]]
        assert got == [3, 4]


async def test_resync_when_events_were_trimmed() -> None:
    await publish_soon(6)
    await sync_to_async(Event.objects.filter(sequence__lte=3).delete)()
    async with listening() as client:
        await ask(client, type="subscribe", after=1)
        await hear(client, "resync")
        await ask(client, type="subscribe", after=3)
        assert (await hear(client, "events"))["after"] == 3


async def test_resync_when_a_snapshot_is_smaller_than_the_events(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(consumers, "MOST_BEHIND", 5)
    await publish_soon(10)
    async with listening() as client:
        await ask(client, type="subscribe", after=1)
        await hear(client, "resync")


async def test_a_client_gets_what_came_while_it_loaded_its_snapshot(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of hundreds of topologies more comes in these seconds than is read from the database for a client."""
    monkeypatch.setattr(consumers, "MOST_BEHIND", 5)
    loaded = reached = await publish_soon()
    async with listening() as client:
        await ask(client, type="subscribe", after=reached)
        for count in (1, 5, 5):
            newest = await publish_soon(count)
            while reached < newest:
                reached = (await hear(client, "events"))["sequence"]
        loaded += 1  # the server had begun to listen by then
        await ask(client, type="subscribe", after=loaded)
        message = await hear(client, "events")
        assert (message["after"], message["sequence"]) == (loaded, loaded + 10)


async def test_a_client_from_the_future_is_told_to_load_again() -> None:
    # The database was restored from a backup: numbers begin lower than what the page knows.
    await publish_soon(2)
    async with listening() as client:
        await ask(client, type="subscribe", after=900)
        await hear(client, "resync")


async def test_clients_load_again_where_a_failover_has_taken_events_back(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Others have the numbers by then; pages did not learn of those."""
    read, away = feed.events_read, False

    async def events_read(*arguments: Any) -> Any:
        if away:
            raise OperationalError("the connection is closed")
        return await read(*arguments)

    monkeypatch.setattr(feed, "events_read", events_read)
    monkeypatch.setattr(feed, "AFTER_FAILURE", 0.01)
    async with listening() as client:
        await ask(client, type="subscribe", after=0)
        heard = 0
        while not feed.feed_of_loop()._recent:
            last = await publish_soon(3)
            while heard < last:
                heard = (await hear(client, "events"))["sequence"]
        away = True
        await sync_to_async(Event.objects.filter(sequence__gt=1).delete)()
        await sync_to_async(EventCounter.objects.update)(value=1)
        await publish_soon(last + 3)
        while not feed.feed_of_loop()._doubted:
            await asyncio.sleep(0.01)
        away = False
        await hear(client, "resync")


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{",
        "null",
        "[]",
        '"subscribe"',
        '{"type": "subscribe"}',
        '{"type": "unknown", "after": 1}',
        '{"type": "subscribe", "after": -1}',
        '{"type": "subscribe", "after": 1.5}',
        '{"type": "subscribe", "after": "1"}',
        '{"type": "subscribe", "after": 1e400}',
        '{"type": "subscribe", "after": 99999999999999999999999999}',
        '{"type": "subscribe", "after": 9223372036854775808}',
        '{"type": "subscribe", "after": 1, "topologies": "all"}',
        '{"type": "subscribe", "after": 1, "topologies": [1]}',
        '{"type": "subscribe", "after": 1, "extra": true}',
        "[" * 50_000,
        "x" * 100_000,
    ],
)
async def test_a_bad_message_gets_an_error_and_the_socket_lives(text: str) -> None:
    async with listening() as client:
        await client.send(text=text)
        assert (await hear(client, "error"))["error"]
        await client.send(data=b"\xff\x00")
        assert "text" in (await hear(client, "error"))["error"]
        await ask(client, type="subscribe", after=0)
        await publish_soon()
        assert (await hear(client, "events"))["sequence"] == 1


async def test_too_many_topologies() -> None:
    async with listening() as client:
        await ask(client, type="subscribe", after=0, topologies=[f"t{i}" for i in range(1001)])
        assert "1000" in (await hear(client, "error"))["error"]


async def closed_with(user: Any) -> int:
    socket = Socket(user=user)
    await socket.connect()
    message = await socket.receive()
    assert message["type"] == "websocket.close"
    return int(message["code"])


async def test_who_may_listen() -> None:
    assert await closed_with(AnonymousUser()) == 4401
    roleless = await sync_to_async(User.objects.create_user)("roleless", password="x")
    assert await closed_with(roleless) == 4403


async def test_a_socket_ends_with_its_session(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(consumers, "PING", 0.05)
    monkeypatch.setattr(consumers, "SESSION_CHECK", 0.1)
    from django.contrib.sessions.backends.db import SessionStore

    user = await sync_to_async(User.objects.create_superuser)("leaving", password="x")

    def sign_in() -> SessionStore:
        session = SessionStore()
        session["_auth_user_id"] = str(user.pk)
        session["_auth_user_backend"] = "django.contrib.auth.backends.ModelBackend"
        session["_auth_user_hash"] = user.get_session_auth_hash()
        session.create()
        return session

    session = await sync_to_async(sign_in)()
    lazy = LazyObject()  # the middleware of Channels puts one into the scope
    lazy._wrapped = session
    async with listening(user, session=lazy) as client:
        for _ in range(8):
            await hear(client, "ping")
        await sync_to_async(session.delete)(session.session_key)
        async with asyncio.timeout(PATIENCE):
            while (message := await client.receive())["type"] != "websocket.close":
                assert msgspec.json.decode(message["text"])["type"] == "ping"
        assert message["code"] == 4401


async def test_two_clients_share_one_reading(monkeypatch: pytest.MonkeyPatch) -> None:
    reads: list[int] = []
    original: Callable[..., Any] = feed.events_read

    async def counted(after: int, limit: int = feed.BATCH) -> list[feed.FeedEvent]:
        events: list[feed.FeedEvent] = await original(after, limit)
        if events:
            reads.append(after)
        return events

    monkeypatch.setattr(feed, "events_read", counted)
    user = await sync_to_async(User.objects.create_superuser)("pair", password="x")
    async with listening(user) as one, listening(user) as two:
        for client in (one, two):
            await ask(client, type="subscribe", after=0)
        await publish_soon()
        for client in (one, two):
            assert (await hear(client, "events"))["sequence"] == 1
        assert reads == [0]


async def followed(client: Socket, last: int) -> list[list[int]]:
    """The sequence numbers of each message up to `last`; checks that no event is missing or repeated."""
    messages: list[list[int]] = []
    reached = 0
    while reached < last:
        message = await hear(client, "events")
        assert message["after"] == reached
        messages.append([event["sequence"] for event in message["events"]])
        assert messages[-1] == list(range(reached + 1, message["sequence"] + 1))
        reached = message["sequence"]
    return messages


async def test_a_message_does_not_get_too_long(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(feed, "BATCH_SIZE", 1_000)
    last = await publish_soon(6, text="x" * 600)
    async with listening() as client:
        await ask(client, type="subscribe", after=0)
        assert await followed(client, last) == [[1, 2], [3, 4], [5, 6]]


async def test_little_is_kept_in_memory_and_nothing_is_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(feed, "CACHED_SIZE", 2_000)
    async with listening() as client:
        await ask(client, type="subscribe", after=0)
        last = await publish_soon(8, text="x" * 600)
        await followed(client, last)
        assert len(feed.feed_of_loop()._recent) < 4
        await ask(client, type="subscribe", after=0)
        await followed(client, last)


async def test_many_clients_are_given_the_same_text() -> None:
    await publish_soon(2, topology="one")
    await publish_soon(2, topology="two")
    async with listening() as client:
        await ask(client, type="subscribe", after=0)
        await hear(client, "events")
        events = feed.feed_of_loop()
        all_of_it, one = await events.batch(0, None), await events.batch(0, frozenset({"one"}))
        assert all_of_it is await events.batch(0, None)
        assert one is await events.batch(0, frozenset({"one"}))
        assert all_of_it is not None
        assert one is not None
        assert (all_of_it.sequence, one.sequence) == (4, 4)
        assert (all_of_it.text.count('"sequence"'), one.text.count('"sequence"')) == (4, 2)
        assert await events.batch(4, None) is None


async def test_the_feed_starts_anew_after_the_last_client_left() -> None:
    user = await sync_to_async(User.objects.create_superuser)("again", password="x")
    async with listening(user):
        pass
    last = await publish_soon(2)
    async with listening(user) as client:
        await ask(client, type="subscribe", after=0)
        assert (await hear(client, "events"))["sequence"] == last
    assert await sync_to_async(EventCounter.objects.get)()
