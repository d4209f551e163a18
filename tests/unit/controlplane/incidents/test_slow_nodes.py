"""Slow nodes are drained by policy: one at a time, after a while, and never during a recovery."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from msgspec import structs

from controlplane.incidents.models import Incident
from controlplane.lifecycle.slow_nodes import drain_by_policy
from controlplane.nodes.models import Node
from controlplane.topologies.models import Topology
from controlplane.topologies.telemetry import driver_status_apply
from domain.messages import DriverStatus
from tests.unit.controlplane.incidents.places import now
from workers.reconciliation import driver_reconcile
from workers.zookeeper import TopologyFacts


def slow(topology: Topology, **seconds: float) -> None:
    """Nodes that have been slow for so long."""
    topology.slow_since = {
        name.replace("_", "-"): (now() - timedelta(seconds=ago)).isoformat() for name, ago in seconds.items()
    }
    topology.save()


def draining() -> set[str]:
    return set(Node.objects.filter(state="draining").values_list("name", flat=True))


def test_a_node_that_stays_slow_is_drained(deployed: Topology) -> None:
    slow(deployed, node_2=25.0)
    incident = drain_by_policy()
    assert incident is not None
    assert (incident.trigger, draining()) == ("slow", {"node-2"})
    story = "\n".join(incident.entries.values_list("text", flat=True))
    assert "node-2 is slow, so it is drained: its tasks have taken a multiple" in story
    assert f"for 25 s, as {deployed.name} reports" in story


def test_the_one_that_has_been_slow_for_longest_is_drained_first_and_alone(deployed: Topology) -> None:
    slow(deployed, node_1=25.0, node_2=40.0)
    assert drain_by_policy() is not None
    assert draining() == {"node-2"}
    assert drain_by_policy() is None, "an incident is open"
    assert draining() == {"node-2"}


def test_what_is_slow_for_a_moment_stays(deployed: Topology) -> None:
    slow(deployed, node_2=5.0)
    assert drain_by_policy() is None


def test_the_policy_may_leave_it_to_an_operator(deployed: Topology) -> None:
    slow(deployed, node_2=25.0)
    Topology.objects.update(slow_nodes="manual")
    assert drain_by_policy() is None


def test_it_can_be_switched_off(deployed: Topology, settings: Any) -> None:
    slow(deployed, node_2=25.0)
    settings.RESURGE = replace(settings.RESURGE, slow_after=0.0)
    assert drain_by_policy() is None


def test_the_only_node_is_not_drained(deployed: Topology) -> None:
    slow(deployed, node_2=25.0)
    Node.objects.exclude(name="node-2").update(standby=True)
    assert drain_by_policy() is None, "standbys are for failures"
    Node.objects.exclude(name="node-2").update(state="lost")
    assert drain_by_policy() is None


def test_what_a_driver_that_died_said_last_drains_no_node(deployed: Topology) -> None:
    """The next one takes a minute to look; the node may be well."""
    slow(deployed, node_2=25.0)
    driver_reconcile(TopologyFacts(deployed.name, None, None, None, None))
    assert drain_by_policy() is None
    assert Topology.objects.get().slow_since == {}


@pytest.fixture
def status(deployed: Topology) -> DriverStatus:
    return DriverStatus(
        topology=deployed.name,
        pid=1,
        session="1",
        generation=deployed.generation,
        state="running",
        head=10,
        committed=10,
        checkpoint=0,
        slow=["node-2"],
        at=0.0,
    )


def test_since_when_a_node_is_slow_is_kept_until_it_is_well(deployed: Topology, status: DriverStatus) -> None:
    def told(**changes: Any) -> dict[str, str]:
        driver_status_apply(status=structs.replace(status, **changes))
        deployed.refresh_from_db()
        return dict(deployed.slow_since)

    first = told()
    assert set(first) == {"node-2"}
    both = told(head=11, slow=["node-1", "node-2"])
    assert both["node-2"] == first["node-2"] < both["node-1"]
    assert told(head=12, slow=[]) == {}
    assert not Incident.objects.exists()
