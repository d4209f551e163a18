"""Publishing numbered events (write side)."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import wraps
from itertools import islice
from typing import ParamSpec, TypeVar

import structlog
from asgiref.sync import async_to_sync
from channels.layers import get_channel_layer
from django.db import connection, transaction
from django.db.models import F, Max
from django.utils import timezone

from controlplane.events.choices import EventKind
from controlplane.events.circuit import LIMIT, redis_circuit
from controlplane.events.models import Event, EventCounter
from controlplane.events.representation import Change

log = structlog.get_logger(__name__)

HINT_GROUP = "events"
HINT_TYPE = "event.hint"
COUNTER = 1

P = ParamSpec("P")
R = TypeVar("R")
Subscriber = Callable[[Sequence[Event]], object]
Completer = Callable[[Sequence[Change]], Sequence[Change]]
_subscribers: list[Subscriber] = []
_completers: list[Completer] = []


@dataclass(frozen=True, slots=True, kw_only=True)
class Happening:
    """What an event is to tell."""

    kind: EventKind | str
    changes: Sequence[Change]
    topology: str | None = None
    node: str | None = None
    incident: int | None = None
    actor: str = "system"
    reason: str = ""


def events_subscribe(subscriber: Subscriber) -> None:
    """Have `subscriber` called with all events, in the transaction that publishes them. Apps that stand above
    this one register here when Django starts (`AppConfig.ready`)."""
    _subscribers.append(subscriber)


def events_complete(completer: Completer) -> None:
    """Have `completer` called with the changes of events before they are recorded, in their transaction. The
    events get what it returns: for each change one in its place, and after these what else has changed with
    them. For what follows from several entities together, such as their health."""
    _completers.append(completer)


def event_publish(
    *,
    kind: EventKind | str,
    changes: Sequence[Change],
    topology: str | None = None,
    node: str | None = None,
    incident: int | None = None,
    actor: str = "system",
    reason: str = "",
) -> Event:
    """As `events_publish`, for one."""
    happening = Happening(
        kind=kind,
        changes=changes,
        topology=topology,
        node=node,
        incident=incident,
        actor=actor,
        reason=reason,
    )
    return events_publish([happening])[0]


def events_publish(happenings: Sequence[Happening]) -> list[Event]:
    """Record one event for each, with the next sequence numbers, inside the caller's transaction; as many
    statements as for one. What has changed besides is told with the last one.

    The counter row stays locked until that transaction ends, so numbers are
    committed in order and without gaps. Subscribers (webhooks) write what they
    owe in the same transaction. After the commit a hint with the highest number
    goes to the channel layer; consumers read the events themselves from the database.
    Raises `TransactionManagementError` outside a transaction.
    """
    if not happenings:
        return []
    if not connection.in_atomic_block:
        raise transaction.TransactionManagementError(
            f"event {happenings[0].kind} published outside a transaction: "
            "wrap the change and its event in one"
        )
    last = _sequences_take(len(happenings))
    changes = [change for one in happenings for change in one.changes]
    for completer in _completers:
        changes = [*completer(changes)]
    events: list[Event] = []
    at, left = timezone.now(), iter(changes)
    for sequence, one in enumerate(happenings, last - len(happenings) + 1):
        own = [*left] if sequence == last else [*islice(left, len(one.changes))]
        events.append(
            Event(
                sequence=sequence,
                at=at,
                kind=str(one.kind),
                topology=one.topology or "",
                node=one.node or "",
                incident=one.incident,
                actor=one.actor,
                reason=one.reason,
                changes=own,
            )
        )
    Event.objects.bulk_create(events)
    for subscriber in _subscribers:
        subscriber(events)
    transaction.on_commit(lambda: hint_send(last), robust=True)
    return events


def numbering_lock() -> None:
    """Keep other transactions from publishing events until the current one ends."""
    rows = EventCounter.objects.select_for_update().filter(pk=COUNTER)
    if rows.first() is None:
        _counter_create()
        rows.first()


def numbering_try() -> None:
    """Write what is there already; raises an error of the database where it takes no writes now."""
    with transaction.atomic():
        EventCounter.objects.filter(pk=COUNTER).update(value=F("value"))


def writing(service: Callable[P, R]) -> Callable[P, R]:
    """Have a service run as one transaction, while no other one writes.

    Every service that publishes events is made so. They would wait for each other at their events anyway.
    Locked only there, after what they have read and changed, two of them came to wait for each other, or both
    opened an incident. SQLite runs transactions that write one after another by itself.
    """

    @wraps(service)
    def run(*args: P.args, **kwargs: P.kwargs) -> R:
        with transaction.atomic():
            if connection.features.has_select_for_update:
                numbering_lock()
            return service(*args, **kwargs)

    return run


def _sequences_take(count: int) -> int:
    """The last of the next `count` sequence numbers."""
    advanced = EventCounter.objects.filter(pk=COUNTER).update(value=F("value") + count)
    if not advanced:
        # A database whose rows were flushed: start after whatever events there are.
        _counter_create()
        EventCounter.objects.filter(pk=COUNTER).update(value=F("value") + count)
    return int(EventCounter.objects.values_list("value", flat=True).get(pk=COUNTER))


def _counter_create() -> None:
    last = Event.objects.aggregate(last=Max("sequence"))["last"] or 0
    EventCounter.objects.get_or_create(pk=COUNTER, defaults={"value": last})


def hint_send(sequence: int) -> None:
    """Tell consumers that events up to `sequence` exist. Losing a hint only costs time."""
    layer = get_channel_layer()
    if layer is None:
        return

    async def send() -> None:
        async with asyncio.timeout(LIMIT):
            await layer.group_send(HINT_GROUP, {"type": HINT_TYPE, "sequence": sequence})

    try:
        redis_circuit.attempt(async_to_sync(send))
    except Exception as error:  # Redis away: consumers poll as well
        log.warning("event hint not sent", sequence=sequence, error=repr(error))


def trimmed_note(sequence: int) -> None:
    """Retention removes events up to this one, in the current transaction: a client that has seen less loads
    a snapshot."""
    EventCounter.objects.filter(pk=COUNTER, trimmed__lt=sequence).update(trimmed=sequence)
