"""Webhooks and their deliveries in the admin site."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest
from django.test import Client
from django.utils import timezone

from controlplane.events.models import AuditEntry, Event
from controlplane.topologies.models import Topology
from controlplane.webhooks.models import Delivery, Webhook
from controlplane.webhooks.services import webhook_create
from tests.unit.controlplane.administration.conftest import errors_of
from tests.unit.controlplane.specs import BY

WHY = {"reason": "because"}
WEBHOOKS = "/admin/webhooks/webhook/"
URL = "https://hooks.example.org/T0/s3cret"


@pytest.fixture
def client(browser: Callable[[str | None], Client]) -> Client:
    return browser("administrator")


@pytest.fixture
def webhook(db: None) -> Webhook:
    return webhook_create(name="pager", url=URL, kinds=["node.lost"], **BY)[0]


def form(**fields: Any) -> dict[str, Any]:
    return {"name": "pager", "url": URL, "kinds": ["node.lost"], "enabled": "on", **WHY, **fields}


def secret_of(answer: Any) -> str:
    (text,) = re.findall(r'readonly value="([^"]+)"', answer.content.decode())
    return str(text)


def test_one_is_set_up_and_its_secret_shown_once(client: Client, topology: Topology) -> None:
    assert client.get(f"{WEBHOOKS}add/").status_code == 200
    answer = client.post(
        f"{WEBHOOKS}add/", form(kinds=["node.lost", "incident.opened"], topologies=["counts"])
    )
    assert answer.status_code == 200
    secret = secret_of(answer)
    assert secret.startswith("whsec_")
    webhook = Webhook.objects.get()
    assert (webhook.kinds, webhook.topologies) == (["incident.opened", "node.lost"], ["counts"])
    entry = AuditEntry.objects.get(action="webhook.create")
    assert (entry.actor, entry.channel, entry.target, entry.reason) == (
        "administrator",
        "admin",
        "pager",
        "because",
    )
    for path in ("", f"{webhook.pk}/change/", f"{webhook.pk}/history/"):
        page = client.get(f"{WEBHOOKS}{path}").content.decode()
        assert "hooks.example.org" in page
        assert secret not in page


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"reason": ""}, "This field is required"),
        ({"name": "Not A Name"}, "small letter"),
        ({"url": "http://127.0.0.1/"}, "not a public address"),
        ({"url": "gopher://example.org"}, "must begin with https"),
        ({"kinds": []}, "This field is required"),
        ({"kinds": ["topology.metrics"]}, "Select a valid choice"),
        ({"topologies": ["missing"]}, "Select a valid choice"),
    ],
)
def test_what_cannot_be_keeps_the_form(client: Client, fields: dict[str, Any], message: str) -> None:
    answer = client.post(f"{WEBHOOKS}add/", form(**fields))
    assert answer.status_code == 200
    assert message in errors_of(answer)
    assert answer.context["adminform"].form["url"].value() == fields.get("url", URL)
    assert not Webhook.objects.exists()
    assert not AuditEntry.objects.exists()


def test_changing_and_deleting(client: Client, webhook: Webhook) -> None:
    url = f"{WEBHOOKS}{webhook.pk}/change/"
    assert client.post(url, form(kinds=["incident.opened"])).status_code == 302
    entry = AuditEntry.objects.get(action="webhook.update")
    assert (entry.before, entry.after) == ({"kinds": ["node.lost"]}, {"kinds": ["incident.opened"]})
    assert client.post(url, form(kinds=["incident.opened"], name="other")).status_code == 302
    webhook.refresh_from_db()
    assert webhook.name == "pager", "a name stays"
    answer = client.post(url, form(url="https://10.0.0.1/"))
    assert "not a public address" in errors_of(answer)
    assert client.post(url, form(kinds=["incident.opened"], enabled="")).status_code == 302
    webhook.refresh_from_db()
    assert not webhook.enabled
    assert client.post(f"{WEBHOOKS}{webhook.pk}/delete/", {}).status_code == 200
    assert client.post(f"{WEBHOOKS}{webhook.pk}/delete/", WHY).status_code == 302
    assert not Webhook.objects.exists()
    assert AuditEntry.objects.get(action="webhook.delete").reason == "because"


def test_a_topology_that_is_gone_can_stay_and_be_taken_away(client: Client, topology: Topology) -> None:
    webhook, _ = webhook_create(name="pager", url=URL, kinds=["node.lost"], topologies=["counts"], **BY)
    topology.delete()
    url = f"{WEBHOOKS}{webhook.pk}/change/"
    assert client.post(url, form(kinds=["node.joined"], topologies=["counts"])).status_code == 302
    assert client.post(url, form(kinds=["node.joined"])).status_code == 302
    webhook.refresh_from_db()
    assert (webhook.kinds, webhook.topologies) == (["node.joined"], [])


def test_tests_secrets_and_redelivery(client: Client, webhook: Webhook) -> None:
    def run(page: str, action: str, *chosen: Any, **body: str) -> Any:
        given = {"action": action, "_selected_action": [str(one) for one in chosen], **body}
        return client.post(f"/admin/webhooks/{page}/", given, follow=True)

    assert "Say why" in run("webhook", "test", webhook.pk).content.decode()
    assert "to be found among the deliveries: 1" in run("webhook", "test", webhook.pk, **WHY).content.decode()
    assert Delivery.objects.get().requested_by == "administrator"
    assert "Say why" in run("webhook", "rotate_secret", webhook.pk).content.decode()
    other, _ = webhook_create(name="chat", url=URL, kinds=["node.lost"], **BY)
    assert (
        "Choose one webhook" in run("webhook", "rotate_secret", webhook.pk, other.pk, **WHY).content.decode()
    )
    rotated = run("webhook", "rotate_secret", webhook.pk, **WHY)
    assert secret_of(rotated).startswith("whsec_")
    assert "no-store" in rotated["Cache-Control"]
    assert AuditEntry.objects.get(action="webhook.secret").reason == "because"
    now = timezone.now()
    Event.objects.create(sequence=7, at=now, kind="node.lost")
    delivery = Delivery.objects.create(
        webhook=webhook, kind="node.lost", sequence=7, state="given_up", due_at=now, created_at=now
    )
    assert "Say why" in run("delivery", "redeliver", delivery.pk).content.decode()
    assert "Sending again: 1" in run("delivery", "redeliver", delivery.pk, **WHY).content.decode()
    delivery.refresh_from_db()
    assert (delivery.state, delivery.requested_by) == ("pending", "administrator")
    history = client.get(f"/admin/webhooks/delivery/{delivery.pk}/history/").content.decode()
    assert "webhook.redeliver" in history
    refused = run("delivery", "redeliver", Delivery.objects.get(kind="webhook.test").pk, **WHY)
    assert "request a new one" in refused.content.decode()
