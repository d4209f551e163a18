"""Evening out the nodes: when an operator asks, and by policy."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from controlplane.errors import Conflict, Missing
from controlplane.incidents.balancing import SETTLED, rebalance_by_policy, rebalance_now
from controlplane.incidents.loading import plans_newest
from controlplane.incidents.models import Incident, RecoveryPlan
from controlplane.incidents.services import incident_advance
from controlplane.lifecycle.nodes import node_drain
from controlplane.lifecycle.topologies import topology_deploy
from controlplane.nodes.models import Node
from controlplane.topologies.models import Partition, Query, Topology
from controlplane.topologies.services import topology_create
from domain.recovery.events import Looked
from tests.unit.controlplane.incidents.places import now
from tests.unit.controlplane.specs import BY, spec_of

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
    assert incident.entries.filter(
        text__startswith="ada asked to rebalance the partitions of counts"
    ).exists()


def test_there_is_nothing_to_gain(deployed: Topology) -> None:
    Partition.objects.update(cpu=CPU)
    with pytest.raises(Conflict, match="is balanced"):
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
    assert incident.entries.filter(
        text__startswith="Partitions of counts can be placed better: some nodes have much more to do"
    ).exists()
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
        case _:  # all else being as it is
            Incident.objects.create(number=1, trigger="detected", detected_at=now(), opened_at=now())
    before = Incident.objects.count()
    assert rebalance_by_policy() is None
    assert Incident.objects.count() == before


@pytest.fixture
def crossed(uneven: Topology) -> Topology:
    """Work is little, so only racks count: one window could stay up without the second rack."""
    for number in range(1, 5):
        Node.objects.filter(name=f"node-{number}").update(rack="rack-a" if number < 3 else "rack-b")
    Partition.objects.update(cpu=0.001)
    Partition.objects.filter(operator__startswith="O").update(cpu=CPU)
    plan = uneven.plans.get()
    plan.assignment = {
        "Source[0]": "node-1", "Parser[0]": "node-1", "Source[1]": "node-3", "Parser[1]": "node-3",
        "O0[0]": "node-1", "O0[1]": "node-2", "O1[0]": "node-4",
    }  # fmt: skip
    plan.save()
    return uneven


def test_racks_count(crossed: Topology) -> None:
    incident = rebalance_by_policy()
    assert incident is not None
    plan = plan_now(incident)
    assert {plan.assignment["Source[1]"], plan.assignment["Parser[1]"]} <= {"node-1", "node-2"}
    assert (plan.kind, plan.rollback) == ("move", False)
    story = " ".join(incident.entries.values_list("text", flat=True))
    assert "the loss of a rack would then take down" in story
    assert "of the priority on average instead of 100%" in story


def test_racks_do_not_count_without_a_price(crossed: Topology, settings: Any) -> None:
    settings.RESURGE = replace(settings.RESURGE, rack_price=0.0)
    assert rebalance_by_policy() is None


def test_moves_out_of_a_rack_wait_for_an_approval(crossed: Topology) -> None:
    Topology.objects.update(approval="approve")
    incident = rebalance_by_policy()
    assert incident is not None
    incident_advance(number=incident.number, events=[Looked(at=now().timestamp())])
    incident.refresh_from_db()
    assert list(incident.proposals) == ["counts"]
    assert not RecoveryPlan.objects.filter(incident=incident).exists()


def test_a_clock_that_was_put_back_does_not_hold_it_up(uneven: Topology) -> None:
    uneven.plans.update(applied_at=now() + timedelta(hours=1))
    assert rebalance_by_policy() is not None


def test_one_plan_moves_only_so_many(uneven: Topology, settings: Any) -> None:
    settings.RESURGE = replace(settings.RESURGE, moves_at_once=1)
    plan = plan_now(rebalance_now(topology="counts", actor="ada", reason="two are idle"))
    assert len(plan.restore) <= 2, "one partition, or a source with its parser"


def test_many_topologies_take_no_more_queries(uneven: Topology) -> None:
    def look() -> int:
        Partition.objects.update(cpu=CPU / 100, state="running")
        Topology.objects.update(status="running")
        RecoveryPlan.objects.update(applied_at=now() - SETTLED)
        Query.objects.update(available=True)
        with CaptureQueriesContext(connection) as asked:
            assert rebalance_by_policy() is None, "little is to be gained"
        return len(asked)

    one = look()
    for number in range(3):
        topology_create(spec=spec_of(f"more-{number}"), **BY)
        topology_deploy(name=f"more-{number}", **BY)
    assert look() == one


@pytest.mark.skipif(connection.vendor != "sqlite", reason="it asks for SQLite's plan")
def test_the_newest_plans_are_found_without_reading_the_others(deployed: Topology) -> None:
    with CaptureQueriesContext(connection) as asked:
        assert plans_newest().keys() == {"counts"}
    with connection.cursor() as cursor:
        cursor.execute(f"EXPLAIN QUERY PLAN {asked[0]['sql']}")
        steps = [row[3] for row in cursor.fetchall()]
    assert not [step for step in steps if step.startswith("SCAN incidents_recoveryplan")]
