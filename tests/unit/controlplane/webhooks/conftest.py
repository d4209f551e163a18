"""A receiver, an installation that may reach it, and a webhook that sends it all events."""

from __future__ import annotations

import dataclasses
import ipaddress
from collections.abc import Callable, Iterator
from datetime import timedelta
from typing import Any

import pytest
from django.db import transaction
from django.utils import timezone

from controlplane.events.choices import EventKind
from controlplane.events.models import Event
from controlplane.events.services import event_publish
from controlplane.webhooks.choices import KINDS, DeliveryState
from controlplane.webhooks.models import Delivery, Webhook
from controlplane.webhooks.services import webhook_create
from tests.unit.controlplane.specs import BY
from tests.unit.controlplane.webhooks.receiver import LOOPBACK, Receiver


@dataclasses.dataclass(frozen=True)
class Made:
    """A webhook and the secret its receiver was given."""

    webhook: Webhook
    secret: str

    @property
    def id(self) -> int:
        return int(self.webhook.pk)

    def now(self) -> Webhook:
        return Webhook.objects.get(pk=self.webhook.pk)


@pytest.fixture(autouse=True)
def loopback_permitted(settings: Any) -> None:
    settings.RESURGE = dataclasses.replace(
        settings.RESURGE, webhook_networks=(ipaddress.ip_network(f"{LOOPBACK}/32"),)
    )


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    with Receiver() as one:
        yield one


@pytest.fixture
def made(db: None, receiver: Receiver) -> Made:
    webhook, secret = webhook_create(name="pager", url=receiver.url, kinds=KINDS, **BY)
    return Made(webhook, secret)


@pytest.fixture
def publish(db: None) -> Callable[..., Event]:
    """Publish an event in a transaction of its own."""

    def one(kind: EventKind = EventKind.NODE_LOST, **about: Any) -> Event:
        with transaction.atomic():
            return event_publish(kind=kind, changes=about.pop("changes", []), **about)

    return one


def due_now() -> int:
    """Make all waiting deliveries due and end all pauses, as if their time had come."""
    Webhook.objects.filter(lease=None).update(free_at=None)
    return Delivery.objects.filter(state=DeliveryState.PENDING).update(
        due_at=timezone.now() - timedelta(seconds=1)
    )


def log_of(delivery: Delivery) -> list[tuple[int, int | None, str]]:
    """Number, answer and error of each attempt."""
    return list(delivery.log.order_by("number").values_list("number", "status", "error"))
