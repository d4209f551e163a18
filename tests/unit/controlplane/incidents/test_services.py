"""Nodes and incidents in the database: one transaction and one story per step, snapshot plus events."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from typing import Any

import msgspec
import pytest
from django.db import connection
from django.utils import timezone

from controlplane.checkpoints.models import Checkpoint
from controlplane.errors import Conflict, Missing
from controlplane.events.choices import OperationKind
from controlplane.events.models import AuditEntry, Event
from controlplane.incidents import loading
from controlplane.incidents.actions import incident_action, incident_order
from controlplane.incidents.applying import Application, StalePlan
from controlplane.incidents.models import Incident, IncidentEntry, RecoveryPlan
from controlplane.incidents.selectors import (
    entry_list,
    incident_get,
    incident_list,
    incidents_open,
    incidents_with_queries_down,
    plan_list,
)
from controlplane.incidents.services import (
    incident_advance,
    incident_queries_note,
    partitions_lost,
    recover_now,
    story_add,
)
from controlplane.lifecycle.nodes import (
    node_activate,
    node_drain,
    node_register,
    node_trust,
    nodes_leave,
    nodes_lost,
    nodes_suspect,
)
from controlplane.lifecycle.topologies import topology_deploy, topology_undeploy
from controlplane.nodes.choices import NODE_REQUEST_OPEN
from controlplane.nodes.models import Node, NodeRequest
from controlplane.nodes.selectors import node_get, node_name_next
from controlplane.topologies.models import Partition, Query, Topology
from controlplane.topologies.telemetry import topology_stopped
from domain.recovery.events import DriverReported, Looked, PartitionsLost, PlanPublished
from domain.recovery.instructions import MarkPlan
from tests.unit.controlplane.following import Follower
from tests.unit.controlplane.incidents.places import driver, newest, now, queries_return, registration
from tests.unit.controlplane.specs import BY

pytestmark = pytest.mark.django_db


def lose(*names: str) -> Incident:
    incident = nodes_lost(evidence=dict.fromkeys(names, "its registration is gone"), at=now())
    assert incident is not None
    return incident


def look(incident: Incident, *events: Any) -> Any:
    return incident_advance(number=incident.number, events=[*events, Looked(at=now().timestamp())])


def test_a_plan_of_before_the_incident_stays_as_it_is(deployed: Topology) -> None:
    incident = lose("node-1")
    deployed.plans.update(state="published")
    mark = MarkPlan(topology="counts", generation=1, state="superseded", reason="test")
    Application(incident, now()).carry_out([mark])
    assert newest().state == "published"
    deployed.plans.update(incident=incident)
    Application(incident, now()).carry_out([mark])
    assert newest().state == "superseded"


def test_whole_recovery_is_told_and_followed(deployed: Topology) -> None:
    Topology.objects.update(method="blocking")
    follower = Follower()
    incident = lose("node-1", "node-2")
    follower.check()
    assert incident.number == 1
    assert node_get("node-1").state == "lost"
    asked = NodeRequest.objects.filter(state__in=NODE_REQUEST_OPEN)
    assert {request.key for request in asked} == {"incident-1/node-1/1", "incident-1/node-2/1"}
    assert [n.name for n in Node.objects.filter(state="requested")] == ["node-5", "node-6"]
    assert not Query.objects.filter(available=True).exists()

    node_register(registration=registration("node-5"), at=now())
    look(incident)
    assert newest().generation == 1, "one of two is here"
    node_register(registration=registration("node-6"), at=now())
    applied = look(incident, *driver(1, "degraded", checkpoint=20))
    assert applied.publish == ["counts"]
    plan = newest()
    assert (plan.generation, plan.state, plan.rollback, plan.checkpoint) == (2, "planned", True, 20)
    assert not {"node-1", "node-2"} & set(plan.assignment.values())
    follower.check()

    look(incident, PlanPublished(at=now().timestamp(), topology="counts", generation=2))
    look(incident, *driver(2, "replaying", 20))
    assert incident_get(1).state == "replaying"
    follower.check()
    assert look(incident, *driver(2, "running", 20)).checkpoint == ["counts"]
    look(incident, *driver(2, "running", 60))
    assert incident_get(1).state == "catching_up", "its queries are not available yet"
    queries_return()
    look(incident)
    closed = incident_get(1)
    assert (closed.state, newest().state) == ("closed", "verified")
    assert closed.closed_at is not None
    assert closed.checkpoints == {"counts": 20}
    assert not incidents_open().exists()
    follower.check()
    kinds = [entry.kind for entry in entry_list(1)]
    assert kinds[0] == "stimulus"
    assert kinds[-1] == "outcome"
    assert {"evidence", "decision", "step"} <= set(kinds)
    assert {"incident.opened", "plan.published", "plan.applied", "incident.closed"} <= set(
        Event.objects.values_list("kind", flat=True)
    )


def test_the_recovery_worker_is_told_after_the_commit(
    deployed: Topology, sent_tasks: list[Any], django_capture_on_commit_callbacks: Any
) -> None:
    with django_capture_on_commit_callbacks(execute=True):
        lose("node-1")
        assert sent_tasks == []
    assert ("recovery.incident_step", 1) in sent_tasks


def restored(*lost: str) -> Incident:
    """Everything that ran on these nodes is restored and verified; no query is available yet."""
    incident = lose(*lost)
    node_register(registration=registration("node-5"), at=now())
    for state, checkpoint in (("degraded", 10), ("replaying", 10), ("running", 10), ("running", 20)):
        look(incident, *driver(newest().generation, state, checkpoint))
    return incident_get(1)


def test_an_incident_stays_open_until_its_queries_are_available(deployed: Topology) -> None:
    incident = restored("node-1")
    assert incident.state == "catching_up"
    assert "3 queries that failed are not available yet" in entry_list(1).last().text
    follower = Follower()
    assert follower.entities["incident"]["1"]["health"]["word"] == "Restored, catching up"
    look(incident)
    assert incident_get(1).state == "catching_up"
    queries_return(1.6, available=False)
    look(incident)
    assert incident_get(1).state == "catching_up"
    queries_return()
    look(incident)
    follower.check()
    closed = incident_get(1)
    assert (closed.state, closed.closed_at) == ("closed", closed.all_queries_at)
    assert follower.entities["incident"]["1"]["health"]["word"] == "Recovered"


def test_a_loss_while_it_catches_up_grows_it(deployed: Topology) -> None:
    restored("node-1")
    assert lose("node-5").number == 1
    assert incident_get(1).state == "acquiring"


def test_an_undeployed_topology_is_not_waited_for(deployed: Topology) -> None:
    incident = restored("node-1")
    topology_undeploy(name="counts", **BY)
    look(incident)
    assert incident_get(1).state == "closed"
    assert Follower().entities["incident"]["1"]["health"]["word"] == "Closed, 0 of 3 back"


def test_queries_of_a_later_deployment_have_not_returned(deployed: Topology) -> None:
    incident = restored("node-1")
    topology_undeploy(name="counts", **BY)
    look(incident)
    topology_stopped(name="counts")
    topology_deploy(name="counts", **BY)
    queries_return(1.0)
    incident_queries_note(number=1)
    row = incident_get(1)
    assert (row.state, row.all_queries_at, row.summary.get("returned", {})) == ("closed", None, {})
    assert "available again" not in " ".join(one.text for one in entry_list(1))


def test_an_operator_accepts_that_queries_are_not_available(deployed: Topology) -> None:
    incident = lose("node-1")
    with pytest.raises(Conflict, match="is still to be restored"):
        incident_action(kind=OperationKind.INCIDENT_ACCEPT, number=1, **BY)
    node_register(registration=registration("node-5"), at=now())
    for state, checkpoint in (("degraded", 10), ("replaying", 10), ("running", 10), ("running", 20)):
        look(incident, *driver(newest().generation, state, checkpoint))
    queries_return(1.6, available=False)
    follower = Follower()
    incident_action(kind=OperationKind.INCIDENT_ACCEPT, number=1, **BY)
    entry = AuditEntry.objects.order_by("-pk")[0]
    assert (entry.action, entry.actor, entry.reason) == ("incident.accept", "ada", "test")
    incident_order(kind=OperationKind.INCIDENT_ACCEPT, number=1, actor="ada", reason="two nodes less")
    follower.check()
    assert incident_get(1).state == "closed"
    health = follower.entities["incident"]["1"]["health"]
    assert (health["word"], health["note"]) == (
        "Closed, 0 of 3 back",
        "3 queries were not available again, which an operator has accepted",
    )
    assert Query.objects.filter(accept_latency=True).count() == 3
    assert "ada accepted that 3 queries" in " ".join(one.text for one in entry_list(1))
    # Detection takes the latencies as the usual ones; that is noted after the incident has closed.
    assert [one.number for one in incidents_with_queries_down()] == [1]
    queries_return(1.6)
    incident_queries_note(number=1)
    follower.check()
    assert follower.entities["incident"]["1"]["health"]["word"] == "Recovered"
    assert not incidents_with_queries_down()


def test_repeating_a_step_writes_nothing(deployed: Topology, monkeypatch: pytest.MonkeyPatch) -> None:
    """At the same moment: as time passes, the estimate of when it will be over moves and is told anew."""
    stopped = now()
    monkeypatch.setattr(timezone, "now", lambda: stopped)
    incident = lose("node-1")
    look(incident, *driver(1, "degraded", 20))
    events = Event.objects.count()
    for _ in range(3):
        look(incident, *driver(1, "degraded", 20))
    assert Event.objects.count() == events
    stopped += timedelta(seconds=60)
    look(incident, *driver(1, "degraded", 20))
    assert Event.objects.count() == events + 1


def test_a_replacement_is_like_the_node_that_was_lost(deployed: Topology) -> None:
    like = {"rack": "rack-z", "slots": 3, "capacity": 250.0, "standby": True}
    Node.objects.filter(name="node-1").update(**like)
    lose("node-1")
    assert NodeRequest.objects.values(*like).get() == like
    assert Node.objects.filter(name="node-5").values(*like).get() == like


def test_a_replacement_that_does_not_come_is_given_up(deployed: Topology) -> None:
    incident = lose("node-1")
    NodeRequest.objects.update(state="started", started_at=now() - timedelta(seconds=121))
    look(incident)
    found = NodeRequest.objects.order_by("id").values_list("node_name", "state", "attempt")
    assert list(found) == [("node-5", "failed", 1), ("node-6", "pending", 2)]
    assert (node_get("node-5").state, incident_get(1).wanted_nodes) == ("left", 2)


def test_a_plan_keeps_what_was_noted_before(deployed: Topology) -> None:
    Topology.objects.update(acting={"O0[0]": "node-2"})
    incident = lose("node-1")
    Incident.objects.update(checkpoints={"other": 5}, costs={"other": {"A[0]": 3.0}})
    node_register(registration=registration("node-5"), at=now())
    look(incident, *driver(1, "degraded", 20))
    after = incident_get(1)
    assert after.checkpoints == {"other": 5, "counts": 20}
    assert after.costs.keys() == {"other", "counts"}
    assert newest().acting == {"O0[0]": "node-2"}
    assert [plan.state for plan in plan_list(topology="counts")] == ["planned", "superseded"]
    assert Topology.objects.get().status == "recovering"


def test_a_query_that_is_lost_again_is_not_back(deployed: Topology) -> None:
    incident = lose("node-1")
    reason = incident_get(1).reason
    Query.objects.update(available=True, status="available")
    look(incident)
    assert incident_get(1).all_queries_at is not None
    assert incident_get(1).summary["returned"]
    lose("node-2")
    grown = incident_get(1)
    assert (grown.first_query_at, grown.all_queries_at, grown.summary["returned"]) == (None, None, {})
    assert grown.reason == reason, "that of the loss with which it began"


def test_latencies_are_accepted_of_the_queries_that_are_waited_for(deployed: Topology) -> None:
    restored("node-1")
    Incident.objects.update(summary={"failed_queries": {"counts": ["O0[1]"]}})
    incident_order(kind=OperationKind.INCIDENT_ACCEPT, number=1, actor="ada", reason="two nodes less")
    assert [row.partition.label for row in Query.objects.filter(accept_latency=True)] == ["O0[1]"]


def test_a_move_puts_nothing_back(deployed: Topology) -> None:
    at = now()
    Checkpoint.objects.create(
        topology=deployed, epoch=10, generation=1, state="completed", stored=True, started_at=at, ended_at=at
    )
    incident = node_drain(name="node-1", actor="kim", reason="new kernel")
    assert incident is not None
    look(incident, *driver(1, "running", 10))
    look(incident, *driver(2, "running", 10))
    assert newest().applied_at is not None
    assert (incident_get(1).checkpoints, Topology.objects.get().status) == ({}, "running")
    assert Checkpoint.objects.get().restored_at is None
    assert not Partition.objects.filter(state="restoring").exists()


def overtake(monkeypatch: pytest.MonkeyPatch, change: Callable[[], object]) -> None:
    """Have `change` come when the machine has been loaded."""
    load, times = loading.machine_load, iter([True])

    def load_and_overtake(*arguments: Any, **options: Any) -> Any:
        machine = load(*arguments, **options)
        if next(times, False):
            change()
        return machine

    monkeypatch.setattr("controlplane.incidents.services.machine_load", load_and_overtake)


def test_plans_are_made_before_the_transaction(deployed: Topology, monkeypatch: pytest.MonkeyPatch) -> None:
    incident = lose("node-1")
    node_register(registration=registration("node-5"), at=now())
    nested: list[int] = []
    overtake(monkeypatch, lambda: nested.append(len(connection.savepoint_ids)))
    look(incident)
    assert nested == [len(connection.savepoint_ids)]
    assert newest().generation == 2


@pytest.mark.parametrize(
    "change",
    [
        pytest.param(lambda: Topology.objects.update(generation=7), id="another plan"),
        pytest.param(lambda: Topology.objects.update(approval="manual"), id="another policy"),
        pytest.param(lambda: Topology.objects.update(desired="stopped"), id="undeployed"),
        pytest.param(lambda: lose("node-2"), id="a node lost"),
        pytest.param(lambda: node_drain(name="node-2", actor="kim", reason="kernel"), id="a node drained"),
        pytest.param(lambda: Node.objects.filter(name="node-5").update(capacity=1), id="a smaller node"),
        pytest.param(lambda: NodeRequest.objects.update(state="failed"), id="no node comes"),
        pytest.param(lambda: newest().delete(), id="a plan dropped"),
        pytest.param(lambda: Incident.objects.update(state="replaying"), id="another step"),
    ],
)
def test_what_has_changed_meanwhile_makes_a_plan_stale(
    deployed: Topology, monkeypatch: pytest.MonkeyPatch, change: Callable[[], object]
) -> None:
    incident = lose("node-1")
    node_register(registration=registration("node-5"), at=now())
    plans: list[int] = []

    def overtaking() -> None:
        change()
        plans.append(deployed.plans.count())

    overtake(monkeypatch, overtaking)
    with pytest.raises(StalePlan, match="plan again"):
        look(incident)
    assert deployed.plans.count() == plans[0]


def test_a_node_that_comes_meanwhile_makes_no_plan_stale(
    deployed: Topology, monkeypatch: pytest.MonkeyPatch
) -> None:
    incident = lose("node-1")
    node_register(registration=registration("node-5"), at=now())
    overtake(monkeypatch, lambda: node_register(registration=registration("node-6"), at=now()))
    look(incident)
    assert newest().generation == 2
    assert set(newest().assignment.values()) >= {"node-5"}


def test_what_does_not_fit_together_is_read_again(
    deployed: Topology, monkeypatch: pytest.MonkeyPatch
) -> None:
    incident = lose("node-1")

    def torn() -> None:
        Topology.objects.update(generation=7)
        raise KeyError("O1[0]")

    overtake(monkeypatch, torn)
    with pytest.raises(StalePlan, match="KeyError"):
        look(incident)


def test_a_fault_in_planning_is_told_as_it_is(deployed: Topology, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken() -> None:
        raise KeyError("O1[0]")

    incident = lose("node-1")
    overtake(monkeypatch, broken)
    with pytest.raises(KeyError):
        look(incident)


def test_a_deployment_in_between_makes_a_plan_stale(
    deployed: Topology, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also one that is made inside of the transaction."""
    incident = lose("node-1")
    node_register(registration=registration("node-5"), at=now())
    overtake(monkeypatch, lambda: Topology.objects.filter(name="counts").update(generation=7))
    with pytest.raises(StalePlan, match="another generation than 1"):
        incident_advance(number=incident.number, events=[Looked(at=now().timestamp())], ahead=False)
    assert newest().generation == 1


def test_losing_the_same_nodes_twice_is_one_loss(deployed: Topology) -> None:
    lose("node-1")
    assert nodes_lost(evidence={"node-1": "again"}, at=now()) is None
    assert Incident.objects.count() == 1
    assert NodeRequest.objects.count() == 1


def test_later_losses_grow_the_open_incident(deployed: Topology) -> None:
    lose("node-1")
    assert lose("node-2").number == 1
    assert sorted(incident_get(1).failed_nodes.values_list("name", flat=True)) == ["node-1", "node-2"]
    assert Event.objects.filter(kind="incident.grown").exists()


def test_returned_node_closes_the_incident(deployed: Topology) -> None:
    incident = lose("node-1")
    node_register(
        registration=registration("node-1", session="b2"), at=now(), returned=True, evidence="a new session"
    )
    look(incident)
    assert incident_get(1).state == "catching_up"
    queries_return()
    look(incident)
    assert incident_get(1).state == "closed"
    assert newest().generation == 1
    assert NodeRequest.objects.get().state == "failed"
    assert node_get("node-5").state == "left"
    Follower().check()


def test_times_to_first_half_and_all_queries(deployed: Topology) -> None:
    Query.objects.update(available=True, status="available")
    incident = lose("node-1", "node-2", "node-3", "node-4")
    failed = incident_get(1).summary["failed_queries"]["counts"]
    assert failed
    assert incident_get(1).first_query_at is None, "what was available before the loss does not count"
    for number, query in enumerate(Query.objects.all(), 1):
        Query.objects.filter(pk=query.pk).update(available=True, status="available")
        look(incident)
        seen = incident_get(1)
        assert seen.first_query_at is not None
        assert (seen.all_queries_at is not None) == (number == Query.objects.count())


def test_suspicion_and_trust(deployed: Topology) -> None:
    nodes_suspect(evidence={"node-1": "silent"})
    assert node_get("node-1").state == "suspect"
    node_trust(name="node-1", evidence="heard")
    assert node_get("node-1").state == "alive"
    node_trust(name="node-1", evidence="heard")
    assert Event.objects.filter(kind="node.suspect").count() == 1


def test_drain_and_activate_are_audited_and_move_partitions(deployed: Topology) -> None:
    follower = Follower()
    incident = node_drain(name="node-1", actor="kim", reason="new kernel")
    assert incident is not None
    assert (incident.trigger, incident.method) == ("manual", "move")
    look(incident, *driver(1, "running", 10))
    assert "node-1" not in newest().assignment.values()
    assert (newest().kind, incident_get(1).method) == ("move", "move")
    assert node_drain(name="node-1", actor="kim", reason="again") is None
    follower.check()
    node_activate(name="node-1", actor="kim", reason="kernel is new")
    assert node_get("node-1").state == "alive"
    assert list(AuditEntry.objects.order_by("id").values_list("action", flat=True))[-2:] == [
        "node.drained",
        "node.activated",
    ]
    with pytest.raises(Missing):
        node_drain(name="node-77", actor="kim", reason="typo")


@pytest.mark.parametrize("policy", ["blocking", "incremental"])
def test_incident_of_moves_takes_the_method_of_a_recovery_that_follows(
    deployed: Topology, policy: str
) -> None:
    Topology.objects.update(method=policy)
    incident = node_drain(name="node-1", actor="kim", reason="new kernel")
    assert incident is not None
    look(incident, *driver(1, "running", 10))
    look(incident, *driver(newest().generation, "running", 10))
    assert incident_get(1).method == "move"
    incident_order(kind=OperationKind.INCIDENT_REPLAN, number=1, actor="kim", reason="faster")
    lose("node-2")
    assert incident_get(1).method == "blocking", "nothing is chosen yet"
    incident_order(kind=OperationKind.INCIDENT_REPLAN, number=1, actor="kim", reason="do not wait")
    look(incident, *driver(newest().generation, "degraded", 10))
    assert (newest().method, incident_get(1).method) == (policy, policy)
    look(incident, *driver(newest().generation, "running", 10))
    node_drain(name="node-3", actor="kim", reason="new kernel here, too")
    look(incident, *driver(newest().generation, "running", 10))
    assert (newest().method, incident_get(1).method) == ("move", policy)


def test_drained_empty_node_leaves_without_an_incident(deployed: Topology) -> None:
    node_register(registration=registration("node-9"), at=now())
    assert node_drain(name="node-9", actor="kim", reason="not needed") is None
    assert nodes_lost(evidence={"node-9": "gone"}, at=now()) is None
    assert node_get("node-9").state == "left"
    with pytest.raises(Conflict, match="only a draining node"):
        node_activate(name="node-9", actor="kim", reason="too late")


@pytest.mark.parametrize(("desired", "status"), [("stopped", "stopped"), ("running", "completed")])
def test_what_ran_once_keeps_no_node(deployed: Topology, desired: str, status: str) -> None:
    Topology.objects.update(desired=desired, status=status)
    assert node_drain(name="node-1", actor="kim", reason="not needed") is None
    assert nodes_lost(evidence={"node-1": "gone"}, at=now()) is None
    assert node_get("node-1").state == "left"
    assert not Incident.objects.exists()
    assert not NodeRequest.objects.exists()


def test_recover_now(deployed: Topology) -> None:
    incident = recover_now(topology="counts", actor="kim", reason="wrong output")
    look(incident, *driver(1, "running", 30))
    assert (newest().kind, newest().checkpoint) == ("restore", 30)
    with pytest.raises(Missing):
        recover_now(topology="other", actor="kim", reason="typo")
    deployed.desired = "stopped"
    deployed.save()
    with pytest.raises(Conflict, match="only a deployed one"):
        recover_now(topology="counts", actor="kim", reason="late")


def test_absent_partitions_of_living_nodes(deployed: Topology) -> None:
    event = PartitionsLost(
        at=now().timestamp(),
        topology="counts",
        generation=1,
        partitions=frozenset({"O0[0]"}),
        evidence="absent for 20 s",
    )
    incident = partitions_lost(event=event, at=now())
    assert incident is not None
    look(incident, *driver(1, "degraded", 30))
    assert newest().restore == ["O0[0]"]
    assert partitions_lost(event=event, at=now()) is None, "it is about an older plan by now"


def test_abort(deployed: Topology) -> None:
    lose("node-1")
    order: dict[str, Any] = {"kind": OperationKind.INCIDENT_ABORT, "number": 1, "actor": "kim"}
    incident_order(**order, reason="maintenance")
    assert incident_get(1).state == "aborted"
    with pytest.raises(Conflict, match="aborted already"):
        incident_order(**order, reason="again")
    # What is down stays down until an operator asks for a recovery.
    incident = recover_now(topology="counts", actor="kim", reason="maintenance is over")
    assert incident.number == 2
    look(incident, *driver(1, "degraded", 10))
    assert "node-1" not in newest().assignment.values()


def test_story_entry_with_a_key_is_written_once(deployed: Topology) -> None:
    lose("node-1")
    assert story_add(number=1, kind="step", text="Told once.", key="once")
    assert not story_add(number=1, kind="step", text="Told once.", key="once")
    assert IncidentEntry.objects.filter(key="once").count() == 1


def test_selectors(deployed: Topology, django_assert_max_num_queries: Any) -> None:
    lose("node-1")
    with django_assert_max_num_queries(3):
        list(incident_list())
    assert [plan.generation for plan in plan_list(topology="counts")] == [1]
    assert not plan_list(incident=1)
    assert node_name_next() == "node-6"
    with pytest.raises(Missing):
        incident_get(9)


def test_queries_of_replicas_that_acted_on_a_lost_node_have_failed(deployed: Topology) -> None:
    """That a replica had taken over there became known after the loss, so no event tells it."""
    everywhere = dict.fromkeys(newest().assignment, "node-1")
    RecoveryPlan.objects.update(assignment={**everywhere, "O0[1]": "node-2", "O1[0]": "node-3"})
    incident = lose("node-2")
    assert incident_get(incident.number).summary["failed_queries"] == {"counts": ["O0[1]"]}
    Topology.objects.update(acting={"O1[0]": "node-2"})
    look(incident)
    assert incident_get(incident.number).summary["failed_queries"] == {"counts": ["O0[1]", "O1[0]"]}


def standby(name: str) -> None:
    node_register(registration=msgspec.structs.replace(registration(name), standby=True), at=now())


def test_a_standby_takes_over_and_the_next_node_takes_its_place(deployed: Topology) -> None:
    Topology.objects.update(method="blocking")
    standby("node-5")
    follower = Follower()
    incident = lose("node-1")
    look(incident)
    plan = newest()
    assert (plan.generation, plan.state) == (2, "planned"), "no replacement is waited for"
    assert "node-5" in {plan.assignment[partition] for partition in plan.restore}
    assert not node_get("node-5").standby
    (request,) = NodeRequest.objects.filter(state__in=NODE_REQUEST_OPEN)
    assert (request.node_name, request.standby, node_get("node-6").standby) == ("node-6", True, True)
    told = [entry.text for entry in entry_list(incident.number)]
    assert any("node-5 was a standby and takes over. The next node that comes" in text for text in told)
    follower.check()
    standby("node-5")
    assert not node_get("node-5").standby, "it was started as one, and runs something now"
    standby("node-6")
    assert node_get("node-6").standby
    follower.check()


def test_one_on_which_a_replica_takes_over_is_no_standby_any_more(deployed: Topology) -> None:
    """It stayed one: nothing moved off it, and no other standby came."""
    standby("node-5")
    incident = lose("node-1")
    there = [p for p, node in newest().assignment.items() if node == "node-1"]
    Topology.objects.update(acting=dict.fromkeys(there, "node-5"))
    _, report, _ = driver(1, "running")
    assert isinstance(report, DriverReported)
    follower = Follower()
    look(incident, replace(report, acting=dict.fromkeys(there, "node-5")))
    assert newest().generation == 1, "no plan is needed"
    assert not node_get("node-5").standby
    assert NodeRequest.objects.get().standby
    told = [entry.text for entry in entry_list(incident.number)]
    look(incident)
    assert [one for one in told if "was a standby" in one] == [
        "node-5 was a standby and takes over. The next node that comes becomes a standby in its place."
    ]
    follower.check()


def test_one_that_is_lost_as_its_replica_acts_stays_one(deployed: Topology) -> None:
    """So that another standby comes in its place."""
    standby("node-5")
    Topology.objects.update(acting={sorted(newest().assignment)[0]: "node-5"})
    lose("node-5")
    assert node_get("node-5").standby
    assert NodeRequest.objects.get().standby


def test_a_replacement_that_comes_already_stays_what_it_is(deployed: Topology) -> None:
    """The second node is lost after the first one's replacement was started."""
    Topology.objects.update(method="blocking")
    incident = lose("node-1")
    NodeRequest.objects.update(state="started", started_at=now())
    standby("node-7")
    look(incident)
    assert "node-7" in {newest().assignment[partition] for partition in newest().restore}
    assert not NodeRequest.objects.filter(standby=True).exists()
    told = [entry.text for entry in entry_list(incident.number)]
    assert "node-7 was a standby and takes over." in told


def test_one_that_waits_for_nodes_is_not_recovered_by_the_plan_of_the_run_before(deployed: Topology) -> None:
    topology_undeploy(name="counts", **BY)
    topology_stopped(name="counts")
    nodes_leave(reason="make down")
    topology_deploy(name="counts", **BY)
    Node.objects.exclude(name="node-4").update(state="alive", capacity=1)
    incident = lose("node-2")
    Node.objects.update(capacity=1000)
    look(incident)
    assert newest().kind == "deploy", "it is to begin anew"
    assert incident_get(1).summary["failed_queries"] == {}
    with pytest.raises(Conflict, match="has not been placed yet: it waits for nodes"):
        recover_now(topology="counts", actor="ada", reason="test")


def test_nothing_but_a_failure_puts_anything_on_a_standby(deployed: Topology) -> None:
    standby("node-5")
    node_drain(name="node-1", **BY)
    look(incident_get(1))
    assert node_get("node-5").standby
    assert not any("node-5" in plan.assignment.values() for plan in RecoveryPlan.objects.all())
