"""Draining a rack: all of its nodes in one transaction, so that nothing moves from one to another."""

from __future__ import annotations

import pytest

from controlplane.errors import Conflict, Missing
from controlplane.events.models import AuditEntry
from controlplane.incidents.models import Incident
from controlplane.incidents.selectors import incident_get
from controlplane.incidents.services import incident_advance
from controlplane.lifecycle.nodes import node_drain, node_register
from controlplane.lifecycle.racks import rack_activate, rack_drain, rack_outlook
from controlplane.nodes.models import Node, NodeRequest
from controlplane.nodes.selectors import node_get
from controlplane.topologies.models import Partition, Topology
from domain.recovery.events import Looked
from tests.unit.controlplane.following import Follower
from tests.unit.controlplane.incidents.places import driver, newest, now, registration
from tests.unit.controlplane.specs import BY

pytestmark = pytest.mark.django_db


@pytest.fixture
def racked(deployed: Topology) -> Topology:
    """node-1 and node-2 are in one rack, all others in another."""
    Node.objects.exclude(name__in=("node-1", "node-2")).update(rack="rack-b")
    return deployed


def states() -> dict[str, str]:
    return dict(Node.objects.filter(rack="rack-a").values_list("name", "state"))


def test_a_rack_is_drained_in_one_incident_with_one_entry_of_the_audit_trail(racked: Topology) -> None:
    follower = Follower()
    incident = rack_drain(rack="rack-a", **BY)
    assert incident is not None
    assert states() == {"node-1": "draining", "node-2": "draining"}
    incident_advance(number=incident.number, events=driver(1, "running", 10))
    assert newest().kind == "move"
    assert not {"node-1", "node-2"} & set(newest().assignment.values()), "nothing moved within the rack"
    assert Incident.objects.count() == 1
    entries = AuditEntry.objects.filter(action__in=("rack.drained", "node.drained"))
    assert [(entry.action, entry.target, entry.reason) for entry in entries] == [
        ("rack.drained", "rack-a", "test")
    ]
    assert entries[0].before == {"node-1": "alive", "node-2": "alive"}
    follower.check()
    assert rack_drain(rack="rack-a", **BY) is None, "a task that is delivered twice"
    assert AuditEntry.objects.filter(action="rack.drained").count() == 1


def test_a_drained_rack_takes_partitions_again(racked: Topology) -> None:
    incident = rack_drain(rack="rack-a", **BY)
    assert incident is not None
    rack_activate(rack="rack-a", **BY)
    assert states() == {"node-1": "alive", "node-2": "alive"}
    seen = [*driver(1, "running", 10), Looked(at=now().timestamp())]
    incident_advance(number=incident.number, events=seen)
    assert incident_get(1).closed_at is not None
    assert AuditEntry.objects.filter(action="rack.activated").count() == 1
    assert not AuditEntry.objects.filter(action="node.activated").exists()
    rack_activate(rack="rack-a", **BY)
    assert AuditEntry.objects.filter(action="rack.activated").count() == 1


def test_what_is_not_alive_is_left_as_it_is(racked: Topology) -> None:
    node_drain(name="node-1", **BY)
    rack_drain(rack="rack-a", **BY)
    assert AuditEntry.objects.get(action="rack.drained").before == {"node-2": "alive"}
    Node.objects.filter(rack="rack-a").update(state="lost")
    with pytest.raises(Conflict, match=r"no node of rack 'rack-a' is alive or suspect.*node-1 is lost"):
        rack_drain(rack="rack-a", **BY)
    with pytest.raises(Conflict, match="no node of rack 'rack-a' is draining"):
        rack_activate(rack="rack-a", **BY)
    for rack in ("rack-z", ""):
        with pytest.raises(Missing, match="no node is in rack"):
            rack_drain(rack=rack, **BY)


def test_the_outlook_says_what_moves_and_whether_there_is_room(racked: Topology) -> None:
    found = rack_outlook("rack-a")
    hosted = {row.label for row in Partition.objects.filter(node__rack="rack-a")}
    assert set(found.evacuation.moving["counts"]) == hosted
    assert found.leaving == ("node-1", "node-2")
    before = found.evacuation.free
    node_register(registration=registration("node-9"), at=now())
    Node.objects.filter(name="node-9").update(rack="rack-b")
    after = rack_outlook("rack-a").evacuation
    assert after.free > before
    assert not after.staying
    assert "node-9" in after.others


def test_the_outlook_names_what_has_no_room(racked: Topology) -> None:
    Node.objects.filter(rack="rack-b").update(state="draining")
    found = rack_outlook("rack-a").evacuation
    assert (found.others, found.free) == ((), 0)
    assert set(found.staying["counts"]) == set(found.moving["counts"])
    assert node_get("node-1").state == "alive", "it only looks"


@pytest.mark.parametrize(("other", "asked"), [("rack-b", "rack-b"), ("rack-a", "rack-a"), ("", "rack-a")])
def test_nodes_that_are_asked_for_come_in_another_rack_if_there_is_one(
    racked: Topology, other: str, asked: str
) -> None:
    """Where the rest of the rack takes partitions, or no other rack is known, they come in the same."""
    Node.objects.exclude(name__in=("node-1", "node-2")).update(capacity=1.0, rack=other)
    for name in ("node-1", "node-2"):
        node_drain(name=name, **BY)
    incident = incident_get(1)
    incident_advance(number=incident.number, events=driver(1, "running", 10))
    assert {request.rack for request in NodeRequest.objects.all()} == {asked}
    assert {node.rack for node in Node.objects.filter(state="requested")} == {asked}
