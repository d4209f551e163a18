"""Reconciliation of the database with a real ZooKeeper."""

from __future__ import annotations

import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec
import pytest

from controlplane.checkpoints.models import Checkpoint
from controlplane.events.choices import Channel, OperationKind
from controlplane.incidents.models import Incident, RecoveryPlan
from controlplane.incidents.services import incident_advance
from controlplane.lifecycle.continuing import continuation_told
from controlplane.lifecycle.nodes import node_register, nodes_lost
from controlplane.lifecycle.topologies import topology_deploy, topology_undeploy
from controlplane.nodes.models import Node
from controlplane.topologies.installation import installation_id
from controlplane.topologies.models import FormerTopology, Problem, Query, Topology
from controlplane.topologies.services import topology_create, topology_delete
from controlplane.topologies.telemetry import topology_stopped
from coordination.paths import ROOT, Paths
from coordination.session import CoordinationUnavailableError
from domain.messages import (
    Control,
    DeployedSpec,
    Plan,
)
from domain.recovery.events import AbortAsked, Looked
from host import environment
from spark_jobs.driver.epoch_log import epoch_log_directory
from spark_jobs.driver.only_driver import only_driver
from tests.integration.control_plane.steps import ask, complete, control, newest, plan, publish, run, status
from tests.unit.controlplane.incidents.places import now, registration
from tests.unit.controlplane.specs import spec_of
from workers import reconciliation
from workers.clearing import formers_clear
from workers.launcher.launcher import wanted_drivers
from workers.zookeeper import TopologyFacts, WorkerSession

pytestmark = [pytest.mark.integration, pytest.mark.django_db]


def test_topology_reaches_zookeeper_plan_first_and_stays_there(
    coordination: WorkerSession, deployed: Topology
) -> None:
    RecoveryPlan.objects.update(state="planned", published_at=None)
    reconciliation.topology_reconcile(coordination, "counts")
    facts = coordination.topology_facts(["counts"])["counts"]
    assert facts.plan is not None
    assert facts.plan.generation == deployed.generation
    assert facts.spec is not None
    assert facts.spec.desired == "running"
    assert newest().state == "published"
    # ZooKeeper loses its data: the sweep puts it back.
    coordination.delete_tree(ROOT)
    reconciliation.topology_reconcile(coordination, "counts")
    again = coordination.topology_facts(["counts"])["counts"]
    assert again.plan == facts.plan
    assert again.spec == facts.spec


def test_undeployed_topology_is_stopped_in_zookeeper(coordination: WorkerSession, deployed: Topology) -> None:
    reconciliation.topology_reconcile(coordination, "counts")
    topology_undeploy(name="counts", actor="ada", reason="done", channel=Channel.CLI)
    reconciliation.topology_reconcile(coordination, "counts")
    spec = coordination.get(Paths.spec("counts"), DeployedSpec)
    assert spec is not None
    assert spec.value.desired == "stopped"
    reconciliation.driver_reconcile(TopologyFacts("counts", spec.value, None, None, None))
    assert Topology.objects.get().status == "stopped"


def _reconcile(coordination: WorkerSession) -> None:
    reconciliation.driver_reconcile(coordination.topology_facts(["counts"])["counts"])


def test_the_checkpoint_that_a_topology_leaves_is_known_before_it_has_stopped(
    coordination: WorkerSession, deployed: Topology
) -> None:
    """Its report is another way to the database than the driver's status, and may come later."""
    reconciliation.topology_reconcile(coordination, "counts")
    topology_undeploy(name="counts", actor="ada", reason="done", channel=Channel.CLI)
    complete(coordination, 30, deployed.generation, at=time.time())
    coordination.put(Paths.driver("counts"), status(deployed.generation, "stopped", checkpoint=30))
    _reconcile(coordination)
    topology = Topology.objects.get()
    assert topology.status == "stopped"
    assert list(topology.checkpoints.values_list("epoch", "stored")) == [(30, True)]
    assert continuation_told(topology)["possible"]


def test_a_checkpoint_whose_report_was_lost_is_known_after_a_while(
    coordination: WorkerSession, deployed: Topology
) -> None:
    reconciliation.topology_reconcile(coordination, "counts")
    coordination.put(Paths.driver("counts"), status(deployed.generation, checkpoint=30))
    complete(coordination, 30, deployed.generation, at=time.time())
    _reconcile(coordination)
    assert not Checkpoint.objects.exists(), "its report is on its way"
    complete(coordination, 30, deployed.generation, at=time.time() - reconciliation.REPORTED_WITHIN)
    _reconcile(coordination)
    assert list(Checkpoint.objects.values_list("epoch", "stored")) == [(30, True)]


def test_a_checkpoint_of_an_earlier_run_is_not_one_of_this(
    coordination: WorkerSession, deployed: Topology
) -> None:
    complete(coordination, 30, deployed.generation)
    topology_undeploy(name="counts", actor="ada", reason="done", channel=Channel.CLI)
    topology_stopped(name="counts")
    Node.objects.update(state="lost")
    topology_deploy(name="counts", actor="ada", reason="anew", channel=Channel.CLI)
    assert Topology.objects.get().status == "deploying", "no node can take a partition"
    _reconcile(coordination)
    assert not Checkpoint.objects.exists()


def test_topology_deployed_without_nodes_is_placed_when_they_come(
    coordination: WorkerSession, db: None
) -> None:
    topology_create(spec=spec_of(), actor="ada", reason="test", channel=Channel.CLI)
    topology_deploy(name="counts", actor="ada", reason="test", channel=Channel.CLI)
    reconciliation.topology_reconcile(coordination, "counts")
    assert coordination.get(Paths.plan("counts"), Plan) is None
    node_register(registration=registration("node-1"), at=now())
    reconciliation.topology_reconcile(coordination, "counts")
    found = coordination.get(Paths.plan("counts"), Plan)
    assert found is not None
    assert set(found.value.assignment.values()) == {"node-1"}
    reconciliation.topology_reconcile(coordination, "counts")
    assert RecoveryPlan.objects.count() == 1


def test_incident_step_goes_as_far_as_it_can(coordination: WorkerSession, deployed: Topology) -> None:
    Topology.objects.update(method="blocking")
    reconciliation.topology_reconcile(coordination, "counts")
    complete(coordination, 30, deployed.generation)
    nodes_lost(evidence={"node-1": "gone"}, at=now())
    reconciliation.incident_step(coordination, 1)
    assert Incident.objects.get().state == "acquiring"
    node_register(registration=registration("node-5"), at=now())
    reconciliation.incident_step(coordination, 1)
    generation = deployed.generation + 1
    in_force = coordination.get(Paths.plan("counts"), Plan)
    assert in_force is not None
    value = in_force.value
    assert (value.generation, value.checkpoint, value.rollback) == (generation, 30, True)
    assert newest().state == "published"
    coordination.put(Paths.driver("counts"), status(generation, "replaying"))
    reconciliation.incident_step(coordination, 1)
    assert Incident.objects.get().state == "replaying"
    coordination.put(Paths.driver("counts"), status(generation, "running"))
    reconciliation.incident_step(coordination, 1)
    assert control(coordination).checkpoint_request == 1
    complete(coordination, 50, generation)
    reconciliation.incident_step(coordination, 1)
    assert Incident.objects.get().state == "catching_up"
    Query.objects.update(available=True)
    reconciliation.incident_step(coordination, 1)
    assert Incident.objects.get().state == "closed"


def test_an_incident_knows_what_its_driver_gave_back(coordination: WorkerSession, deployed: Topology) -> None:
    """Telemetry of it may have been lost, and plans are made of where partitions are."""
    RecoveryPlan.objects.update(state="planned", published_at=None)
    reconciliation.topology_reconcile(coordination, "counts")
    nodes_lost(evidence={"node-1": "gone"}, at=now())
    acting = msgspec.structs.replace(status(deployed.generation), acting={"O1[0]": "node-2"})
    coordination.put(Paths.driver("counts"), acting)
    reconciliation.incident_step(coordination, 1)
    assert Topology.objects.get().acting == {"O1[0]": "node-2"}
    coordination.put(Paths.driver("counts"), status(deployed.generation))
    reconciliation.incident_step(coordination, 1)
    assert Topology.objects.get().acting == {}


def test_plan_of_a_crashed_step_is_published_by_the_next(
    coordination: WorkerSession, deployed: Topology, monkeypatch: pytest.MonkeyPatch
) -> None:
    reconciliation.topology_reconcile(coordination, "counts")
    nodes_lost(evidence={"node-1": "gone"}, at=now())
    node_register(registration=registration("node-5"), at=now())
    publish = WorkerSession.plan_publish
    monkeypatch.setattr(WorkerSession, "plan_publish", _away)
    incident_advance(number=1, events=[Looked(at=now().timestamp())])  # records the plan
    with pytest.raises(CoordinationUnavailableError):
        reconciliation.incident_step(coordination, 1)
    monkeypatch.setattr(WorkerSession, "plan_publish", publish)
    reconciliation.incident_step(coordination, 1)
    assert [p.state for p in RecoveryPlan.objects.order_by("generation")] == ["superseded", "published"]


def test_the_plan_in_force_is_put_back_although_a_newer_one_was_dropped(
    coordination: WorkerSession, deployed: Topology
) -> None:
    """The incident is aborted before its plan is published, and then ZooKeeper loses its data."""
    RecoveryPlan.objects.update(state="planned", published_at=None)
    reconciliation.topology_reconcile(coordination, "counts")
    nodes_lost(evidence={"node-1": "gone"}, at=now())
    node_register(registration=registration("node-5"), at=now())
    incident_advance(number=1, events=[Looked(at=now().timestamp())])  # records the plan
    dropped = newest()
    assert dropped.generation == deployed.generation + 1
    incident_advance(number=1, events=[AbortAsked(at=now().timestamp(), actor="ada", reason="a false alarm")])
    dropped.refresh_from_db()
    assert (dropped.state, dropped.published_at) == ("superseded", None)
    coordination.delete_tree(ROOT)
    reconciliation.topology_reconcile(coordination, "counts")
    in_force = coordination.get(Paths.plan("counts"), Plan)
    assert in_force is not None
    assert in_force.value.generation == deployed.generation
    reconciliation.topology_reconcile(coordination, "counts")
    assert [p.state for p in RecoveryPlan.objects.order_by("generation")] == ["superseded", "superseded"]


def test_a_plan_that_was_dropped_while_it_was_published_is_the_one_in_force(
    coordination: WorkerSession, deployed: Topology
) -> None:
    """The incident is aborted between the publication and its record."""
    RecoveryPlan.objects.update(state="planned", published_at=None)
    reconciliation.topology_reconcile(coordination, "counts")
    nodes_lost(evidence={"node-1": "gone"}, at=now())
    node_register(registration=registration("node-5"), at=now())
    incident_advance(number=1, events=[Looked(at=now().timestamp())])  # records the plan
    publish(coordination, "counts", reconciliation.plan_of(newest()))
    incident_advance(number=1, events=[AbortAsked(at=now().timestamp(), actor="ada", reason="a false alarm")])
    assert (newest().state, newest().published_at) == ("superseded", None)
    assert reconciliation.plan_put(coordination, "counts") == []
    assert newest().published_at is not None
    coordination.delete_tree(ROOT)
    reconciliation.topology_reconcile(coordination, "counts")
    in_force = coordination.get(Paths.plan("counts"), Plan)
    assert in_force is not None
    assert in_force.value.generation == newest().generation, "its driver may have applied it"


def test_database_restored_from_a_backup_goes_on_above_zookeeper(
    coordination: WorkerSession, deployed: Topology
) -> None:
    found = msgspec.structs.replace(plan(41, installation=installation_id(), deployed=40), kind="recover")
    publish(coordination, "counts", found)
    nodes_lost(evidence={"node-1": "gone"}, at=now())
    node_register(registration=registration("node-5"), at=now())
    reconciliation.incident_step(coordination, 1)
    in_force = coordination.get(Paths.plan("counts"), Plan)
    assert in_force is not None
    assert (in_force.value.generation, in_force.value.kind) == (42, "recover")
    assert in_force.value.deployed == 40, "state, checkpoints and outputs are those of that deployment"
    assert FormerTopology.objects.count() == 0


@pytest.mark.parametrize("named", ["0" * 32, ""])
@pytest.mark.parametrize("above", [40, 0])
def test_a_plan_of_a_database_that_was_lost_is_refused(
    coordination: WorkerSession, deployed: Topology, tmp_path: Path, above: int, named: str
) -> None:
    """Whatever its generation: nothing is published over it, no driver starts, and the operator is told. When
    the topology has been deleted, what is left goes, and one that is created again counts on from there."""
    RecoveryPlan.objects.update(state="planned", published_at=None)
    found = plan(deployed.generation + above, installation=named)
    publish(coordination, "counts", found)
    coordination.put(Paths.control("counts"), Control(paused=True, checkpoint_request=4))
    for _ in range(2):
        reconciliation.topology_reconcile(coordination, "counts")
    facts = coordination.topology_facts(["counts"])["counts"]
    assert (facts.plan, facts.spec) == (found, None)
    assert control(coordination) == Control(paused=True, checkpoint_request=4)
    assert wanted_drivers() == []
    (problem,) = Problem.objects.filter(topology=deployed)
    assert problem.where == "ZooKeeper /resurge/topologies/counts/plan"
    assert "is of another database" in problem.what
    assert "undeploy this topology and delete it" in problem.hint
    home = replace(
        environment.read(), home=tmp_path, outputs=str(tmp_path / "out"), checkpoints=str(tmp_path / "saved")
    )
    formers_clear(coordination, home)
    assert coordination.exists(Paths.plan("counts")), "nothing is removed unasked"

    by: Any = {"actor": "ada", "reason": "its database was lost", "channel": Channel.CLI}
    topology_undeploy(name="counts", **by)
    topology_stopped(name="counts")
    topology_delete(name="counts", **by)
    formers_clear(coordination, home)
    assert not coordination.exists(Paths.topology("counts"))
    topology_create(spec=spec_of(), **by)
    topology_deploy(name="counts", **by)
    reconciliation.topology_reconcile(coordination, "counts")
    ours = coordination.get(Paths.plan("counts"), Plan)
    assert ours is not None
    assert ours.value.installation == installation_id()
    assert ours.value.deployed > found.generation
    assert [one.topology for one in wanted_drivers()] == ["counts"]


def test_a_plan_of_the_version_before_is_known(coordination: WorkerSession, deployed: Topology) -> None:
    """It names no database, and is in this one."""
    row = newest()
    before = msgspec.structs.replace(reconciliation.plan_of(row), installation="")
    publish(coordination, "counts", before)
    reconciliation.topology_reconcile(coordination, "counts")
    assert coordination.get(Paths.spec("counts"), DeployedSpec) is not None
    assert not Problem.objects.exists()


def test_checkpoints_of_an_earlier_run_are_void(coordination: WorkerSession, deployed: Topology) -> None:
    Topology.objects.update(generation=5)
    RecoveryPlan.objects.update(generation=5)
    complete(coordination, 900, 3)
    reconciliation.topology_reconcile(coordination, "counts")
    nodes_lost(evidence={"node-1": "gone"}, at=now())
    node_register(registration=registration("node-5"), at=now())
    reconciliation.incident_step(coordination, 1)
    assert newest().checkpoint == 0


def test_a_new_topology_of_the_name_of_a_deleted_one_starts_from_nothing(
    coordination: WorkerSession, deployed: Topology, tmp_path: Path
) -> None:
    """Neither the plan nor the pause of the old one is in force, and its driver's pointer is void."""
    home = replace(
        environment.read(), home=tmp_path, outputs=str(tmp_path / "out"), checkpoints=str(tmp_path / "saved")
    )
    reconciliation.topology_reconcile(coordination, "counts")
    run(coordination, ask(OperationKind.TOPOLOGY_PAUSE, "counts"))
    complete(coordination, 900, deployed.generation)
    topology_undeploy(name="counts", actor="ada", reason="done", channel=Channel.CLI)
    topology_stopped(name="counts")
    topology_delete(name="counts", actor="ada", reason="done", channel=Channel.CLI)
    topology_create(spec=spec_of(), actor="ada", reason="anew", channel=Channel.CLI)
    topology_deploy(name="counts", actor="ada", reason="anew", channel=Channel.CLI)
    reconciliation.topology_reconcile(coordination, "counts")
    old = coordination.get(Paths.plan("counts"), Plan)
    assert old is not None
    assert old.value.generation == deployed.generation, "nothing is published before the name is clear"

    directory = epoch_log_directory(tmp_path, "counts")
    with only_driver(directory, "counts"):
        formers_clear(coordination, home)
    assert coordination.exists(Paths.plan("counts")), "a driver of it still works"
    formers_clear(coordination, home)
    assert not coordination.exists(Paths.topology("counts"))

    reconciliation.topology_reconcile(coordination, "counts")
    found = coordination.get(Paths.plan("counts"), Plan)
    assert found is not None
    assert found.value.generation == found.value.deployed == Topology.objects.get().generation
    assert found.value.generation > deployed.generation
    assert not control(coordination).paused
    # A driver of the old one that woke up writes once more.
    complete(coordination, 900, deployed.generation)
    facts = coordination.topology_facts(["counts"])
    assert reconciliation.observations(facts) == []
    formers_clear(coordination, home)
    assert coordination.exists(Paths.plan("counts")), "it is cleared once"


def test_a_pause_ends_with_the_run(coordination: WorkerSession, deployed: Topology) -> None:
    run(coordination, ask(OperationKind.TOPOLOGY_PAUSE, "counts"))
    assert control(coordination).paused
    topology_undeploy(name="counts", actor="ada", reason="done", channel=Channel.CLI)
    topology_stopped(name="counts")
    topology_deploy(name="counts", actor="ada", reason="again", channel=Channel.CLI)
    reconciliation.topology_reconcile(coordination, "counts")
    assert not control(coordination).paused
    run(coordination, ask(OperationKind.TOPOLOGY_PAUSE, "counts"))
    reconciliation.topology_reconcile(coordination, "counts")
    assert control(coordination).paused, "one that was asked for in this run stays"


def test_undeploying_ends_the_recovery(coordination: WorkerSession, deployed: Topology) -> None:
    reconciliation.topology_reconcile(coordination, "counts")
    nodes_lost(evidence={"node-1": "gone"}, at=now())
    node_register(registration=registration("node-5"), at=now())
    reconciliation.incident_step(coordination, 1)
    topology_undeploy(name="counts", actor="ada", reason="no longer needed", channel=Channel.CLI)
    reconciliation.incident_step(coordination, 1)
    assert Incident.objects.get().state == "closed"


def _away(self: WorkerSession, topology: str, one: Plan, **more: Any) -> Plan:
    raise CoordinationUnavailableError("away")
