"""Evening out the nodes: when an operator asks, and by policy."""

from __future__ import annotations

from datetime import timedelta

import pytest

from controlplane.errors import Conflict, Missing
from controlplane.incidents.balancing import SETTLED, rebalance_by_policy, rebalance_now
from controlplane.incidents.models import Incident, RecoveryPlan
from controlplane.incidents.services import incident_advance
from controlplane.lifecycle.nodes import node_drain
from controlplane.topologies.models import Partition, Topology
from domain.recovery.events import Looked
from tests.unit.controlplane.incidents.places import now

CPU = 0.15
"""Cores of each partition."""


@pytest.fixture
def uneven(deployed: Topology) -> Topology:
    """Everything runs on node-1, well and long enough to be measured."""
    Partition.objects.update(cpu=CPU, state="running")
    deployed.queries.update(available=True)
    plan = deployed.plans.get()
    plan.assignment = dict.fromkeys(plan.assignment, "node-1")
    plan.applied_at = now() - SETTLED - timedelta(seconds=1)
    plan.save()
    return deployed


def nodes_of(topology: Topology) -> set[str]:
    return set(topology.plans.order_by("-generation").first().assignment.values())


def plan_now(incident: Incident) -> RecoveryPlan:
    incident_advance(number=incident.number, events=[Looked(at=now().timestamp())])
    return RecoveryPlan.objects.get(incident=incident)


def test_an_operator_asks(uneven: Topology) -> None:
    incident = rebalance_now(topology="counts", actor="ada", reason="two are idle")
    plan = plan_now(incident)
    assert incident.trigger == "manual"
    assert (plan.kind, plan.method, plan.rollback) == ("move", "move", False)
    assert len(nodes_of(uneven)) > 1
    assert {plan.assignment[p] for p in plan.restore} <= {"node-2", "node-3", "node-4"}
    uneven.refresh_from_db()
    assert uneven.status == "running", "nothing is put back, so it is not recovering"
    assert set(uneven.partitions.values_list("state", flat=True)) == {"running"}
    assert incident.entries.filter(text__startswith="ada asked to even out the nodes of counts").exists()


def test_there_is_nothing_to_gain(deployed: Topology) -> None:
    Partition.objects.update(cpu=CPU)
    with pytest.raises(Conflict, match="used evenly"):
        rebalance_now(topology="counts", actor="ada", reason="just so")
    assert not Incident.objects.exists()


def test_a_recovery_comes_first(uneven: Topology) -> None:
    node_drain(name="node-1", actor="ada", reason="a new kernel")
    before = Incident.objects.get().entries.count()
    with pytest.raises(Conflict, match="incident 1 is recovering topology 'counts'"):
        rebalance_now(topology="counts", actor="ada", reason="two are idle")
    assert Incident.objects.get().entries.count() == before


def test_only_what_runs_can_move(uneven: Topology) -> None:
    Topology.objects.update(status="recovering")
    with pytest.raises(Conflict, match="only partitions that run"):
        rebalance_now(topology="counts", actor="ada", reason="two are idle")
    with pytest.raises(Missing):
        rebalance_now(topology="sums", actor="ada", reason="two are idle")


def test_the_policy_asks(uneven: Topology) -> None:
    incident = rebalance_by_policy()
    assert incident is not None
    assert incident.trigger == "balance"
    assert incident.entries.filter(text__startswith="The nodes of counts are uneven").exists()
    assert plan_now(incident).kind == "move"
    assert rebalance_by_policy() is None, "one incident at a time"


@pytest.mark.parametrize(
    "but",
    [
        "the policy says manual",
        "a query is not available",
        "the plan is new",
        "little is gained",
        "an incident is open",
    ],
)
def test_the_policy_does_not_ask(uneven: Topology, but: str) -> None:
    match but:
        case "the policy says manual":
            Topology.objects.update(rebalancing="manual")
        case "a query is not available":
            query = uneven.queries.first()
            assert query is not None
            type(query).objects.filter(pk=query.pk).update(available=False)
        case "the plan is new":
            RecoveryPlan.objects.update(applied_at=now() - SETTLED + timedelta(seconds=5))
        case "little is gained":
            Partition.objects.update(cpu=CPU / 100)
        case _:
            node_drain(name="node-1", actor="ada", reason="a new kernel")
    before = Incident.objects.count()
    assert rebalance_by_policy() is None
    assert Incident.objects.count() == before
