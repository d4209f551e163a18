"""Tests, redelivery, giving up and trimming of deliveries (write side)."""

from __future__ import annotations

from typing import Unpack
from uuid import UUID

import structlog
from django.db import transaction
from django.db.models import Exists, OuterRef
from django.utils import timezone

from controlplane.errors import Conflict
from controlplane.events.audit import By, audit_record
from controlplane.events.choices import Channel
from controlplane.events.models import Event
from controlplane.events.operations import reason_require
from controlplane.events.services import numbering_lock
from controlplane.events.tasks import WEBHOOK_SEND, task_send_on_commit
from controlplane.topologies.problems import problem_record
from controlplane.webhooks.addresses import url_shown
from controlplane.webhooks.choices import TEST_KIND, DeliveryState
from controlplane.webhooks.models import Delivery, Webhook, WebhookSecret
from controlplane.webhooks.selectors import delivery_get, webhook_get
from domain.messages import ProblemReport

log = structlog.get_logger(__name__)

TRIMMED_AT_ONCE = 5_000


@transaction.atomic
def webhook_test(*, webhook_id: int, **by: Unpack[By]) -> Delivery:
    """Send a test, also while the webhook is disabled. It is tried once. Raises `Missing`."""
    reason_require(by["reason"])
    webhook = webhook_get(webhook_id, lock=True)
    now = timezone.now()
    delivery = Delivery.objects.create(
        webhook=webhook, kind=TEST_KIND, due_at=now, created_at=now, requested_by=by["actor"]
    )
    audit_record(
        action="webhook.test",
        target=webhook.name,
        after={"delivery": str(delivery.pk)},
        **by,
    )
    _send_soon(webhook)
    return delivery


@transaction.atomic
def delivery_redeliver(
    *, delivery_id: UUID | str, webhook_id: int | None = None, **by: Unpack[By]
) -> Delivery:
    """Send a delivery (of that webhook) again, with all its tries, whether it succeeded or not; a pending one
    becomes due at once. It keeps its id, by which the receiver recognises a duplicate.

    Raises `Missing`, or `Conflict` where the webhook is disabled or the event is no longer kept.
    """
    reason_require(by["reason"])
    numbering_lock()
    webhook = webhook_get(delivery_get(delivery_id, webhook_id=webhook_id).webhook_id, lock=True)
    delivery = delivery_get(delivery_id, lock=True)
    if delivery.kind == TEST_KIND:
        raise Conflict("a test cannot be sent again; request a new one")
    if not webhook.enabled:
        raise Conflict(f"webhook {webhook.name!r} is disabled; enable it first")
    if not Event.objects.filter(sequence=delivery.sequence).exists():
        raise Conflict(f"event {delivery.sequence} is no longer kept, so it cannot be sent again")
    audit_record(
        action="webhook.redeliver",
        target=webhook.name,
        before={"delivery": str(delivery.pk), "state": delivery.state},
        after={"delivery": str(delivery.pk), "state": DeliveryState.PENDING},
        **by,
    )
    delivery.state = DeliveryState.PENDING
    delivery.due_at = timezone.now()
    delivery.tries = 0
    delivery.ended_at = None
    delivery.requested_by = by["actor"]
    delivery.save(update_fields=["state", "due_at", "tries", "ended_at", "requested_by"])
    _send_soon(webhook)
    return delivery


def _send_soon(webhook: Webhook) -> None:
    """A user waits for the result, so clear the webhook's back-off. The worker that has the lease, if there
    is one, waits for the lock of its row, and then sees this delivery."""
    Webhook.objects.filter(pk=webhook.pk, lease=None).update(free_at=None)
    task_send_on_commit(WEBHOOK_SEND, webhook.pk)


def deliveries_end(webhook: Webhook, *, error: str) -> int:
    """Give up all pending deliveries; returns their number. Each can be redelivered by hand."""
    return Delivery.objects.filter(webhook=webhook, state=DeliveryState.PENDING).update(
        state=DeliveryState.GIVEN_UP, error=error, ended_at=timezone.now()
    )


@transaction.atomic
def webhook_disable(*, webhook_id: int, because: str, hint: str) -> bool:
    """Disable a webhook whose receiver fails, audit it, and record a problem. False if it is disabled
    already."""
    numbering_lock()
    webhook = Webhook.objects.select_for_update(no_key=True).filter(pk=webhook_id, enabled=True).first()
    if webhook is None:
        return False
    webhook.enabled = False
    webhook.disabled_because = because
    webhook.save(update_fields=["enabled", "disabled_because", "updated_at"])
    ended = deliveries_end(webhook, error=f"the webhook was disabled: {because}")
    audit_record(
        actor="system",
        channel=Channel.SYSTEM,
        action="webhook.disable",
        target=webhook.name,
        before={"enabled": True},
        after={"enabled": False},
        reason=because,
    )
    problem_record(
        report=ProblemReport(
            topology="",
            where=f"webhook {webhook.name}",
            what=f"disabled: {because} ({url_shown(webhook.url)})",
            hint=hint,
        )
    )
    log.error("webhook disabled", webhook=webhook.name, because=because, given_up=ended)
    return True


def deliveries_trim() -> int:
    """Delete deliveries whose webhook was deleted, and secrets that have expired; returns the number of
    deliveries. In portions, so that no transaction is long."""
    now = timezone.now()
    WebhookSecret.objects.filter(expires_at__lte=now).delete()
    deleted = ~Exists(Webhook.objects.filter(pk=OuterRef("webhook_id")))
    removed = 0
    while True:
        unwanted = Delivery.objects.filter(deleted).order_by("pk")
        portion = list(unwanted.values_list("pk", flat=True)[:TRIMMED_AT_ONCE])
        if not portion:
            return removed
        Delivery.objects.filter(pk__in=portion).delete()
        removed += len(portion)
