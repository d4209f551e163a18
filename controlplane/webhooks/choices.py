"""States of deliveries, and the kinds of events that a webhook can get."""

from __future__ import annotations

from controlplane.choices import Choices
from controlplane.events.choices import EVENT_TRIMMED, EventKind


class DeliveryState(Choices):
    PENDING = "pending", "Pending"
    SUCCEEDED = "succeeded", "Succeeded"
    GIVEN_UP = "given_up", "Given up"


TEST_KIND = "webhook.test"
"""Kind of a delivery that a user requested to test the webhook; it belongs to no event."""

KIND_CHOICES = [(str(kind), kind.label) for kind in EventKind if kind not in EVENT_TRIMMED]
"""Metrics come every second and are soon dropped, so no webhook gets them; `/metrics` is for those."""

KINDS = frozenset(value for value, _ in KIND_CHOICES)
