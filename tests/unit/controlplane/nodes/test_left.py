"""Nodes that left as the installation stopped, and that do not come back."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from controlplane.incidents.models import Incident
from controlplane.lifecycle.nodes import nodes_leave, nodes_lost
from controlplane.lifecycle.topologies import topology_deploy
from controlplane.nodes.models import Node
from controlplane.topologies.models import Topology
from controlplane.topologies.telemetry import driver_status_apply
from tests.unit.controlplane.incidents.places import now
from tests.unit.controlplane.specs import BY, driver_status
from workers.launcher.nodes import nodes_compare
from workers.providers.base import NodeDescription, RunningNode


def listed(name: str, *, alive: bool) -> RunningNode:
    return RunningNode(description=NodeDescription(name=name, rack="r"), address="a", pid=1, alive=alive)


def test_what_ran_on_a_node_that_ends_before_it_is_back_is_recovered(topology: Topology) -> None:
    topology_deploy(name="counts", **BY)
    topology.refresh_from_db()
    driver_status_apply(status=driver_status(topology))
    nodes_leave(reason="the installation is stopped")
    released: list[str] = []
    provider: Any = SimpleNamespace(release=released.append)
    known = [listed("node-1", alive=False), *(listed(f"node-{number}", alive=True) for number in (2, 3, 4))]
    nodes_compare(provider=provider, known=known)
    assert not released, "the others are on their way"
    Node.objects.filter(name__in=("node-2", "node-3", "node-4")).update(state="alive")
    nodes_compare(provider=provider, known=known)
    assert released == ["node-1"]
    assert Node.objects.get(name="node-1").state == "lost"
    (evidence,) = Incident.objects.get().entries.filter(kind="evidence")
    assert evidence.text == "node-1: it was started again, and ended before it registered; see its log."


def test_a_node_that_left_is_not_lost_where_detection_misses_it(topology: Topology) -> None:
    topology_deploy(name="counts", **BY)
    nodes_leave(reason="the installation is stopped")
    assert nodes_lost(evidence={"node-2": "its registration is gone"}, at=now()) is None
    assert Node.objects.get(name="node-2").state == "left"
