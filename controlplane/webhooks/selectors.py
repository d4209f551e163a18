"""Reading webhooks and their deliveries (read side)."""

from __future__ import annotations

from datetime import datetime, timedelta
from uuid import UUID

from django.db.models import Case, Count, Exists, F, OuterRef, Q, QuerySet, Subquery, When
from django.db.models.functions import Coalesce

from controlplane.errors import Missing
from controlplane.webhooks.choices import DeliveryState
from controlplane.webhooks.keys import StoredSecret
from controlplane.webhooks.models import Delivery, Webhook
from controlplane.webhooks.schedule import LONGEST_WAIT

JUST_ASKED = ~Q(requested_by="") & Q(tries=0)
"""Of a pending delivery: a user has asked for it and waits for the result."""


LONGEST_HELD = timedelta(seconds=90)
"""Longer than a lease or a pause lasts."""


def webhook_free(at: datetime) -> Q:
    """No worker sends to it, and it waits for no pause. One that would be held for longer than either
    lasts is free: the clock was put back."""
    return Q(free_at=None) | Q(free_at__lt=at) | Q(free_at__gt=at + LONGEST_HELD)


def delivery_due(at: datetime) -> Q:
    """Of a pending delivery: its first attempt is due, whatever the clock was when it was asked for, or the
    next one. One that would wait for longer than any does is due: the clock was put back."""
    return Q(tries=0) | Q(due_at__lte=at) | Q(due_at__gt=at + LONGEST_WAIT)


def webhook_get(webhook_id: int, *, lock: bool = False) -> Webhook:
    """The webhook with this id; with `lock` its row stays locked until the transaction ends.

    Raises `Missing`.
    """
    # Without its key (NO KEY UPDATE), so that a publisher can add a delivery meanwhile.
    rows = Webhook.objects.select_for_update(no_key=True) if lock else Webhook.objects.all()
    webhook = rows.filter(pk=webhook_id).first()
    if webhook is None:
        raise Missing(f"there is no webhook {webhook_id}")
    return webhook


def webhook_list() -> QuerySet[Webhook]:
    """All webhooks with the number of pending deliveries."""
    waiting = Delivery.objects.filter(webhook=OuterRef("pk"), state=DeliveryState.PENDING)
    counted = waiting.order_by().values("webhook").annotate(count=Count("pk")).values("count")
    return Webhook.objects.annotate(pending=Coalesce(Subquery(counted), 0)).order_by("name")


def secrets_stored(webhook: Webhook, *, at: datetime) -> list[StoredSecret]:
    """Every secret that signs at this time, the newest first."""
    return [
        StoredSecret(row.salt, row.fingerprint)
        for row in webhook.secrets.order_by("-id")
        if row.expires_at is None or row.expires_at > at
    ]


def delivery_list(webhook_id: int) -> QuerySet[Delivery]:
    """The delivery log of a webhook, newest first."""
    return (
        Delivery.objects.filter(webhook_id=webhook_id)
        .select_related("webhook")
        .order_by("-created_at", "-sequence", "pk")
    )


def delivery_get(delivery_id: UUID | str, *, webhook_id: int | None = None, lock: bool = False) -> Delivery:
    """A delivery (of that webhook); raises `Missing`."""
    rows = Delivery.objects.select_related("webhook")
    if lock:
        rows = rows.select_for_update(of=("self",))
    if webhook_id is not None:
        rows = rows.filter(webhook_id=webhook_id)
    delivery = rows.filter(pk=delivery_id).first()
    if delivery is None:
        raise Missing(f"there is no delivery {delivery_id}")
    return delivery


def deliveries_due(webhook_id: int, *, at: datetime) -> QuerySet[Delivery]:
    """The deliveries that are due for a webhook: what users have just asked for, then events in order."""
    return Delivery.objects.filter(
        delivery_due(at), webhook_id=webhook_id, state=DeliveryState.PENDING
    ).order_by(Case(When(JUST_ASKED, then=0), default=1), F("sequence").asc(nulls_first=True), "created_at")


def user_waits(webhook_id: int) -> bool:
    """Whether a test or a redelivery has not been tried since a user asked for it."""
    return Delivery.objects.filter(JUST_ASKED, webhook_id=webhook_id, state=DeliveryState.PENDING).exists()


def webhooks_due(*, at: datetime) -> list[int]:
    """Webhooks that have a due delivery and no worker sending to them."""
    due = Delivery.objects.filter(delivery_due(at), webhook=OuterRef("pk"), state=DeliveryState.PENDING)
    return list(
        Webhook.objects.filter(webhook_free(at))
        .filter(Exists(due))
        .order_by("pk")
        .values_list("pk", flat=True)
    )
