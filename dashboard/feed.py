"""The numbered events, read once per process and shared by all its websockets.

One task follows the events table: woken by hints from the channel layer, and in any case once each `POLL`
seconds, so that a lost hint or an absent Redis delays an event by at most that. The newest events stay in
memory; a client further behind is served from the database. A hint carries no data.

A message for many clients is built once. With many clients the feed rests after each message, so that events
in quick succession go out together: the cost grows with the number of messages.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
import weakref
from collections import deque
from dataclasses import dataclass
from typing import Any

import msgspec
import structlog
from channels.db import database_sync_to_async
from channels.layers import get_channel_layer

from controlplane.events.models import Event, EventCounter
from controlplane.events.representation import event_fields
from controlplane.events.services import HINT_GROUP
from controlplane.tuple_rows import RAW, tuple_rows

log = structlog.get_logger(__name__)

POLL = 0.5
COUNTED_EACH = 10.0
"""Seconds without an event after which the counter is read."""
CACHED, CACHED_SIZE = 10_000, 16_000_000
"""Events kept in memory, and characters of them at most."""

AFTER_FAILURE = 1.0
"""Seconds until the database is asked again that did not answer."""

BATCH, BATCH_SIZE = 200, 500_000
"""Events read at a time, and characters after which a message is long enough."""

MOST_BATCHES = 50
"""Messages kept for clients that ask for the same. Clients choose the topologies, in any number of ways."""

REST, LONGEST_REST = 0.000_2, 0.2
"""Seconds of rest for each listener, and in all."""

COLUMNS = ("sequence", "at", "kind", "topology", "node", "incident", "actor", "reason")
LONGEST_BACK_OFF = 10.0


@dataclass(frozen=True, slots=True)
class FeedEvent:
    """An event as it is sent; `text` is its JSON, encoded once for all clients."""

    sequence: int
    topology: str
    text: str


@dataclass(frozen=True, slots=True)
class Batch:
    """The content of one message: the last event's number, and the JSON of the events for this client."""

    sequence: int
    text: str


class TrimmedError(LookupError):
    """The events asked for are no longer kept: the reader needs a snapshot."""


def _encode(event: Any) -> FeedEvent:
    return FeedEvent(event.sequence, event.topology, msgspec.json.encode(event_fields(event)).decode())


@database_sync_to_async
def events_read(after: int, limit: int = BATCH) -> list[FeedEvent]:
    """Up to `limit` events following `after`, without a hole; raises `TrimmedError` where one is."""
    rows = Event.objects.filter(sequence__gt=after).order_by("sequence")[:limit]
    # Changes go from the database to the clients unread.
    events = [_encode(event) for event in tuple_rows(rows, *COLUMNS, json={"changes": RAW})]
    for expected, event in enumerate(events, start=after + 1):
        if event.sequence != expected:
            raise TrimmedError(f"event {expected} is no longer kept")
    return events


@database_sync_to_async
def newest_sequence() -> int:
    value = EventCounter.objects.values_list("value", flat=True).first()
    return int(value or 0)


class EventFeed:
    """Follows the events table while there are listeners. One for each event loop: `feed_of_loop`."""

    def __init__(self) -> None:
        self._recent: deque[FeedEvent] = deque()
        self._recent_size = 0
        self._batches: dict[tuple[int, frozenset[str] | None], Batch] = {}
        self._newest = 0
        self.restarts = 0
        """How often numbers have started again: what a client has seen until then is worth nothing."""
        self._doubted = False
        self._counted_at = 0.0
        self._news = asyncio.Event()
        self._hinted = asyncio.Event()
        self._listeners = 0
        self._tasks: list[asyncio.Task[Any]] = []

    @property
    def newest(self) -> int:
        """The newest sequence number seen; no event after it has been read yet."""
        return self._newest

    def remembers(self, after: int) -> bool:
        """Whether all events after this one are in memory."""
        return bool(self._recent) and self._recent[0].sequence <= after + 1

    async def open(self) -> None:
        """One more listener; the first one starts the feed."""
        self._listeners += 1
        if self._listeners > 1:
            return
        self._forget()
        self._newest = 0
        with contextlib.suppress(Exception):  # an unavailable database is tried again each second
            self._newest = await newest_sequence()
        if not self._tasks and self._listeners:
            self._tasks = [asyncio.create_task(self._follow()), asyncio.create_task(self._hear())]

    async def close(self) -> None:
        """One listener less; the last one stops the feed."""
        self._listeners -= 1
        if self._listeners > 0:
            return
        tasks, self._tasks = self._tasks, []
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def wait(self, after: int) -> None:
        """Until there is an event after `after`, or numbers have started again."""
        restarts = self.restarts
        while self._newest <= after and self.restarts == restarts:
            await self._news.wait()

    async def read(self, after: int, limit: int = BATCH) -> list[FeedEvent]:
        """Events following `after`, from memory where possible; raises `TrimmedError`."""
        if after >= self._newest:
            return []
        if self.remembers(after):
            start = after + 1 - self._recent[0].sequence
            return [self._recent[i] for i in range(start, min(start + limit, len(self._recent)))]
        return await events_read(after, limit)

    async def batch(self, after: int, topologies: frozenset[str] | None) -> Batch | None:
        """The events after `after` of these topologies (None: all), up to a message's size; None if there are
        none yet. Raises `TrimmedError`."""
        known = self._batches.get((after, topologies))
        if known is not None:
            return known
        texts: list[str] = []
        size, last = 0, after
        for event in await self.read(after):
            last = event.sequence
            if topologies is None or not event.topology or event.topology in topologies:
                texts.append(event.text)
                size += len(event.text)
                if size > BATCH_SIZE:
                    break
        if last == after:
            return None
        if len(self._batches) >= MOST_BATCHES:
            self._batches.clear()
        batch = self._batches[after, topologies] = Batch(last, ",".join(texts))
        return batch

    async def _follow(self) -> None:
        while True:
            with contextlib.suppress(TimeoutError):
                # Not wait_for: cancelled in the moment of a hint, that of Python 3.11 would go on.
                async with asyncio.timeout(POLL):
                    await self._hinted.wait()
            self._hinted.clear()
            try:
                await self._advance()
            except Exception as error:  # the feed outlives any failure of the database
                log.warning("events not read", error=f"{type(error).__name__}: {error}")
                self._doubted = True
                await asyncio.sleep(AFTER_FAILURE)
            await asyncio.sleep(min(self._listeners * REST, LONGEST_REST))

    async def _advance(self) -> None:
        if self._doubted and await self._taken_back():
            await self._start_again()
        self._doubted = False
        while True:
            newest = self._newest
            try:
                events = await events_read(newest)
            except TrimmedError:
                # Retention has removed events that were not read yet: listeners find out when they read.
                self._forget()
                self._newest = await newest_sequence()
                self._announce()
                return
            if self._newest != newest:
                continue  # another task was faster; events are kept once and in order
            if events:
                self._keep(events)
                self._newest = events[-1].sequence
                self._announce()
            if len(events) < BATCH:
                break
        if not events and time.monotonic() - self._counted_at > COUNTED_EACH:
            await self._recount()

    async def _recount(self) -> None:
        """A backup of the database may have been put back meanwhile: then numbers have started again."""
        newest, self._counted_at = self._newest, time.monotonic()
        counted = await newest_sequence()
        if counted < newest == self._newest:
            await self._start_again()

    async def _taken_back(self) -> bool:
        """Whether the database, which was away, is without the newest event, or has another in its place: a
        standby that had not got it may have taken over."""
        if not self._recent:
            return False
        newest = self._recent[-1]
        try:
            return await events_read(newest.sequence - 1, 1) != [newest]
        except TrimmedError:
            return True

    async def _start_again(self) -> None:
        self._forget()
        self._newest = await newest_sequence()
        self.restarts += 1
        self._announce()

    def _keep(self, events: list[FeedEvent]) -> None:
        self._recent.extend(events)
        self._recent_size += sum(len(event.text) for event in events)
        while len(self._recent) > CACHED or (self._recent_size > CACHED_SIZE and len(self._recent) > 1):
            self._recent_size -= len(self._recent.popleft().text)

    def _forget(self) -> None:
        self._recent.clear()
        self._recent_size = 0

    def _announce(self) -> None:
        # Clients that keep up do not ask for these again.
        self._batches.clear()
        self._news.set()
        self._news = asyncio.Event()

    async def _hear(self) -> None:
        """Turns hints of the channel layer into wake-ups; comes back after each loss of the layer."""
        delay = 0.5
        while True:
            layer = get_channel_layer()
            if layer is None:
                return
            channel = None
            try:
                channel = await layer.new_channel()
                await layer.group_add(HINT_GROUP, channel)
                while True:
                    await layer.receive(channel)
                    delay = 0.5
                    self._hinted.set()
            except asyncio.CancelledError:
                if channel is not None:
                    with contextlib.suppress(Exception):
                        await layer.group_discard(HINT_GROUP, channel)
                raise
            except Exception as error:  # while Redis restarts, polling continues
                log.warning("no hints from the channel layer", error=f"{type(error).__name__}: {error}")
            await asyncio.sleep(delay)
            delay = min(delay * 2, LONGEST_BACK_OFF)


_feeds: weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, EventFeed] = weakref.WeakKeyDictionary()


def feed_of_loop() -> EventFeed:
    """The feed of the running event loop (a server process has one)."""
    loop = asyncio.get_running_loop()
    feed = _feeds.get(loop)
    if feed is None:
        feed = _feeds[loop] = EventFeed()
    return feed
