"""The websocket `/ws/v1/`: numbered events for browsers and other live clients.

Client: ``{"type": "subscribe", "after": <sequence>, "topologies": [names] | null}``.
Server: ``events`` (the events in the range after..sequence, those of other
topologies left out), ``resync`` (load a snapshot and subscribe again), ``ping``
every 5 s, ``error`` (what was wrong with the client's message).
"""

from __future__ import annotations

import asyncio
import contextlib
import random
import time
from typing import Annotated, Any, Literal

import msgspec
import structlog
from channels.db import database_sync_to_async
from channels.generic.websocket import AsyncWebsocketConsumer

from controlplane.accounts.roles import VIEWER, has_role
from dashboard.feed import EventFeed, TrimmedError, feed_of_loop, newest_sequence
from dashboard.socket_access import user_now

log = structlog.get_logger(__name__)

PING = 5.0
SESSION_CHECK = 30.0
LONGEST_MESSAGE = 64_000
MOST_TOPOLOGIES = 1_000
MOST_BEHIND = 300
"""Further behind, a snapshot is smaller than the events, unless these are in memory: with hundreds of
topologies so many come while a page loads its snapshot, and it would load one after the other."""
UNAUTHENTICATED = 4401
FORBIDDEN = 4403


class Subscribe(msgspec.Struct, tag_field="type", tag="subscribe", forbid_unknown_fields=True):
    """`after` is the sequence number of the client's snapshot; `topologies` None means all."""

    after: Annotated[int, msgspec.Meta(ge=0, le=2**62)]
    topologies: Annotated[list[str], msgspec.Meta(max_length=MOST_TOPOLOGIES)] | None = None


_decoder = msgspec.json.Decoder(Subscribe)


class EventConsumer(AsyncWebsocketConsumer):
    """One connection. Two tasks after accepting: `_ping` always, `_send_events` once subscribed."""

    # No layer of this name is configured, so the connection has none: only the feed listens to Redis, and an
    # outage of Redis neither refuses nor ends connections.
    channel_layer_alias = "none"
    feed: EventFeed | None = None
    after: int = 0
    topologies: frozenset[str] | None = None

    async def connect(self) -> None:
        self._tasks: dict[Literal["ping", "events"], asyncio.Task[None]] = {}
        user = self.scope.get("user")
        # Accepted before it is refused: only then does a browser learn the code.
        await self.accept()
        if user is None or not user.is_authenticated:
            await self.close(code=UNAUTHENTICATED)
            return
        if not await database_sync_to_async(has_role)(user, VIEWER):
            await self.close(code=FORBIDDEN)
            return
        self.feed = feed_of_loop()
        await self.feed.open()
        self._tasks["ping"] = asyncio.create_task(self._ping())

    async def disconnect(self, code: int) -> None:
        for task in self._tasks.values():
            task.cancel()
        await asyncio.gather(*self._tasks.values(), return_exceptions=True)
        if self.feed is not None:
            feed, self.feed = self.feed, None
            await feed.close()

    async def receive(self, text_data: str | None = None, bytes_data: bytes | None = None) -> None:
        if self.feed is None:
            return
        if text_data is None:
            await self._error("send text, not binary data")
            return
        if len(text_data) > LONGEST_MESSAGE:
            await self._error(f"the message is longer than {LONGEST_MESSAGE} characters")
            return
        try:
            message = _decoder.decode(text_data)
        except (msgspec.DecodeError, RecursionError, UnicodeEncodeError) as error:
            await self._error(f"not a message this server knows: {error}")
            return
        await self._subscribe(message)

    async def _subscribe(self, message: Subscribe) -> None:
        previous = self._tasks.pop("events", None)
        if previous is not None:
            previous.cancel()
            await asyncio.gather(previous, return_exceptions=True)
        self.after = message.after
        self.topologies = None if message.topologies is None else frozenset(message.topologies)
        self._tasks["events"] = asyncio.create_task(self._send_events())

    async def _send_events(self) -> None:
        feed = self.feed
        assert feed is not None  # noqa: S101 - set in connect, and only then are messages read
        restarts = feed.restarts
        while True:
            try:
                if feed.newest - self.after > MOST_BEHIND and not feed.remembers(self.after):
                    raise TrimmedError("too far behind")
                if feed.restarts != restarts:
                    raise TrimmedError("numbers have started again")
                if self.after > feed.newest and self.after > await newest_sequence():
                    # Numbers started again: the database is not the one the client knows.
                    raise TrimmedError("beyond the newest event")
                batch = await feed.batch(self.after, self.topologies)
            except TrimmedError:
                await self._send({"type": "resync", "at": time.time()})
                return
            except Exception as error:  # the database is away: the socket stays, and tries again
                log.warning("events not read", error=f"{type(error).__name__}: {error}")
                await asyncio.sleep(1.0)
                continue
            if batch is None:
                await feed.wait(self.after)
                continue
            covers = f'"after":{self.after},"sequence":{batch.sequence}'
            head = f'{{"type":"events","at":{time.time():.3f},{covers},"events":['
            await self._send_text(f"{head}{batch.text}]}}")
            self.after = batch.sequence

    async def _ping(self) -> None:
        # Clients that connected together after a restart must not be pinged and checked together for ever.
        checked = time.monotonic() - SESSION_CHECK * random.random()  # noqa: S311 - spreads load
        await asyncio.sleep(PING * random.random())  # noqa: S311
        while True:
            await self._send({"type": "ping", "at": time.time()})
            if time.monotonic() - checked >= SESSION_CHECK:
                checked = time.monotonic()
                if not await self._session_holds():
                    await self.close(code=UNAUTHENTICATED)
                    return
            await asyncio.sleep(PING)

    async def _session_holds(self) -> bool:
        """Whether the session or token that opened this socket is still valid and its user has a role."""
        try:
            user = await user_now(self.scope)
            return user is None or bool(await database_sync_to_async(has_role)(user, VIEWER))
        except Exception as error:  # unknown: a restarting database must not sign users out
            log.warning("session not checked", error=f"{type(error).__name__}: {error}")
            return True

    async def _error(self, what: str) -> None:
        await self._send({"type": "error", "error": what, "at": time.time()})

    async def _send(self, message: dict[str, Any]) -> None:
        await self._send_text(msgspec.json.encode(message).decode())

    async def _send_text(self, text: str) -> None:
        # If the peer has gone, the server notices and calls disconnect.
        with contextlib.suppress(RuntimeError, ConnectionError):
            await self.send(text_data=text)
