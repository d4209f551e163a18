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
]
Fields = dict[str, Any]


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
    return {
        name: worked_out[name] if name in worked_out else _plain(getattr(row, name)) for name in names
    } | worked_out


def _plain(value: Any) -> Any:
    return iso(value) if isinstance(value, datetime) else value


def removal(entity: EntityKind, key: str | int) -> Change:
    return {"entity": entity, "key": str(key), "fields": None}


def event_fields(event: Event) -> Fields:
    """A numbered event as it is sent: over websockets, to webhooks, and (apart from texts) over REST."""
    return {
        "sequence": event.sequence,
        "at": iso(event.at),
        "kind": event.kind,
        "topology": event.topology or None,
        "node": event.node or None,
        "incident": event.incident,
        "actor": event.actor,
        "reason": event.reason,
        "changes": event.changes,
    }


def operation_change(operation: Operation) -> Change:
    return change(
        "operation",
        str(operation.pk),
        {
            "id": str(operation.pk),
            "kind": operation.kind,
            "target": operation.target,
            "state": operation.state,
            "requested_by": operation.requested_by,
            "reason": operation.reason,
            "created_at": iso(operation.created_at),
            "ended_at": iso(operation.ended_at),
            "result": operation.result,
            "error": operation.error,
        },
    )


def rounded(value: float | None, digits: int = 4) -> float | None:
    return None if value is None else round(value, digits)
