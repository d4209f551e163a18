"""What the loss of many nodes at once costs: it is recorded in one transaction, while nothing else writes."""

from __future__ import annotations

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from controlplane.events.models import Event
from controlplane.lifecycle.nodes import nodes_lost, nodes_register
from controlplane.nodes.models import Node, NodeRequest
from controlplane.topologies.models import Topology
from controlplane.topologies.rows import NodeIndex
from domain.recovery.liveness import NodeAlive
from tests.unit.controlplane.incidents.conftest import deployed  # noqa: F401
from tests.unit.controlplane.incidents.places import registration

pytestmark = pytest.mark.django_db


def test_names_and_nodes_that_are_gone_are_read_once(deployed: Topology) -> None:  # noqa: F811
    with CaptureQueriesContext(connection) as asked:
        nodes_lost(evidence=dict.fromkeys(("node-1", "node-2", "node-3"), "silent"), at=timezone.now())
    statements = [query["sql"] for query in asked]
    names = [sql for sql in statements if sql.startswith('SELECT "nodes_noderequest"."node_name"')]
    assert len(names) == 1, "for all replacements together"
    gone = [sql for sql in statements if '"forgotten_at" IS NULL AND "nodes_node"."state" IN' in sql]
    assert len(gone) == 1, "with the incident, not with the event of each node"
    for sql in statements:
        if sql.startswith("SELECT DISTINCT"):
            assert "," not in sql.partition(" FROM ")[0], "a row for each node, not for each partition"
    assert sorted(NodeRequest.objects.values_list("node_name", flat=True)) == ["node-5", "node-6", "node-7"]
    told = {event.node: event.changes for event in Event.objects.filter(kind="node.lost")}
    assert told.keys() == {"node-1", "node-2", "node-3"}
    for node, changes in told.items():
        (change,) = [one for one in changes if one["key"] == node]
        assert change["fields"]["health"]["state"] == "lost"


def test_an_incident_is_read_once_for_all_nodes_that_come(deployed: Topology) -> None:  # noqa: F811
    nodes_lost(evidence={"node-1": "silent", "node-2": "silent"}, at=timezone.now())

    def come(*names: str) -> int:
        alive = [NodeAlive(registration(name), False, "") for name in names]
        with CaptureQueriesContext(connection) as asked:
            nodes_register(alive=alive, at=timezone.now())
        return sum('FROM "incidents_incidententry"' in query["sql"] for query in asked)

    assert come("node-5") == come("node-6", "node-7", "node-8") == 1
    arrived = Event.objects.filter(kind="node.joined").values_list("node", flat=True)
    assert {"node-5", "node-6", "node-7", "node-8"} <= set(arrived)


def test_reports_do_not_read_nodes_that_were_forgotten(deployed: Topology) -> None:  # noqa: F811
    Node.objects.create(name="node-8", state="lost", forgotten_at=timezone.now())
    assert NodeIndex.load().ids.keys() == {"node-1", "node-2", "node-3", "node-4"}
