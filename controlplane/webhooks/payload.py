"""The body of a delivery: the same bytes for every attempt."""

from __future__ import annotations

from typing import Any

import msgspec

from controlplane.events.models import Event
from controlplane.events.representation import event_fields, iso
from controlplane.webhooks.choices import TEST_KIND
from controlplane.webhooks.models import Delivery

MOST_BYTES = 256 * 1024
"""A larger event (one about thousands of partitions) goes without its changes."""


class EventGoneError(LookupError):
    """The event is not in the database any more."""


def body_of(delivery: Delivery) -> bytes:
    """``{"type", "timestamp", "data"}`` as JSON; `data` is the event as ``GET events/`` has it.

    Raises `EventGoneError`.
    """
    if delivery.kind == TEST_KIND:
        return _encoded(
            TEST_KIND,
            iso(delivery.created_at),
            {"webhook": delivery.webhook.name, "requested_by": delivery.requested_by},
        )
    event = Event.objects.filter(sequence=delivery.sequence).first()
    if event is None:
        raise EventGoneError(f"event {delivery.sequence} is no longer kept")
    fields = event_fields(event)
    body = _encoded(event.kind, fields["at"], fields)
    if len(body) > MOST_BYTES:
        body = _encoded(event.kind, fields["at"], {**fields, "changes": None})
    return body


def _encoded(kind: str, at: str | None, data: dict[str, Any]) -> bytes:
    return msgspec.json.encode({"type": kind, "timestamp": at, "data": data})
