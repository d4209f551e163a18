"""Incremental recovery on the real database: partial plans, orders of operators, metrics of an incident."""

from __future__ import annotations

from collections.abc import Collection
from datetime import timedelta
from typing import Any

import pytest
from django.utils import timezone

from controlplane.errors import Conflict, Missing
from controlplane.events.choices import Channel, OperationKind
from controlplane.events.models import AuditEntry, Event, Operation
from controlplane.incidents.actions import incident_action, incident_order
from controlplane.incidents.loading import deployments_load, plans_newest
from controlplane.incidents.models import Incident, RecoveryPlan
from controlplane.incidents.selectors import entry_list, incident_get
from controlplane.incidents.services import incident_advance, incident_queries_note, recover_now
from controlplane.lifecycle.nodes import node_register, nodes_lost
from controlplane.lifecycle.recovery_terms import query_priorities_set, topology_policy_set
from controlplane.topologies.models import AvailabilitySample, Partition, Query, Topology
from controlplane.topologies.policies import policy_of
from controlplane.topologies.telemetry import driver_status_apply
from domain.messages import DriverStatus
from domain.recovery.events import (
    CheckpointCompleted,
    DriverReported,
    Looked,
    PlanPublished,
)
from tests.browser.coordinating import Alone
from tests.unit.controlplane.following import Follower
from tests.unit.controlplane.incidents.places import newest, now, queries_return, registration
from workers.operations import operation_run
from workers.reconciliation import observations, plan_of
from workers.zookeeper import TopologyFacts

pytestmark = pytest.mark.django_db

BY: dict[str, Any] = {"actor": "kim", "reason": "because", "channel": Channel.REST}


@pytest.fixture
def measured(deployed: Topology) -> Topology:
    """Every partition takes 25 % of a CPU, so that a node takes three."""
    Partition.objects.update(cpu=0.25)
    return deployed


def lose(*names: str) -> Incident:
    incident = nodes_lost(evidence=dict.fromkeys(names, "its registration is gone"), at=now())
    assert incident is not None
    return incident


def seen(
    state: str, *, absent: Collection[str] = (), behind: Collection[str] = (), checkpoint: int = 20
) -> list[Any]:
    at, generation = now().timestamp(), newest().generation
    return [
        DriverReported(
            at=at, topology="counts", generation=generation, state=state, head=50, committed=50, checkpoint=0,
            absent=frozenset(absent), behind=frozenset(behind),
        ),
        CheckpointCompleted(at=at, topology="counts", checkpoint=checkpoint, generation=generation),
    ]  # fmt: skip


def look(*events: Any) -> Any:
    return incident_advance(number=1, events=[*events, Looked(at=now().timestamp())])


def unassigned() -> set[str]:
    return {row.label for row in Partition.objects.all()} - set(newest().assignment)


def test_waves_from_loss_to_close(measured: Topology) -> None:
    follower = Follower()
    lose("node-1", "node-2", "node-3")
    node_register(registration=registration("node-5"), at=now())
    assert look(*seen("degraded")).publish == ["counts"]
    first = newest()
    assert (first.method, first.wave, first.rollback, first.buffering) == ("incremental", 1, False, True)
    assert incident_get(1).method == "incremental"
    down = unassigned()
    assert down, "one node is not enough for all"
    for row in Partition.objects.all():
        where = (row.state, row.node.name if row.node else None)
        if row.label in down:
            assert where == ("failed", None)
        elif row.label in first.restore:
            assert where == ("restoring", first.assignment[row.label])
    follower.check()
    sent = plan_of(first)
    assert sent.buffering
    assert sent.method == "incremental"
    assert set(sent.assignment) == set(first.assignment)

    look(PlanPublished(at=now().timestamp(), topology="counts", generation=2))
    look(*seen("degraded", absent=down, behind=first.restore))
    assert incident_get(1).state == "replaying"
    assert newest().caught_up_at is None
    look(*seen("degraded", absent=down))
    assert newest().caught_up_at is not None, "this wave works, whatever else is down"
    assert incident_get(1).state == "acquiring"
    follower.check()

    for name in ("node-6", "node-7"):
        node_register(registration=registration(name), at=now())
    look(*seen("degraded", absent=down))
    second = newest()
    assert (second.wave, second.rollback, set(second.restore)) == (2, False, down)
    assert not unassigned()
    look(*seen("running", checkpoint=20))
    assert incident_get(1).state == "verifying"
    look(*seen("running", checkpoint=60))
    queries_return()
    look()
    assert incident_get(1).state == "closed"
    follower.check()


def test_every_step_is_from_the_database(measured: Topology) -> None:
    lose("node-1", "node-2", "node-3")
    node_register(registration=registration("node-5"), at=now())
    look(*seen("degraded"))
    incident = incident_get(1)
    assert set(incident.costs["counts"]) == {row.label for row in Partition.objects.all()}
    Partition.objects.update(cpu=0.9)
    look(*seen("degraded"))
    assert incident_get(1).costs == incident.costs, "a replay measures high costs; those of the incident stay"
    deployment = deployments_load(plans_newest(), incident)["counts"]
    assert set(deployment.homes) == set(incident.costs["counts"])
    assert deployment.before == 1
    assert deployment.unassigned == unassigned()


def test_an_aborted_incident_leaves_homes_for_the_next(measured: Topology) -> None:
    lose("node-1", "node-2", "node-3")
    node_register(registration=registration("node-5"), at=now())
    look(*seen("degraded"))
    missing = unassigned()
    incident_order(kind=OperationKind.INCIDENT_ABORT, number=1, actor="kim", reason="enough")
    incident = recover_now(topology="counts", actor="kim", reason="now all of it")
    deployment = deployments_load(plans_newest(), incident)["counts"]
    assert missing <= set(deployment.homes), "older plans tell"
    for name in ("node-6", "node-7", "node-8"):
        node_register(registration=registration(name), at=now())
    incident_advance(number=2, events=[*seen("degraded"), Looked(at=now().timestamp())])
    assert newest().method == "incremental"
    assert not unassigned()


def test_the_driver_tells_which_partitions_are_behind(measured: Topology) -> None:
    status = DriverStatus(
        topology="counts", pid=1, session="a", generation=1, state="degraded", head=9, committed=9,
        checkpoint=0, absent=["O0[0]"], behind=["O1[0]"], refused=2, restorable=[0, 9], at=1.0,
    )  # fmt: skip
    fact = TopologyFacts(name="counts", spec=None, driver=status, latest=None, plan=None)
    (event,) = observations({"counts": fact})
    assert isinstance(event, DriverReported)
    assert (event.absent, event.behind) == (frozenset({"O0[0]"}), frozenset({"O1[0]"}))
    assert (event.refused, event.restorable) == (2, frozenset({0, 9}))
    driver_status_apply(status=status)
    states = {row.label: row.state for row in Partition.objects.all()}
    assert (states["O0[0]"], states["O1[0]"], states["O0[1]"]) == ("failed", "replaying", "running")


def test_a_plan_that_its_driver_refuses_is_made_again(measured: Topology) -> None:
    """Every step begins anew, and the database does not know of the checkpoints that the driver names."""
    follower = Follower()
    incident = recover_now(topology="counts", actor="kim", reason="wrong output")
    look(*seen("running", checkpoint=20))
    look(PlanPublished(at=now().timestamp(), topology="counts", generation=2))
    refused = newest()
    assert (refused.generation, refused.checkpoint, refused.state) == (2, 20, "published")
    refusal = DriverReported(
        at=now().timestamp(), topology="counts", generation=1, state="running", head=90, committed=90,
        checkpoint=0, refused=2, restorable=frozenset({60, 70, 80}),
    )  # fmt: skip
    look(refusal)
    refused.refresh_from_db()
    assert (refused.state, refused.applied_at) == ("superseded", None)
    again = newest()
    assert (again.generation, again.checkpoint, again.state) == (3, 80, "planned")
    look(refusal)
    assert newest() == again, "told again, it is about the plan before"
    told = [entry.text for entry in entry_list(incident.number) if "cannot apply plan 2" in entry.text]
    assert len(told) == 1
    follower.check()


def test_a_plan_names_the_deployment_it_is_about(deployed: Topology) -> None:
    recover_now(topology="counts", actor="kim", reason="wrong output")
    look(*seen("running"))
    assert (newest().generation, plan_of(newest()).deployed) == (2, 1)
    RecoveryPlan.objects.create(topology=deployed, generation=3, kind="deploy", assignment={})
    assert plan_of(newest()).deployed == 3
    assert plan_of(RecoveryPlan.objects.get(topology=deployed, generation=2)).deployed == 1


def test_approval_through_operations(measured: Topology) -> None:
    topology_policy_set(name="counts", changes={"approval": "approve"}, **BY)
    with pytest.raises(Missing):
        incident_action(kind=OperationKind.INCIDENT_APPROVE, number=1, **BY)
    lose("node-1", "node-2", "node-3")
    with pytest.raises(Conflict, match="no plan that waits"):
        incident_action(kind=OperationKind.INCIDENT_APPROVE, number=1, **BY)
    node_register(registration=registration("node-5"), at=now())
    follower = Follower()
    look(*seen("degraded"))
    assert newest().generation == 1
    (waiting,) = incident_get(1).proposals.values()
    assert waiting["restore"]
    follower.check()
    with pytest.raises(Conflict, match="'counts-w1-old' is no longer proposed"):
        incident_action(kind=OperationKind.INCIDENT_APPROVE, number=1, proposal="counts-w1-old", **BY)

    early = incident_action(kind=OperationKind.INCIDENT_APPROVE, number=1, **BY)
    assert early.parameters == {"proposals": [waiting["proposal"]]}
    node_register(registration=registration("node-6"), at=now())
    look(*seen("degraded"))  # another node makes another proposal, so the approval is out of date
    coordination: Any = Alone()
    operation_run(coordination, str(early.pk))
    early.refresh_from_db()
    assert (early.state, newest().generation) == ("failed", 1)
    assert "is no longer proposed" in early.error

    operation = incident_action(kind=OperationKind.INCIDENT_APPROVE, number=1, idempotency_key="k", **BY)
    again = incident_action(kind=OperationKind.INCIDENT_APPROVE, number=1, idempotency_key="k", **BY)
    assert again == operation
    operation_run(coordination, str(operation.pk))
    operation.refresh_from_db()
    assert operation.state == "succeeded"
    assert newest().generation == 2
    assert newest().explanation["proposal"] == operation.parameters["proposals"][0]
    assert incident_get(1).proposals == {}
    assert AuditEntry.objects.filter(action="incident.approve").count() == 2
    assert "kim confirmed proposal" in " ".join(entry.text for entry in entry_list(1))
    follower.check()


def test_a_second_approval_is_told_who_was_first(measured: Topology) -> None:
    topology_policy_set(name="counts", changes={"approval": "approve"}, **BY)
    lose("node-1", "node-2", "node-3")
    node_register(registration=registration("node-5"), at=now())
    look(*seen("degraded"))
    (waiting,) = incident_get(1).proposals.values()
    proposal, kind = waiting["proposal"], OperationKind.INCIDENT_APPROVE
    first = incident_action(kind=kind, number=1, **BY)
    second = {**BY, "actor": "lee", "reason": "looks good"}
    told = (
        rf"proposal {proposal} was approved by kim at {first.created_at:%Y-%m-%d %H:%M:%S} UTC already \(beca"
    )

    def refused() -> None:
        for one in ("", proposal):
            with pytest.raises(Conflict, match=told):
                incident_action(kind=kind, number=1, proposal=one, **second)

    refused()
    coordination: Any = Alone()
    operation_run(coordination, str(first.pk))
    assert incident_get(1).proposals == {}
    refused()
    assert Operation.objects.filter(kind=kind).count() == 1
    with pytest.raises(Conflict, match="incident 1 has no plan that waits for approval"):
        incident_action(kind=kind, number=1, proposal="counts-w9-none", **second)
    # Thrown away and proposed anew, it waits for another approval.
    Incident.objects.update(proposals={"counts": waiting})
    anew = incident_action(kind=kind, number=1, **second)
    assert anew.parameters == {"proposals": [proposal]}


def test_what_another_has_approved_is_left_out_where_all_is_approved(deployed: Topology) -> None:
    lose("node-1")
    Incident.objects.update(proposals={"a": {"proposal": "a-w1-x"}, "b": {"proposal": "b-w1-x"}})
    kind = OperationKind.INCIDENT_APPROVE
    incident_action(kind=kind, number=1, proposal="a-w1-x", **BY)
    rest = incident_action(kind=kind, number=1, **{**BY, "actor": "lee"})
    assert rest.parameters == {"proposals": ["b-w1-x"]}


def test_what_changed_while_a_plan_was_confirmed(measured: Topology) -> None:
    """The coordinator has not looked at the new node yet, so the old plan is still proposed. Its confirmation
    answers that it is not carried out, and which plan is proposed instead."""
    topology_policy_set(name="counts", changes={"approval": "approve"}, **BY)
    lose("node-1", "node-2", "node-3")
    node_register(registration=registration("node-5"), at=now())
    look(*seen("degraded"))
    (before,) = incident_get(1).proposals.values()
    operation = incident_action(kind=OperationKind.INCIDENT_APPROVE, number=1, **BY)
    node_register(registration=registration("node-6"), at=now())
    coordination: Any = Alone()
    operation_run(coordination, str(operation.pk))
    operation.refresh_from_db()
    assert operation.state == "failed"
    assert f"{before['proposal']} was confirmed, but the situation has changed" in operation.error
    assert newest().generation == 1
    (instead,) = incident_get(1).proposals.values()
    assert instead["proposal"] != before["proposal"]
    told = entry_list(1).last()
    assert told is not None
    assert told.text.startswith(f"Proposal {before['proposal']} was confirmed, but the situation has changed")


def test_what_is_confirmed_during_a_pause_waits_for_its_end(measured: Topology) -> None:
    topology_policy_set(name="counts", changes={"approval": "approve"}, **BY)
    lose("node-1", "node-2", "node-3")
    node_register(registration=registration("node-5"), at=now())
    look(*seen("degraded"))
    coordination: Any = Alone()
    for kind, generation in (("pause", 1), ("approve", 1), ("resume", 2)):
        operation = incident_action(kind=OperationKind(f"incident.{kind}"), number=1, **BY)
        operation_run(coordination, str(operation.pk))
        operation.refresh_from_db()
        assert (operation.state, newest().generation) == ("succeeded", generation)


def test_pause_resume_replan_and_abort_through_operations(measured: Topology) -> None:
    coordination: Any = Alone()
    lose("node-1", "node-2", "node-3")

    def ask(kind: OperationKind) -> Operation:
        operation = incident_action(kind=kind, number=1, **BY)
        operation_run(coordination, str(operation.pk))
        operation_run(coordination, str(operation.pk))  # delivered twice
        operation.refresh_from_db()
        assert operation.state == "succeeded", operation.error
        return operation

    with pytest.raises(Conflict, match="only a paused recovery can be resumed"):
        incident_action(kind=OperationKind.INCIDENT_RESUME, number=1, **BY)
    ask(OperationKind.INCIDENT_PAUSE)
    assert incident_get(1).paused
    with pytest.raises(Conflict, match="paused already"):
        incident_action(kind=OperationKind.INCIDENT_PAUSE, number=1, **BY)
    node_register(registration=registration("node-5"), at=now())
    look(*seen("degraded"))
    assert newest().generation == 1, "paused"
    ask(OperationKind.INCIDENT_RESUME)
    assert newest().generation == 2
    ask(OperationKind.INCIDENT_REPLAN)
    assert newest().generation == 3, "the plan was not applied yet; once, though delivered twice"
    assert RecoveryPlan.objects.get(generation=2).state == "superseded"
    ask(OperationKind.INCIDENT_ABORT)
    assert incident_get(1).state == "aborted"
    with pytest.raises(Conflict, match="is aborted; no action on it"):
        incident_action(kind=OperationKind.INCIDENT_REPLAN, number=1, **BY)
    with pytest.raises(Conflict, match="aborted already"):
        incident_order(kind=OperationKind.INCIDENT_PAUSE, number=1, actor="kim", reason="late")


def test_edits_have_the_open_incident_looked_at(
    measured: Topology, sent_tasks: list[Any], django_capture_on_commit_callbacks: Any
) -> None:
    with django_capture_on_commit_callbacks(execute=True):
        query_priorities_set(topology="counts", priorities={"O1[0]": 9}, **BY)
    assert not [message for message in sent_tasks if message[0] == "recovery.incident_step"]
    with django_capture_on_commit_callbacks(execute=True):
        lose("node-1", "node-2", "node-3")
    sent_tasks.clear()
    with django_capture_on_commit_callbacks(execute=True):
        query_priorities_set(topology="counts", priorities={"O1[0]": 10, "O0[0]": 1, "O0[1]": 1}, **BY)
        topology_policy_set(name="counts", changes={"rollback": "global"}, **BY)
    assert sent_tasks.count(("recovery.incident_step", 1)) == 2
    node_register(registration=registration("node-5"), at=now())
    look(*seen("degraded"))
    assert newest().rollback
    explained = {one["query"]: one["priority"] for one in newest().explanation["explanations"]}
    assert explained["O1[0]"] == 10


def test_policies_are_audited_and_fall_back_on_the_installation(measured: Topology) -> None:
    follower = Follower()
    assert policy_of(measured).correlation_threshold == 2
    row = topology_policy_set(
        name="counts", changes={"planner": "look_ahead", "correlation_threshold": 5}, **BY
    )
    assert (policy_of(row).planner, policy_of(row).correlation_threshold) == ("look_ahead", 5)
    follower.check()
    entry = AuditEntry.objects.get(action="topology.policy")
    assert entry.before == {"planner": "best_density", "correlation_threshold": None}
    events = Event.objects.count()
    topology_policy_set(name="counts", changes={"planner": "look_ahead"}, **BY)
    assert Event.objects.count() == events, "nothing has changed"


def test_area_under_the_availability_curve(measured: Topology) -> None:
    incident = lose("node-1", "node-2", "node-3", "node-4")
    start = timezone.now() - timedelta(seconds=100)
    Incident.objects.update(detected_at=start)
    AvailabilitySample.objects.all().delete()
    for seconds, weighted in ((-5, 1.0), (0, 0.0), (50, 0.5)):
        at = start + timedelta(seconds=seconds)
        AvailabilitySample.objects.create(topology=measured, at=at, available=1, total=3, weighted=weighted)
    assert incident_get(1).availability_area is None
    Query.objects.update(available=True)
    incident_queries_note(number=incident.number)
    # Half the time nothing, half the time half of the priority.
    assert incident_get(1).availability_area == pytest.approx(0.25, abs=0.01)
