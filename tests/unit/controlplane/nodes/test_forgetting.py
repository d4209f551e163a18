"""Nodes that are gone are forgotten: by hand, and by themselves after a while."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from django.utils import timezone
from rest_framework.test import APIClient

from controlplane.events.models import AuditEntry, Event
from controlplane.incidents.choices import IncidentState
from controlplane.incidents.models import Incident
from controlplane.lifecycle.forgetting import nodes_forget_old
from controlplane.lifecycle.nodes import node_register, nodes_lost
from controlplane.lifecycle.topologies import topology_deploy
from controlplane.nodes.choices import NodeState
from controlplane.nodes.models import Node
from controlplane.nodes.selectors import node_name_next
from controlplane.topologies.models import Partition, Topology
from domain.messages import NodeRegistration
from tests.unit.controlplane.following import Follower
from tests.unit.controlplane.specs import BY
from workers.tasks import trim

FORGET = "/api/v1/nodes/node-4/forget/"
WHY = {"reason": "replaced by node-5"}


@pytest.fixture
def gone(nodes: list[Node]) -> Node:
    """node-4, silent for an hour."""
    at = timezone.now() - timedelta(hours=1)
    Node.objects.filter(name="node-4").update(state=NodeState.LOST, last_heartbeat=at)
    return Node.objects.get(name="node-4")


def named(client: APIClient) -> list[str]:
    return [row["name"] for row in client.get("/api/v1/nodes/").json()["results"]]


def test_by_hand(operator: APIClient, gone: Node) -> None:
    follower = Follower()
    answer = operator.post(FORGET, WHY)
    assert (answer.status_code, answer.json()["state"]) == (202, "succeeded")
    assert named(operator) == ["node-1", "node-2", "node-3"]
    assert operator.get("/api/v1/nodes/node-4/").status_code == 404
    assert operator.post("/api/v1/nodes/node-4/drain/", WHY).status_code == 404
    follower.check()
    entry = AuditEntry.objects.get(action="node.forget")
    assert (entry.actor, entry.target, entry.reason) == ("operator", "node-4", "replaced by node-5")
    assert node_name_next() == "node-5", "its name is never given to another node"


def test_it_needs_a_reason_and_a_node_that_is_gone(
    operator: APIClient, viewer: APIClient, gone: Node
) -> None:
    assert operator.post(FORGET, {}).status_code == 400
    assert viewer.post(FORGET, WHY).status_code == 403
    refused = operator.post("/api/v1/nodes/node-1/forget/", WHY)
    assert refused.status_code == 409
    assert "node 'node-1' is alive" in refused.json()["errors"][0]["message"]
    assert Node.objects.filter(forgotten_at=None).count() == 4


def test_not_while_it_is_being_replaced(operator: APIClient, topology: Topology) -> None:
    topology_deploy(name="counts", **BY)
    incident = nodes_lost(evidence={"node-4": "gone"}, at=timezone.now() - timedelta(days=2))
    assert incident is not None
    Node.objects.filter(name="node-4").update(last_heartbeat=timezone.now() - timedelta(days=2))
    refused = operator.post(FORGET, WHY)
    assert refused.status_code == 409
    assert f"incident {incident.number} still recovers" in refused.json()["errors"][0]["message"]
    assert nodes_forget_old() == 0
    Incident.objects.update(state=IncidentState.ABORTED)
    left = Partition.objects.filter(node__name="node-4").count()
    assert left
    refused = operator.post(FORGET, WHY)
    assert refused.status_code == 409
    assert f"{left} of the partitions" in refused.json()["errors"][0]["message"]
    assert nodes_forget_old() == 0
    Partition.objects.filter(node__name="node-4").update(node=Node.objects.get(name="node-1"))
    assert operator.post(FORGET, WHY).status_code == 202


def test_by_itself_after_a_while(gone: Node, settings: Any, no_zookeeper: None) -> None:
    left = Node.objects.create(name="node-5", state=NodeState.LEFT)  # never came, so it has no heartbeat
    Node.objects.filter(pk=left.pk).update(created_at=timezone.now() - timedelta(hours=3))
    settings.RESURGE = replace(settings.RESURGE, forget_nodes_after=7200.0)
    follower = Follower()
    trim()
    assert list(Node.objects.exclude(forgotten_at=None).values_list("name", flat=True)) == ["node-5"]
    settings.RESURGE = replace(settings.RESURGE, forget_nodes_after=1800.0)
    trim()
    assert Node.objects.exclude(forgotten_at=None).count() == 2
    follower.check()
    entry = AuditEntry.objects.get(target="node-4")
    assert (entry.action, entry.channel, entry.reason) == (
        "node.forget",
        "system",
        "lost for more than 1800 s",
    )
    events = Event.objects.count()
    trim()
    assert Event.objects.count() == events


def test_never_where_that_is_set(gone: Node, settings: Any) -> None:
    settings.RESURGE = replace(settings.RESURGE, forget_nodes_after=0.0)
    assert nodes_forget_old() == 0


def test_it_comes_back_when_it_registers(operator: APIClient, gone: Node) -> None:
    operator.post(FORGET, WHY)
    follower = Follower()
    registration = NodeRegistration(
        id="node-4", session="a", address="127.0.1.4", rack="rack-b", slots=2, capacity=100, pid=1,
        registered_at=timezone.now().timestamp(),
    )  # fmt: skip
    node_register(registration=registration, at=timezone.now(), returned=True, evidence="it is back")
    assert "node-4" in named(operator)
    follower.check()
