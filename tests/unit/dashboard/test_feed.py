"""The feed that listeners share stays complete when listeners come and go at any moment."""

from __future__ import annotations

import asyncio
import random
from collections import deque

import pytest

from dashboard import feed
from dashboard.feed import EventFeed, FeedEvent


class Table:
    """The events table; a read takes a few turns of the event loop."""

    def __init__(self, turns: int = 2) -> None:
        self.last, self.turns = 0, turns

    async def events_read(self, after: int, limit: int = feed.BATCH) -> list[FeedEvent]:
        rows = range(after + 1, min(self.last, after + limit) + 1)
        for _ in range(self.turns):
            await asyncio.sleep(0)
        return [FeedEvent(number, "t", str(number)) for number in rows]

    async def newest_sequence(self) -> int:
        await asyncio.sleep(0)
        return self.last


@pytest.fixture
def table(monkeypatch: pytest.MonkeyPatch) -> Table:
    made = Table()
    monkeypatch.setattr(feed, "events_read", made.events_read)
    monkeypatch.setattr(feed, "newest_sequence", made.newest_sequence)
    monkeypatch.setattr(feed, "get_channel_layer", lambda: None)
    return made


async def turns(count: int) -> None:
    for _ in range(count):
        await asyncio.sleep(0)


def whole(events: EventFeed) -> None:
    numbers = [event.sequence for event in events._recent]
    assert numbers == list(range(events.newest - len(numbers) + 1, events.newest + 1))


@pytest.mark.parametrize("moment", range(8))
async def test_the_last_listener_leaves_in_the_moment_of_a_hint(table: Table, moment: int) -> None:
    events = EventFeed()
    await events.open()
    await turns(10)
    (follower,) = (task for task in events._tasks if not task.done())
    events._hinted.set()
    await turns(moment)
    async with asyncio.timeout(5):
        await events.close()
    assert follower.done()


async def test_readers_at_the_same_time_keep_events_once(table: Table) -> None:
    events = EventFeed()
    table.last = 3 * feed.BATCH
    await asyncio.gather(events._advance(), events._advance())
    whole(events)
    assert events.newest == table.last


async def test_numbers_start_again_where_a_backup_was_put_back(
    table: Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(feed, "COUNTED_EACH", 0.0)
    events = EventFeed()
    table.last = 50
    await events._advance()
    behind, ahead = (asyncio.create_task(events.wait(after)) for after in (50, 70))
    await turns(5)
    table.last = 3
    await events._advance()
    async with asyncio.timeout(5):
        await asyncio.gather(behind, ahead)
    assert (events.newest, events._recent) == (3, deque())
    table.last = 5
    await events._advance()
    assert [event.sequence for event in await events.read(3)] == [4, 5]


async def test_what_one_client_asks_for_does_not_fill_the_memory(table: Table) -> None:
    events = EventFeed()
    table.last = 5
    await events._advance()
    for number in range(3 * feed.MOST_BATCHES):
        batch = await events.batch(0, frozenset({"t", f"made-up-{number}"}))
        assert batch is not None
        assert batch.text == "1,2,3,4,5"
    assert len(events._batches) <= feed.MOST_BATCHES


@pytest.mark.parametrize("seed", range(20))
async def test_listeners_come_and_go_while_things_happen(table: Table, seed: int) -> None:
    chance = random.Random(seed)
    events = EventFeed()
    there = 0
    async with asyncio.timeout(60):
        for _ in range(200):
            table.last += chance.choice((0, 0, 1, 3))
            table.turns = chance.randint(0, 4)
            events._hinted.set()
            if there and chance.random() < 0.5:
                there -= 1
                leaving = asyncio.create_task(events.close())
                await turns(chance.randint(0, 3))
                if chance.random() < 0.5:
                    there += 1
                    await events.open()
                await leaving
            elif there < 2:
                there += 1
                await events.open()
            await turns(chance.randint(0, 6))
            whole(events)
        there += 1
        await events.open()
        table.last += 1
        events._hinted.set()
        while events.newest < table.last:
            await asyncio.sleep(0.01)
        whole(events)
        assert [event.sequence for event in await events.read(events.newest - 1)] == [table.last]
        for _ in range(there):
            await events.close()
