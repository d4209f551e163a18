"""Rows that another request deletes while they are read: left out of a list, missing in a detail."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from django.utils import timezone
from rest_framework.test import APIClient

from controlplane.api import health
from controlplane.health.reading import Reading
from controlplane.incidents.models import Incident
from controlplane.nodes.models import Node
from controlplane.topologies.models import Query, Topology

API = "/api/v1"


def topology_gone() -> None:
    Topology.objects.get(name="counts").delete()


def node_gone() -> None:
    Node.objects.filter(name="node-1").delete()


def incident_gone() -> None:
    Incident.objects.all().delete()


def query_gone() -> None:
    Query.objects.filter(partition__operator="O1").delete()


@pytest.fixture
def incident(db: None) -> None:
    Incident.objects.create(number=1, detected_at=timezone.now(), opened_at=timezone.now())


@pytest.mark.parametrize(
    ("path", "delete", "left"),
    [
        ("topologies/", topology_gone, 0),
        ("nodes/", node_gone, 3),
        ("incidents/", incident_gone, 0),
        ("topologies/counts/queries/", query_gone, 2),
        ("topologies/counts/", topology_gone, None),
        ("nodes/node-1/", node_gone, None),
        ("incidents/1/", incident_gone, None),
        ("topologies/counts/queries/O1[0]/", query_gone, None),
    ],
)
def test_what_is_deleted_while_it_is_read_is_missing(
    viewer: APIClient,
    topology: Topology,
    incident: None,
    monkeypatch: pytest.MonkeyPatch,
    path: str,
    delete: Callable[[], None],
    left: int | None,
) -> None:
    def read(*given: Any) -> Reading:
        delete()
        return Reading(*given)

    monkeypatch.setattr(health, "Reading", read)
    answer = viewer.get(f"{API}/{path}")
    if left is None:
        assert answer.status_code == 404
        assert "there is no" in answer.json()["errors"][0]["message"]
    else:
        assert answer.status_code == 200
        assert len(answer.json()["results"]) == left


def test_figures_leave_out_a_topology_that_is_deleted_meanwhile(
    viewer: APIClient, topology: Topology, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Reading, "topologies", {})
    answer = viewer.get("/metrics")
    assert answer.status_code == 200
    assert 'topology="counts"' not in answer.content.decode()
