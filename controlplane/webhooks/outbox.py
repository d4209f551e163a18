"""Writing deliveries in the transaction of the event they are about.

So an event and its deliveries are committed together or not at all. Publishers do not wait for the sending.
"""

from __future__ import annotations

from collections.abc import Sequence

from controlplane.events.models import Event
from controlplane.events.tasks import WEBHOOK_SEND, task_send_on_commit
from controlplane.topologies.models import Topology
from controlplane.webhooks.choices import KINDS
from controlplane.webhooks.models import Delivery, Webhook


def deliveries_write(events: Sequence[Event]) -> list[Delivery]:
    """Create a delivery for each webhook that one of `events` concerns; few queries, however many there are.

    The caller holds the lock that numbers events. Changing a webhook takes it as well (`services`), so
    the webhooks read here cannot be disabled before the caller's commit.
    """
    events = [event for event in events if event.kind in KINDS]
    if not events:
        return []
    enabled = [*Webhook.objects.filter(enabled=True).only("pk", "kinds", "topologies").order_by("pk")]
    deliveries: list[Delivery] = []
    for event in events:
        candidates = [webhook for webhook in enabled if event.kind in webhook.kinds]
        concerned = _topologies(event) if any(webhook.topologies for webhook in candidates) else set()
        deliveries += [
            Delivery(
                webhook=webhook,
                kind=event.kind,
                sequence=event.sequence,
                topology=event.topology,
                due_at=event.at,
                created_at=event.at,
            )
            for webhook in candidates
            if not webhook.topologies or not concerned or concerned & set(webhook.topologies)
        ]
    if deliveries:
        Delivery.objects.bulk_create(deliveries)
    for webhook_id in dict.fromkeys(delivery.webhook_id for delivery in deliveries):
        task_send_on_commit(WEBHOOK_SEND, webhook_id)
    return deliveries


def _topologies(event: Event) -> set[str]:
    """Names of the topologies an event is about: its own, or those of its incident. None for nodes'."""
    if event.topology:
        return {event.topology}
    if event.incident is None:
        return set()
    return set(Topology.objects.filter(incidents__number=event.incident).values_list("name", flat=True))
