from __future__ import annotations

from typing import Any

import pytest
from django.contrib import admin
from django.contrib.auth import get_user_model
from django.contrib.auth.models import Group
from django.test import Client
from django.utils import timezone

from controlplane.events.models import AuditEntry, Operation
from controlplane.incidents.models import Incident, IncidentEntry
from controlplane.nodes.models import NodeRequest
from controlplane.topologies.models import AvailabilitySample, Problem, Query, Topology

OURS = ("topologies", "checkpoints", "events", "nodes", "incidents")


@pytest.fixture
def staff(db: None) -> Client:
    client = Client()
    client.force_login(get_user_model().objects.create_superuser("root", password="secret-for-tests"))
    return client


def pages() -> list[Any]:
    return [model for model in admin.site._registry if model._meta.app_label in OURS]


def test_every_model_has_a_page() -> None:
    from django.apps import apps

    models = {model for app in OURS for model in apps.get_app_config(app).get_models()}
    assert models == set(pages())


@pytest.mark.parametrize("model", pages(), ids=lambda model: model.__name__)
def test_pages_list_search_and_show(staff: Client, topology: Topology, model: Any) -> None:
    now = timezone.now()
    incident = Incident.objects.create(number=1, detected_at=now, opened_at=now)
    IncidentEntry.objects.create(incident=incident, at=now, kind="step", text="x")
    NodeRequest.objects.create(key="k", node_name="n", requested_at=now, due_at=now)
    Problem.objects.create(topology=topology, at=now, where="x", what="y")
    AvailabilitySample.objects.create(topology=topology, at=now, available=1, total=1, weighted=1)
    base = f"/admin/{model._meta.app_label}/{model._meta.model_name}/"
    assert staff.get(base).status_code == 200
    assert staff.get(f"{base}?q=counts").status_code == 200
    row = model.objects.first()
    if row is not None:
        assert staff.get(f"{base}{row.pk}/change/").status_code == 200
    assert staff.get(f"{base}add/").status_code == 403, "the system owns its rows"


def test_a_priority_is_changed_through_the_service(staff: Client, topology: Topology) -> None:
    query = Query.objects.get(partition__operator="O1")
    url = f"/admin/topologies/query/{query.pk}/change/"
    assert staff.post(url, {"priority": 8}).status_code == 200, "without a reason the form comes back"
    assert staff.post(url, {"priority": 8, "reason": "important"}).status_code == 302
    query.refresh_from_db()
    assert query.priority == 8
    entry = AuditEntry.objects.get(action="query.priority")
    assert (entry.actor, entry.door, entry.reason) == ("root", "admin", "important")


def test_actions_go_through_the_services(staff: Client, topology: Topology) -> None:
    def run(action: str) -> str:
        body = {"action": action, "_selected_action": [topology.pk]}
        return staff.post("/admin/topologies/topology/", body, follow=True).content.decode()

    assert "Deploying: 1" in run("deploy")
    assert Operation.objects.get().kind == "topology.deploy"
    assert "undeploy it before" in run("deploy")
    assert "only a running topology" in run("checkpoint")


def test_looking_is_not_acting(db: None, topology: Topology) -> None:
    user = get_user_model().objects.create_user("eve", password="secret-for-tests", is_staff=True)
    user.groups.add(Group.objects.get(name="viewer"))
    client = Client()
    client.force_login(user)
    body = {"action": "deploy", "_selected_action": [topology.pk]}
    client.post("/admin/topologies/topology/", body)
    assert not Operation.objects.exists()
