"""What a step of an incident costs with many topologies: it keeps all other writers waiting."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from controlplane.events.models import Event, EventCounter
from controlplane.incidents.applying import Application, StalePlan
from controlplane.incidents.choices import PlanState
from controlplane.incidents.models import Incident, RecoveryPlan
from controlplane.incidents.plan_states import plan_move
from controlplane.incidents.plans import plan_mark_applied, plan_mark_published
from controlplane.incidents.services import incident_advance
from controlplane.incidents.step_plans import StepPlans
from controlplane.lifecycle.nodes import node_register, nodes_lost, nodes_suspect
from controlplane.lifecycle.topologies import topology_deploy
from controlplane.nodes.models import Node, NodeRequest
from controlplane.topologies.models import AvailabilitySample, Partition, Query, Topology
from controlplane.topologies.services import topology_create
from controlplane.webhooks.models import Delivery, Webhook
from domain.recovery.events import DriverReported, Looked, PlanPublished
from tests.unit.controlplane.following import Follower
from tests.unit.controlplane.incidents.places import now, registration
from tests.unit.controlplane.specs import BY, spec_of

pytestmark = pytest.mark.django_db
NODES = 6
LOST = ("node-1", "node-2", "node-3")


@pytest.fixture(params=[2, 6])
def topologies(request: pytest.FixtureRequest, db: None) -> list[str]:
    """Some run on six nodes, each of them on all."""
    for number in range(1, NODES + 1):
        node_register(registration=registration(f"node-{number}"), at=now())
    Node.objects.update(capacity=1_000)
    names = [f"counts-{number}" for number in range(request.param)]
    for name in names:
        topology_create(spec=spec_of(name), **BY)
        topology_deploy(name=name, **BY)
        plan_mark_published(topology=name, generation=1)
        plan_mark_applied(topology=name, generation=1)
    Topology.objects.update(status="running", applied_generation=1)
    for topology in Topology.objects.all():
        homes = RecoveryPlan.objects.get(topology=topology)
        labels = {
            row.label: f"node-{1 + number % NODES}" for number, row in enumerate(topology.partitions.all())
        }
        homes.assignment = labels
        homes.save()
        for row in topology.partitions.all():
            row.node = Node.objects.get(name=labels[row.label])
            row.save()
    Partition.objects.update(cpu=0.25, state="running")
    Query.objects.update(status="available", available=True)
    return names


def statements(action: Callable[[], object]) -> list[str]:
    with CaptureQueriesContext(connection) as asked:
        action()
    return [query["sql"] for query in asked]


def seen(names: list[str]) -> list[DriverReported]:
    at, failed = now().timestamp(), Partition.objects.filter(state="failed")
    return [
        DriverReported(
            at=at, topology=name, generation=1, state="degraded", head=50, committed=50, checkpoint=0,
            absent=frozenset(row.label for row in failed.filter(topology__name=name)),
        )
        for name in names
    ]  # fmt: skip


def changed(sql: list[str]) -> list[str]:
    """Tables that these statements write to, each as often as it is written to."""
    words = [one.split('"')[1] for one in sql if one.startswith(("INSERT", "UPDATE"))]
    return sorted(words)


def test_all_topologies_are_written_together(topologies: list[str]) -> None:
    follower = Follower()
    suspected = statements(lambda: nodes_suspect(evidence=dict.fromkeys(LOST, "silent")))
    assert len(suspected) < 25
    lost = statements(lambda: nodes_lost(evidence=dict.fromkeys(LOST, "silent"), at=now()))
    for table in (
        "topologies_topology",
        "topologies_partition",
        "topologies_query",
        "topologies_availabilitysample",
        "nodes_node",
        "nodes_noderequest",
        "incidents_incidententry",
    ):
        assert changed(lost).count(table) <= (2 if table == "nodes_node" else 1), table
    assert len(lost) < 150
    incident = Incident.objects.get()
    assert set(incident.topologies.values_list("name", flat=True)) == set(topologies)
    assert AvailabilitySample.objects.count() == len(topologies)
    assert NodeRequest.objects.count() == len(LOST)
    assert not Topology.objects.exclude(status="degraded").exists()
    follower.check()

    planned = statements(
        lambda: incident_advance(number=1, events=[*seen(topologies), Looked(at=now().timestamp())])
    )
    assert RecoveryPlan.objects.filter(incident=incident).count() == len(topologies)
    for table in ("topologies_topology", "topologies_partition", "incidents_incidententry"):
        assert changed(planned).count(table) <= 1, table
    assert changed(planned).count("incidents_recoveryplan") == 2, "those before, and the new ones"
    assert len(planned) < 150
    assert {row.state for row in RecoveryPlan.objects.filter(generation=1)} == {"superseded"}
    assert not Topology.objects.exclude(status="recovering", generation=2).exists()
    follower.check()

    at = now().timestamp()
    published = [PlanPublished(at=at, topology=name, generation=2) for name in topologies]
    told = statements(lambda: incident_advance(number=1, events=published))
    assert changed(told).count("incidents_recoveryplan") == 1
    assert len(told) < 100
    assert {row.state for row in RecoveryPlan.objects.filter(generation=2)} == {"published"}
    event = Event.objects.filter(kind="plan.published", incident=1).get()
    plans = [one["fields"] for one in event.changes if one["entity"] == "plan"]
    assert len(plans) == len(topologies)
    assert not any("explanation" in plan for plan in plans), "clients have it, and it is long"
    follower.check()


def test_a_plan_names_no_queries_of_other_topologies(topologies: list[str]) -> None:
    nodes_lost(evidence=dict.fromkeys(LOST, "silent"), at=now())
    incident_advance(number=1, events=[*seen(topologies), Looked(at=now().timestamp())])
    for plan in RecoveryPlan.objects.filter(incident__number=1).select_related("topology"):
        own = {row.partition.label for row in Query.objects.filter(topology=plan.topology)}
        named = [query for one in plan.explanation["alternatives"] for query in one["queries"]]
        assert named
        assert set(named) <= own
        assert set(plan.explanation["planned_load_percent"]) == set(plan.assignment.values())


def test_events_of_nodes_lost_together_have_numbers_and_deliveries_of_their_own(db: None) -> None:
    for name in LOST:
        node_register(registration=registration(name), at=now())
    Webhook.objects.create(name="pager", url="http://127.0.0.1:9/", kinds=["node.lost"], topologies=[])
    before = EventCounter.objects.get().value
    nodes_lost(evidence={name: f"{name} is silent" for name in LOST}, at=now())
    events = Event.objects.filter(kind="node.lost")
    assert [event.sequence for event in events] == [before + 1, before + 2, before + 3]
    assert [(event.node, event.reason) for event in events] == [(name, f"{name} is silent") for name in LOST]
    for event in events:
        assert event.node in {change["key"] for change in event.changes}
    assert [one.sequence for one in Delivery.objects.order_by("sequence")] == [one.sequence for one in events]


def test_a_step_is_repeated_where_a_plan_was_moved_meanwhile(topologies: list[str]) -> None:
    nodes_lost(evidence=dict.fromkeys(LOST, "silent"), at=now())
    plans = StepPlans(now())
    plans.read(current=[topologies[0]], marked=())
    (read,) = plans.current(topologies[0])
    assert plans.move(read, PlanState.SUPERSEDED)
    assert not plans.move(read, PlanState.APPLIED), "judged by the state it is to have"
    assert plan_move(RecoveryPlan.objects.get(pk=read.pk), PlanState.VERIFIED, at=now())
    assert not plans.write()
    step = Application(Incident.objects.get(), now())
    step._plans = plans
    assert plans.move(plans.get(topologies[0], 1) or read, PlanState.SUPERSEDED) is False
    read.state = PlanState.APPLIED
    assert plans.move(read, PlanState.SUPERSEDED)
    with pytest.raises(StalePlan, match="moved meanwhile"):
        step.finish()
