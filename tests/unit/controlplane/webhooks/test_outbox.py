"""Deliveries belong to the transaction of their event."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from django.db import connection, transaction
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from controlplane.events.choices import EventKind
from controlplane.events.models import Event
from controlplane.events.services import event_publish
from controlplane.events.tasks import WEBHOOK_SEND
from controlplane.incidents.models import Incident
from controlplane.topologies.models import Topology
from controlplane.webhooks.models import Delivery, Webhook
from controlplane.webhooks.services import webhook_create, webhook_update
from tests.unit.controlplane.specs import BY, spec_of
from tests.unit.controlplane.webhooks.conftest import Made

Publish = Callable[..., Event]


def heard() -> list[tuple[str, str]]:
    """The webhook and kind of each delivery, in order."""
    return list(Delivery.objects.order_by("sequence", "webhook_id").values_list("webhook__name", "kind"))


def test_an_event_and_its_deliveries_are_committed_together(
    made: Made, publish: Publish, sent_tasks: list[Any], django_capture_on_commit_callbacks: Any
) -> None:
    with transaction.atomic():
        event_publish(kind=EventKind.NODE_LOST, changes=[])
        assert Delivery.objects.count() == 1
        transaction.set_rollback(True)
    assert not Delivery.objects.exists()
    with django_capture_on_commit_callbacks(execute=True):
        event = publish(node="node-1")
        assert sent_tasks == [], "nothing is sent before the commit"
    delivery = Delivery.objects.get()
    assert (delivery.sequence, delivery.kind, delivery.state) == (event.sequence, "node.lost", "pending")
    assert (WEBHOOK_SEND, made.id) in sent_tasks


def test_kinds_and_topologies_choose(topology: Topology, publish: Publish) -> None:
    def hook(name: str, *kinds: str, topologies: tuple[str, ...] = ()) -> Webhook:
        url = "https://example.org/hooks"
        return webhook_create(name=name, url=url, kinds=kinds, topologies=topologies, **BY)[0]

    hook("nodes", "node.lost")
    hook("all", "incident.opened", "topology.failed")
    hook("mine", "incident.opened", "topology.failed", "node.lost", topologies=("counts",))
    publish(EventKind.NODE_LOST, node="node-1")
    publish(EventKind.TOPOLOGY_FAILED, topology="counts")
    publish(EventKind.TOPOLOGY_FAILED, topology="other")
    publish(EventKind.NODE_JOINED, node="node-1")
    assert heard() == [
        ("nodes", "node.lost"),
        ("mine", "node.lost"),
        ("all", "topology.failed"),
        ("mine", "topology.failed"),
        ("all", "topology.failed"),
    ]


def test_an_incident_concerns_its_topologies(topology: Topology, publish: Publish) -> None:
    url = "https://example.org/hooks"
    webhook_create(name="mine", url=url, kinds=["incident.opened"], topologies=["counts"], **BY)
    now = timezone.now()
    ours = Incident.objects.create(number=1, detected_at=now, opened_at=now)
    ours.topologies.add(topology)
    other = Incident.objects.create(number=2, detected_at=now, opened_at=now)
    other.topologies.add(Topology.objects.create(name="other", spec=spec_of()))
    publish(EventKind.INCIDENT_OPENED, incident=2)
    event = publish(EventKind.INCIDENT_OPENED, incident=1)
    assert list(Delivery.objects.values_list("sequence", flat=True)) == [event.sequence]


def test_metrics_and_disabled_webhooks_write_nothing(made: Made, publish: Publish) -> None:
    with CaptureQueriesContext(connection) as queries:
        publish(EventKind.NODE_METRICS)
    assert not [query for query in queries if "webhooks_" in query["sql"]]
    webhook_update(webhook_id=made.id, changes={"enabled": False}, **BY)
    publish()
    assert heard() == []


def test_many_webhooks_cost_a_constant_number_of_queries(topology: Topology, publish: Publish) -> None:
    def cost() -> int:
        with CaptureQueriesContext(connection) as queries:
            publish(EventKind.INCIDENT_OPENED, incident=1)
        return len([query for query in queries if not query["sql"].startswith(("SAVEPOINT", "RELEASE"))])

    kinds = ["incident.opened"]
    now = timezone.now()
    Incident.objects.create(number=1, detected_at=now, opened_at=now).topologies.add(topology)
    for number in range(20):
        if number == 1:
            few = cost()
        url = f"https://example.org/{number}"
        webhook_create(name=f"hook-{number}", url=url, kinds=kinds, topologies=["counts"], **BY)
    assert cost() == few
    assert Delivery.objects.count() == 21
