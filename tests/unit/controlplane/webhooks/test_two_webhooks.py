"""What concerns one webhook leaves others, with their deliveries and secrets, as they are."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

from django.utils import timezone

from controlplane.events.models import Event
from controlplane.webhooks.deliveries import deliveries_trim, delivery_redeliver, webhook_test
from controlplane.webhooks.models import Delivery, Webhook, WebhookSecret
from controlplane.webhooks.sending import webhook_send
from controlplane.webhooks.services import (
    webhook_create,
    webhook_delete,
    webhook_secret_rotate,
    webhook_update,
)
from tests.unit.controlplane.specs import BY
from tests.unit.controlplane.webhooks.conftest import Made
from tests.unit.controlplane.webhooks.receiver import Receiver


def rows_of(webhook: Webhook) -> list[Any]:
    return [
        *Webhook.objects.filter(pk=webhook.pk).values(),
        *Delivery.objects.filter(webhook=webhook).order_by("pk").values(),
        *WebhookSecret.objects.filter(webhook=webhook).values(),
    ]


def test_the_other_stays_as_it_is(made: Made, receiver: Receiver, publish: Callable[..., Event]) -> None:
    other, _ = webhook_create(name="chat", url=receiver.url, kinds=["node.lost"], **BY)
    publish()
    webhook_test(webhook_id=other.pk, **BY)
    before = rows_of(other)
    assert len(before) == 4

    receiver.answers = [500, 200]
    assert webhook_send(webhook_id=made.id) is not None
    assert made.now().free_at is not None, "there is a pause: the user waits for a test of the other"
    Webhook.objects.filter(pk=made.id).update(free_at=None)
    Delivery.objects.filter(webhook=made.webhook).update(due_at=timezone.now())
    assert webhook_send(webhook_id=made.id) is None, "what is due is of the other"
    assert len(receiver.got) == 2

    delivery_redeliver(delivery_id=Delivery.objects.get(webhook=made.webhook).pk, **BY)
    webhook_secret_rotate(webhook_id=made.id, overlap=timedelta(0), **BY)
    webhook_update(webhook_id=made.id, changes={"enabled": False}, **BY)
    assert Delivery.objects.get(webhook=made.webhook).state == "given_up"
    assert deliveries_trim() == 0
    assert WebhookSecret.objects.filter(webhook=made.webhook).count() == 1, "the one before has expired"
    webhook_delete(webhook_id=made.id, **BY)
    assert deliveries_trim() == 1
    assert rows_of(other) == before
