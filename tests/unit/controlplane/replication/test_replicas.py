"""Replicas by policy: where they are placed, when they go, and what REST says of them."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from rest_framework.test import APIClient

from controlplane.checkpoints.models import Checkpoint
from controlplane.events.models import AuditEntry, Event
from controlplane.incidents.choices import IncidentTrigger
from controlplane.incidents.loading import deployments_load, plans_newest
from controlplane.incidents.models import RecoveryPlan
from controlplane.incidents.services import incident_open_or_grow
from controlplane.lifecycle.nodes import node_drain, node_register, nodes_lost
from controlplane.nodes.choices import NodeState
from controlplane.nodes.models import Node
from controlplane.replication import services
from controlplane.replication.answering import gains, plans
from controlplane.replication.models import ReplicaPlacement
from controlplane.replication.selectors import Measured, measured_load
from controlplane.replication.services import INCIDENT, OFF, replicas_look
from controlplane.topologies.models import Partition, Query, Topology
from controlplane.topologies.policies import NO_REPLICAS
from controlplane.topologies.services import topology_create
from controlplane.topologies.telemetry import driver_status_apply, topology_metrics_apply
from domain.messages import ShadowStatus
from domain.recovery.events import NodesLost
from domain.replication import TooLargeError
from domain.replication.looking import Kept, placed_anew
from tests.unit.controlplane.incidents.conftest import deployed  # noqa: F401
from tests.unit.controlplane.incidents.places import now, registration
from tests.unit.controlplane.specs import BY, driver_status, epoch_report, spec_of

URL = "/api/v1/topologies/counts/replicas/"
WHY = {"reason": "they must not wait"}


@pytest.fixture
def replicated(deployed: Topology, operator: APIClient) -> Topology:  # noqa: F811
    for node in Node.objects.all():
        node.rack = "rack-a" if node.name in ("node-1", "node-2") else "rack-b"
        node.capacity = 1000.0
        node.save()
    assert operator.patch(URL, {"mode": "on", "budget": 7, **WHY}).status_code == 200
    for _ in range(3):
        replicas_look("counts")
    return Topology.objects.get(name="counts")


def row() -> ReplicaPlacement:
    return ReplicaPlacement.objects.get(topology__name="counts")


def homes() -> dict[str, str]:
    return deployments_load(plans_newest())["counts"].assignment


def report(**more: Any) -> None:
    topology = Topology.objects.get(name="counts")
    driver_status_apply(status=msgspec.structs.replace(driver_status(topology), **more))


def test_replicas_are_in_another_rack_and_told_in_events(replicated: Topology) -> None:
    racks = dict(Node.objects.values_list("name", "rack"))
    assert row().assignment.keys() == homes().keys()
    assert all(racks[node] != racks[homes()[p]] for p, node in row().assignment.items())
    told = Event.objects.filter(kind="topology.replicas")
    assert told.count() == row().revision >= 2
    assert all(event.reason.startswith("replicas of ") for event in told)
    before = row()
    replicas_look("counts")
    assert (row().revision, row().assignment) == (before.revision, before.assignment)
    assert AuditEntry.objects.filter(action="topology.policy", reason=WHY["reason"]).exists()


def test_asking_for_the_same_again_changes_nothing(replicated: Topology, operator: APIClient) -> None:
    """As `make up REPLICAS=7` does at every start."""
    before = AuditEntry.objects.count(), Event.objects.count(), row().revision
    assert operator.patch(URL, {"mode": "on", "budget": 7, **WHY}).status_code == 200
    replicas_look("counts")
    assert (AuditEntry.objects.count(), Event.objects.count(), row().revision) == before


def test_none_is_left_when_the_policy_wants_none_or_the_topology_is_undeployed(
    replicated: Topology, operator: APIClient
) -> None:
    Topology.objects.update(desired="stopped")
    replicas_look("counts")
    assert row().assignment == {}
    Topology.objects.update(desired="running")
    replicas_look("counts")
    assert row().assignment
    operator.patch(URL, {"mode": "off", **WHY})
    replicas_look("counts")
    assert (row().assignment, row().note) == ({}, OFF)


def test_those_on_lost_nodes_go_and_come_back_after_the_incident(replicated: Topology) -> None:
    before = row().assignment
    lost = sorted(before.values())[0]
    Node.objects.filter(name=lost).update(state=NodeState.LOST)
    incident_open_or_grow(
        events=[NodesLost(at=now().timestamp(), nodes={lost: "its registration is gone"})],
        at=now(),
        trigger=IncidentTrigger.DETECTED,
    )
    replicas_look("counts")
    assert row().assignment == {p: node for p, node in before.items() if node != lost}
    assert row().note == INCIDENT


def test_nothing_is_placed_where_an_incident_begins_while_a_plan_is_computed(
    replicated: Topology, operator: APIClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A replica that is not wanted any more may be what is about to take over."""
    assert operator.patch(URL, {"mode": "on", "budget": 1, **WHY}).status_code == 200
    Topology.objects.update(shadows={p: {"node": n, "caught_up": True} for p, n in row().assignment.items()})
    before = row().assignment
    lost = homes()[sorted(before)[0]]

    def measured(name: str) -> Measured:
        Node.objects.filter(name=lost).update(state=NodeState.LOST)
        incident_open_or_grow(
            events=[NodesLost(at=now().timestamp(), nodes={lost: "its registration is gone"})],
            at=now(),
            trigger=IncidentTrigger.DETECTED,
        )
        return measured_load(name)

    with monkeypatch.context() as meanwhile:
        meanwhile.setattr(services, "measured_load", measured)
        replicas_look("counts")
    assert row().assignment == before
    replicas_look("counts")
    assert (row().assignment, row().note) == ({p: n for p, n in before.items() if n != lost}, INCIDENT)


def test_a_partition_that_acts_is_where_its_replica_is(replicated: Topology, viewer: APIClient) -> None:
    partition, node = sorted(row().assignment.items())[0]
    home = homes()[partition]
    report(shadows={partition: ShadowStatus(node=node, lacks=1, ready=True)})
    (shown,) = [one for one in viewer.get(URL).json()["replicas"] if one["partition"] == partition]
    assert (shown["node"], shown["replica"], shown["caught_up"], shown["acts"]) == (home, node, True, False)
    report(acting={partition: node})
    assert homes()[partition] == node
    told = Event.objects.get(kind="topology.taken_over")
    assert told.reason == f"the replicas of {partition} have taken over"
    assert viewer.get(URL).json()["acting"] == {partition: node}
    plan = plans_newest()["counts"]
    assert plan.assignment[partition] == home
    plan.acting = {partition: node}
    plan.save()
    assert homes()[partition] == node, "its driver has applied it: this takeover came later"
    plan.generation += 1
    plan.save()
    assert homes()[partition] == home, "a plan that knows of it is obeyed"


def test_what_acts_moves_off_a_drained_node(replicated: Topology) -> None:
    """And is lost with it where it had no time to move."""
    spare = "node-9"
    node_register(registration=registration(spare), at=now())
    assert node_drain(name=spare, actor="kim", reason="new kernel") is None, "nothing is there"
    Node.objects.filter(name=spare).update(state=NodeState.ALIVE)
    partition = sorted(row().assignment)[0]
    report(acting={partition: spare})
    assert node_drain(name=spare, actor="kim", reason="new kernel") is not None
    assert nodes_lost(evidence={spare: "its registration is gone"}, at=now()) is not None
    assert Node.objects.get(name=spare).state == NodeState.LOST


def test_an_epoch_under_a_plan_ends_the_takeovers_that_it_knew_of(replicated: Topology) -> None:
    """The driver's own word on them may come after the report of the epoch."""
    (partition, node), (other, elsewhere) = sorted(row().assignment.items())[:2]
    report(acting={partition: node, other: elsewhere})
    before = plans_newest()["counts"]
    plan = RecoveryPlan.objects.create(
        topology=replicated, kind="recover", generation=before.generation + 1, assignment=before.assignment,
        acting={partition: node},
    )  # fmt: skip
    Topology.objects.update(generation=plan.generation)
    replicated.refresh_from_db()
    epochs = msgspec.structs.replace(epoch_report(replicated), generation=plan.generation)
    topology_metrics_apply(report=epochs, health={})
    assert (homes()[partition], homes()[other]) == (plan.assignment[partition], elsewhere)


def test_what_the_loss_of_a_rack_or_node_takes(replicated: Topology, viewer: APIClient) -> None:
    answer = viewer.get(URL).json()
    assert (answer["mode"], answer["budget"], answer["fidelity"]) == ("on", 7, 1.0)
    racks = {one["name"]: one for one in answer["losses"] if one["kind"] == "rack"}
    assert racks.keys() == {"rack-a", "rack-b"}
    assert all(one["fidelity"] < 1.0 for one in racks.values())
    report(shadows={p: ShadowStatus(node=node, ready=True) for p, node in row().assignment.items()})
    losses = viewer.get(URL).json()["losses"]
    assert {one["fidelity"] for one in losses} == {1.0}
    assert not any(one["stop"] or one["lack_input"] for one in losses)


def test_a_topology_with_operators_of_the_same_names_changes_nothing(
    replicated: Topology, viewer: APIClient
) -> None:
    shadows = {p: ShadowStatus(node=n, lacks=1, ready=True) for p, n in row().assignment.items()}
    report(shadows=shadows)
    urls = (URL, "/api/v1/topologies/counts/replication-plan/?budget=3")
    before = [viewer.get(url).json() for url in urls]
    kept = row().assignment
    other = topology_create(spec=spec_of("other"), **BY)
    Partition.objects.filter(topology=other).update(
        node=Node.objects.get(name="node-1"), rows_in_rate=900.0, rows_out_rate=900.0
    )
    Query.objects.filter(topology=other).update(priority=9)
    Checkpoint.objects.create(
        topology=other, epoch=90, generation=1, state="completed", stored=True, started_at=now()
    )
    plans.forget()
    gains.forget()
    assert [viewer.get(url).json() for url in urls] == before
    replicas_look("counts")
    assert row().assignment == kept


def test_its_own_replicas_leave_it_the_room_that_they_have(
    replicated: Topology, monkeypatch: pytest.MonkeyPatch
) -> None:
    free: list[dict[str, float]] = []

    def noted(before: Kept, **more: Any) -> Kept:
        free.append({node.name: node.free for node in more["nodes"]})
        return placed_anew(before, **more)

    monkeypatch.setattr(services, "placed_anew", noted)
    assert row().assignment
    replicas_look("counts")
    ReplicaPlacement.objects.update(assignment={})
    replicas_look("counts")
    assert free[0] == free[1]


def test_what_the_next_replica_would_buy(replicated: Topology, operator: APIClient) -> None:
    def ahead(**changes: Any) -> Any:
        answer = operator.patch(URL, {**changes, **WHY})
        assert answer.status_code == 200, answer.json()
        return answer.json()["next"]

    assert ahead(budget=7) is None, "every partition may have one"
    first = ahead(budget=0)
    assert (first["budget"], first["more"]) == (3, 3), "a source, its parser and a query"
    assert 0 < first["gain"] == first["fidelity"] < 1
    assert len(first["added"]) == 3
    assert first["dropped"] == []
    last = ahead(budget=6)
    assert (last["budget"], last["more"], last["fidelity"]) == (7, 1, 1.0)
    for planner in ("optimal", "dynamic_programming"):
        assert ahead(budget=6, planner=planner) == last, "without waiting for a slow planner"
    assert ahead(mode="advise") is None


def test_the_next_replica_buys_what_its_plan_gives(replicated: Topology, operator: APIClient) -> None:
    """Both count with how the exchange divides rows."""
    flows = {"Parser[0]": {"O0": [0.0, 9.0]}, "Parser[1]": {"O0": [90.0, 0.0]}}
    told = msgspec.structs.replace(epoch_report(replicated), flows=flows)
    topology_metrics_apply(report=told, health={})
    ahead = operator.patch(URL, {"budget": 3, **WHY}).json()["next"]
    plan = operator.get("/api/v1/topologies/counts/replication-plan/", {"budget": ahead["budget"]}).json()
    assert ahead["fidelity"] == plan["fidelity_after"]


def test_where_the_planner_cannot_do_it_the_usual_one_plans(
    replicated: Topology, operator: APIClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = row().assignment

    def refuse(*_: object, **__: object) -> list[int]:
        raise TooLargeError("more sets of partitions than it looks at")

    for planner, where in (("dynamic_programming", "dynamic_programming"), ("published", "segments")):
        monkeypatch.setattr(f"domain.replication.{where}.complete_trees", refuse)
        answer = operator.patch(URL, {"planner": planner, "budget": 6, **WHY})
        assert (answer.status_code, answer.json()["next"]["budget"]) == (200, 7)
        for _ in range(3):
            replicas_look("counts")
        assert (len(row().target), row().assignment) == (6, before)
        assert row().note.startswith("planned by structure_aware: ")


def test_large_topologies_are_not_looked_ahead(
    replicated: Topology, operator: APIClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("controlplane.replication.answering.MOST_PARTITIONS_AHEAD", 6)
    assert operator.patch(URL, {"budget": 1, **WHY}).json()["next"] is None


@pytest.mark.parametrize("body", [{}, {"mode": "perhaps"}, {"budget": -1}, {"planner": "x"}, {"other": 1}])
def test_what_cannot_be_is_refused(replicated: Topology, operator: APIClient, body: dict[str, Any]) -> None:
    assert operator.patch(URL, {**body, **WHY}).status_code == 400
    assert operator.patch(URL, {"mode": "off"}).status_code == 400, "without a reason"


@pytest.fixture
def bounded(replicated: Topology) -> Topology:
    """A new version of a topology that had replicas and tentative output."""
    spec = {**Topology.objects.get().spec, "guarantee": "bounded"}
    Topology.objects.update(spec=spec, guarantee="bounded", tentative_output="on")
    return Topology.objects.get()


def test_none_is_left_where_the_guarantee_is_bounded(bounded: Topology, viewer: APIClient) -> None:
    assert row().assignment
    replicas_look("counts")
    assert (row().assignment, row().tentative, row().note) == ({}, {}, NO_REPLICAS)
    answer = viewer.get(URL).json()
    assert (answer["replicas"], answer["note"], answer["next"]) == ([], NO_REPLICAS, None)


def test_none_is_advised_where_the_guarantee_is_bounded(bounded: Topology, viewer: APIClient) -> None:
    answer = viewer.get("/api/v1/topologies/counts/replication-plan/")
    assert answer.status_code == 400
    (error,) = answer.json()["errors"]
    assert error["message"] == f"counts can have no replicas, because {NO_REPLICAS}"
