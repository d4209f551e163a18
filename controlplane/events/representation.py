"""What events are made of: changes to entities as clients see them.

How an entity looks is said once, in the `representation` module of its app; the snapshot and every event use
it.

A change is ``{"entity": kind, "key": key, "fields": {...} | None}``. Fields are
merged by the client, so an event may carry a subset of what the snapshot has,
but never another name or another value. Times are ISO 8601 in UTC.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Literal, TypedDict

if TYPE_CHECKING:
    from controlplane.events.models import Event, Operation

EntityKind = Literal[
    "topology",
    "partition",
    "query",
    "node",
    "incident",
    "entry",
    "plan",
    "checkpoint",
    "problem",
    "operation",
    "sample",
    "alert",
    "rule",
    "silence",
]
Fields = dict[str, Any]

EVENT_FIELDS = ("sequence", "at", "kind", "topology", "node", "incident", "actor", "reason", "changes")
"""What is told of an event: over websockets, to webhooks and by REST."""

OPERATION_FIELDS = (
    *("id", "kind", "target", "state", "requested_by", "reason", "result", "error"),
    *("created_at", "ended_at"),
)
"""What is shown of an operation: by the snapshot, by events and by REST."""


class Change(TypedDict):
    entity: EntityKind
    key: str
    fields: Fields | None


def iso(moment: datetime | None) -> str | None:
    """``2026-01-31T12:00:00.123Z``: fixed width, so that text order is time order."""
    if moment is None:
        return None
    if moment.tzinfo is not UTC:  # rows have it from the database
        moment = moment.astimezone(UTC)
    return f"{moment.isoformat(timespec='milliseconds')[:-6]}Z"


def change(entity: EntityKind, key: str | int, fields: Fields, only: Iterable[str] | None = None) -> Change:
    """An upsert of `fields`, or of those named by `only`."""
    chosen = fields if only is None else {name: fields[name] for name in only}
    return {"entity": entity, "key": str(key), "fields": chosen}


def shown(row: Any, names: Iterable[str], **worked_out: Any) -> Fields:
    """The fields `names` of a row (a model or a tuple), times as text; those `worked_out` are not read."""
    for name in names:
        if name not in worked_out:
            value = getattr(row, name)
            worked_out[name] = iso(value) if isinstance(value, datetime) else value
    return worked_out


def removal(entity: EntityKind, key: str | int) -> Change:
    return {"entity": entity, "key": str(key), "fields": None}


def event_fields(event: Event) -> Fields:
    """A numbered event as it is sent: over websockets, to webhooks, and (apart from texts) over REST."""
    return shown(event, EVENT_FIELDS, topology=event.topology or None, node=event.node or None)


def operation_change(operation: Operation) -> Change:
    key = str(operation.pk)
    return change("operation", key, shown(operation, OPERATION_FIELDS, id=key))


def rounded(value: float | None, digits: int = 4) -> float | None:
    return None if value is None else round(value, digits)
