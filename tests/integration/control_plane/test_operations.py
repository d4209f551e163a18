"""Operations against a real ZooKeeper."""

from __future__ import annotations

from pathlib import Path

import pytest

from controlplane.checkpoints.choices import CheckpointState
from controlplane.checkpoints.models import Checkpoint
from controlplane.events.choices import OperationKind
from controlplane.incidents.models import RecoveryPlan
from controlplane.lifecycle.nodes import node_register, nodes_lost
from controlplane.nodes.models import Node
from controlplane.topologies.choices import Desired, TopologyStatus
from controlplane.topologies.models import Partition, Topology
from coordination.paths import Paths
from domain.messages import (
    Control,
    Plan,
)
from tests.integration.control_plane.steps import ask, control, run
from tests.unit.controlplane.incidents.places import now, registration
from workers import reconciliation
from workers.zookeeper import WorkerSession

pytestmark = [pytest.mark.integration, pytest.mark.django_db]


def test_checkpoint_is_asked_for_once(coordination: WorkerSession, deployed: Topology) -> None:
    operation = ask(OperationKind.TOPOLOGY_CHECKPOINT, "counts")
    assert run(coordination, operation).result["request"] == 1
    assert run(coordination, operation).state == "running"
    assert control(coordination).checkpoint_request == 1


def test_a_checkpoint_is_asked_for_again_where_zookeeper_has_lost_the_request(
    coordination: WorkerSession, deployed: Topology
) -> None:
    run(coordination, ask(OperationKind.TOPOLOGY_CHECKPOINT, "counts"))
    operation = run(coordination, ask(OperationKind.TOPOLOGY_CHECKPOINT, "counts"))
    coordination.put(Paths.control("counts"), Control(paused=True))
    assert run(coordination, operation).result["request"] == 2
    assert control(coordination) == Control(checkpoint_request=2, paused=True)


def test_an_open_checkpoint_ends_with_its_topology(coordination: WorkerSession, deployed: Topology) -> None:
    operation = run(coordination, ask(OperationKind.TOPOLOGY_CHECKPOINT, "counts"))
    Topology.objects.update(desired=Desired.STOPPED, status=TopologyStatus.STOPPED)
    ended = run(coordination, operation)
    assert (ended.state, ended.error) == (
        "failed",
        "topology 'counts' was undeployed before it took the checkpoint",
    )


def test_a_checkpoint_of_a_topology_that_was_paused_before_it_began_fails(
    coordination: WorkerSession, deployed: Topology
) -> None:
    operation = run(coordination, ask(OperationKind.TOPOLOGY_CHECKPOINT, "counts"))
    Topology.objects.update(status=TopologyStatus.PAUSED)
    begun = Checkpoint.objects.create(
        topology=deployed, epoch=9, generation=1, total=7, started_at=now(), state=CheckpointState.STARTED
    )
    assert run(coordination, operation).state == "running", "one that has begun is stored during a pause, too"
    begun.delete()
    ended = run(coordination, operation)
    assert (ended.state, ended.error) == (
        "failed",
        "topology 'counts' was paused before it took the checkpoint: resume it first",
    )


def test_pause_and_resume_keep_the_checkpoint_request(
    coordination: WorkerSession, deployed: Topology
) -> None:
    run(coordination, ask(OperationKind.TOPOLOGY_CHECKPOINT, "counts"))
    run(coordination, ask(OperationKind.TOPOLOGY_PAUSE, "counts"))
    assert control(coordination) == Control(checkpoint_request=1, paused=True)
    run(coordination, ask(OperationKind.TOPOLOGY_RESUME, "counts"))
    assert control(coordination).paused is False


def test_recover_names_its_incident(coordination: WorkerSession, deployed: Topology) -> None:
    reconciliation.topology_reconcile(coordination, "counts")
    operation = run(coordination, ask(OperationKind.TOPOLOGY_RECOVER, "counts"))
    assert (operation.state, operation.result) == ("succeeded", {"incident": 1})
    assert coordination.get(Paths.plan("counts"), Plan).value.kind == "restore"  # type: ignore[union-attr]


def test_drain_activate_and_their_errors(coordination: WorkerSession, deployed: Topology) -> None:
    assert run(coordination, ask(OperationKind.NODE_DRAIN, "node-1")).result == {"incident": 1}
    assert run(coordination, ask(OperationKind.NODE_ACTIVATE, "node-1")).state == "succeeded"
    failed = run(coordination, ask(OperationKind.NODE_DRAIN, "node-99"))
    assert (failed.state, failed.error) == ("failed", "there is no node 'node-99'")
    assert Node.objects.get(name="node-1").state == "alive"


def test_drain_and_activate_a_rack(coordination: WorkerSession, deployed: Topology) -> None:
    assert run(coordination, ask(OperationKind.RACK_DRAIN, "rack-a")).result == {"incident": 1}
    assert set(Node.objects.values_list("state", flat=True)) == {"draining"}
    assert run(coordination, ask(OperationKind.RACK_ACTIVATE, "rack-a")).state == "succeeded"
    assert set(Node.objects.values_list("state", flat=True)) == {"alive"}
    failed = run(coordination, ask(OperationKind.RACK_DRAIN, "rack-z"))
    assert (failed.state, failed.error) == ("failed", "no node is in rack 'rack-z'")


def test_node_is_failed_only_where_fault_injection_is_on(
    coordination: WorkerSession, deployed: Topology, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    # Never an installation of this checkout: its nodes have the same names.
    monkeypatch.setenv("RESURGE_HOME", str(tmp_path))
    monkeypatch.setenv("RESURGE_FAULT_INJECTION", "0")
    assert "fault injection is off" in run(coordination, ask(OperationKind.NODE_FAIL, "node-1")).error
    monkeypatch.setenv("RESURGE_FAULT_INJECTION", "1")
    assert "runs no such node" in run(coordination, ask(OperationKind.NODE_FAIL, "node-1")).error


def test_orders_to_an_incident(coordination: WorkerSession, deployed: Topology) -> None:
    nodes_lost(evidence={"node-1": "gone"}, at=now())
    assert run(coordination, ask(OperationKind.INCIDENT_PAUSE, "1")).state == "succeeded"
    assert run(coordination, ask(OperationKind.INCIDENT_REPLAN, "1")).state == "succeeded"
    assert RecoveryPlan.objects.count() == 1, "paused"
    assert run(coordination, ask(OperationKind.INCIDENT_RESUME, "1")).state == "succeeded"
    published = coordination.get(Paths.plan("counts"), Plan)
    assert published is not None
    assert published.value.generation == 2, "planning anew does not wait for a replacement"
    assert run(coordination, ask(OperationKind.INCIDENT_ABORT, "1")).state == "succeeded"
    late = run(coordination, ask(OperationKind.INCIDENT_PAUSE, "1"))
    assert late.error == "incident 1 is aborted already"


def test_a_partial_plan_in_zookeeper(coordination: WorkerSession, deployed: Topology) -> None:
    Partition.objects.update(cpu=0.25)
    nodes_lost(evidence=dict.fromkeys(["node-1", "node-2", "node-3"], "gone"), at=now())
    node_register(registration=registration("node-5"), at=now())
    reconciliation.incident_step(coordination, 1)
    published = coordination.get(Paths.plan("counts"), Plan)
    assert published is not None
    plan = published.value
    assert (plan.method, plan.buffering, plan.rollback) == ("incremental", True, False)
    assert set(plan.restore) <= set(plan.assignment)
    assert len(plan.assignment) < Partition.objects.count(), "what is not restored yet is to run nowhere"
