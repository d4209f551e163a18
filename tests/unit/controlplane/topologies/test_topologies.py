from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import msgspec
import pytest
from django.conf import settings
from django.db import transaction
from django.utils import timezone

from controlplane.checkpoints.models import Checkpoint
from controlplane.checkpoints.services import checkpoint_apply
from controlplane.errors import Conflict, Invalid, Missing
from controlplane.events.choices import Channel, OperationKind, OperationState
from controlplane.events.models import AuditEntry, Event, Operation
from controlplane.events.operations import operation_start
from controlplane.incidents.models import RecoveryPlan
from controlplane.lifecycle.placing import topology_place_if_unplaced
from controlplane.lifecycle.recovery_terms import query_priorities_set
from controlplane.lifecycle.topologies import (
    topology_action,
    topology_deploy,
    topology_restore,
    topology_undeploy,
)
from controlplane.nodes.choices import NodeState
from controlplane.nodes.models import Node
from controlplane.topologies.choices import PartitionState, QueryStatus, TopologyStatus
from controlplane.topologies.failures import Affected
from controlplane.topologies.models import Partition, Problem, Query, Topology
from controlplane.topologies.services import topology_create, topology_delete, topology_update
from controlplane.topologies.telemetry import driver_status_apply, topology_stopped
from controlplane.topologies.validation import inputs_problems
from tests.browser.coordinating import Alone
from tests.unit.controlplane.following import Follower
from tests.unit.controlplane.specs import BY, checkpoint_report, driver_status, spec_of
from workers.operations import operation_run


def deploy(name: str = "counts") -> Topology:
    topology_deploy(name=name, **BY)
    return Topology.objects.get(name=name)


def test_creation_makes_rows_a_version_an_audit_entry_and_an_event(nodes: list[Node]) -> None:
    follower = Follower()
    topology = topology_create(spec=spec_of(), **BY)
    assert topology.status == TopologyStatus.DRAFT
    assert topology.partitions.count() == 7
    assert {row.partition.label: row.priority for row in Query.objects.select_related("partition")} == {
        "O0[0]": 3,
        "O0[1]": 3,
        "O1[0]": 1,
    }
    assert topology.versions.get().number == 1
    assert AuditEntry.objects.get().action == "topology.create"
    follower.check()
    graph = follower.entities["topology"]["counts"]["graph"]
    assert [operator["level"] for operator in graph["operators"]] == [0, 1, 2, 2]


def test_a_name_is_taken_once(topology: Topology) -> None:
    with pytest.raises(Conflict, match="'counts' already"):
        topology_create(spec=spec_of(), **BY)


def test_every_change_needs_a_reason(topology: Topology) -> None:
    with pytest.raises(Invalid, match="reason"):
        topology_deploy(name="counts", actor="ada", reason=" ", channel=Channel.CLI)
    topology.refresh_from_db()
    assert topology.status == TopologyStatus.DRAFT
    assert topology.generation == 0


def test_an_update_keeps_edited_priorities_and_removes_rows(topology: Topology) -> None:
    query_priorities_set(topology="counts", priorities={"O0[0]": 9, "O1[0]": 4}, **BY)
    follower = Follower()
    changed = spec_of()
    changed["operators"][2]["parallelism"] = 1
    changed["operators"][3]["priority"] = 7
    assert topology_update(name="counts", spec=changed, **BY).version == 2
    rows = {row.partition.label: row.priority for row in Query.objects.select_related("partition")}
    assert rows == {"O0[0]": 9, "O1[0]": 7}
    follower.check()
    assert topology_update(name="counts", spec=changed, **BY).version == 2, "the same again is no new version"


def test_the_specification_that_it_has_is_taken_while_it_runs(topology: Topology) -> None:
    """As when `resurge deploy -f` is repeated, with one idempotency key, after an answer was lost."""
    spec = topology.spec
    deploy()
    events = Event.objects.count()
    assert topology_update(name="counts", spec=spec, **BY).version == 1
    assert Event.objects.count() == events


def test_a_topology_keeps_its_name(topology: Topology) -> None:
    with pytest.raises(Invalid, match="keeps its name"):
        topology_update(name="counts", spec=spec_of("other"), **BY)


def test_deployment_places_publishes_and_fixes_the_origin(
    topology: Topology,
    sent_tasks: list[tuple[Any, ...]],
    django_capture_on_commit_callbacks: Any,
) -> None:
    follower = Follower()
    with django_capture_on_commit_callbacks(execute=True):
        operation = topology_deploy(name="counts", **BY)
        assert sent_tasks == []
    assert sent_tasks == [("recovery.operation_run", str(operation.pk))]
    topology.refresh_from_db()
    plan = RecoveryPlan.objects.get()
    assert (topology.status, topology.desired, topology.generation) == ("deploying", "running", 1)
    assert (plan.kind, plan.state, plan.generation, plan.checkpoint) == ("deploy", "planned", 1, 0)
    assert set(plan.assignment) == {row.label for row in topology.partitions.all()}
    assert all(row.node is not None for row in topology.partitions.all())
    assert topology.spec["operators"][0]["params"]["origin"].endswith("+00:00")
    assert "origin" not in topology.versions.get().spec["operators"][0]["params"]
    follower.check()


def test_only_one_deployment_at_a_time(topology: Topology) -> None:
    deploy()
    with pytest.raises(Conflict, match="undeploy it before you deploy"):
        topology_deploy(name="counts", **BY)
    with pytest.raises(Conflict, match="undeploy it before you update"):
        topology_update(name="counts", spec=spec_of(parallelism=3), **BY)
    with pytest.raises(Conflict, match="undeploy it before you delete"):
        topology_delete(name="counts", **BY)


def test_the_generation_only_grows(topology: Topology) -> None:
    deploy()
    topology_undeploy(name="counts", **BY)
    topology_stopped(name="counts")
    follower = Follower()
    assert deploy().generation == 2
    assert [plan.state for plan in RecoveryPlan.objects.order_by("generation")] == ["superseded", "planned"]
    follower.check()


def test_deployment_without_nodes_waits_for_them(topology: Topology) -> None:
    Node.objects.update(state=NodeState.LOST)
    assert deploy().status == TopologyStatus.DEPLOYING
    assert not RecoveryPlan.objects.exists()


@pytest.mark.parametrize("state", ["running", "failed"])
def test_what_is_still_said_of_the_run_before_is_void_while_a_deployment_waits_for_nodes(
    topology: Topology, state: Any
) -> None:
    earlier = deploy()
    topology_undeploy(name="counts", **BY)
    topology_stopped(name="counts")
    Node.objects.update(state=NodeState.LOST)
    operation = topology_deploy(name="counts", **BY)
    driver_status_apply(status=driver_status(earlier, state))
    checkpoint_apply(report=checkpoint_report(earlier))
    topology.refresh_from_db()
    operation.refresh_from_db()
    assert (topology.status, topology.committed_epoch) == (TopologyStatus.DEPLOYING, 0)
    assert operation.state == OperationState.PENDING
    assert not Checkpoint.objects.exists()


def test_what_does_not_fit_is_refused(topology: Topology) -> None:
    topology.partitions.update(cpu=3.0)
    with pytest.raises(Conflict, match="does not fit on 4 nodes"):
        topology_deploy(name="counts", **BY)
    topology.refresh_from_db()
    assert topology.status == TopologyStatus.DRAFT


def test_an_input_that_is_not_there_is_named(topology: Topology) -> None:
    spec = spec_of()
    spec["operators"][0]["params"]["path"] = "/nowhere/tweets.parquet"
    topology_update(name="counts", spec=spec, **BY)
    with pytest.raises(Invalid, match=r"operators\[0\].params.path: there is no file"):
        topology_deploy(name="counts", **BY)


def test_an_input_is_no_file_of_the_installation(
    topology: Topology, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(settings, "RESURGE", replace(settings.RESURGE, home=tmp_path))
    secrets = tmp_path / "spark" / "master.properties"
    secrets.parent.mkdir()
    secrets.write_text("spark.authenticate true\nspark.authenticate.secret hidden\n")
    link = tmp_path / "speeds.csv"
    link.symlink_to(secrets)
    for path in (secrets, link, tmp_path / "input" / ".." / "spark" / "master.properties"):
        spec = spec_of()
        spec["operators"][0]["params"] = {"reader": "traffic", "path": str(path)}
        (problem,) = inputs_problems(spec)
        assert "belongs to the installation itself" in problem.message
        assert "hidden" not in problem.message


def test_an_idempotency_key_gives_the_first_operation_back(topology: Topology) -> None:
    first = topology_deploy(name="counts", idempotency_key="k1", **BY)
    assert topology_deploy(name="counts", idempotency_key="k1", **BY).pk == first.pk
    assert Operation.objects.count() == 1
    with pytest.raises(Conflict, match=r"was used for topology.deploy"):
        topology_undeploy(name="counts", idempotency_key="k1", **BY)


def test_operations_end_when_the_driver_reports(topology: Topology) -> None:
    operation = topology_deploy(name="counts", **BY)
    topology.refresh_from_db()
    driver_status_apply(status=driver_status(topology, "starting", committed=0))
    operation.refresh_from_db()
    assert operation.state == OperationState.PENDING
    driver_status_apply(status=driver_status(topology, "running"))
    operation.refresh_from_db()
    assert operation.state == OperationState.SUCCEEDED
    stopping = topology_undeploy(name="counts", **BY)
    driver_status_apply(status=driver_status(topology, "running"))
    topology.refresh_from_db()
    assert topology.status == TopologyStatus.STOPPING
    driver_status_apply(status=driver_status(topology, "stopped"))
    topology.refresh_from_db()
    stopping.refresh_from_db()
    assert (topology.status, stopping.state) == (TopologyStatus.STOPPED, OperationState.SUCCEEDED)


def test_a_deployment_has_succeeded_when_an_epoch_is_committed(topology: Topology) -> None:
    """A driver says that it runs before it has tried."""
    running = deploy()
    for committed, state in ((0, OperationState.PENDING), (1, OperationState.SUCCEEDED)):
        driver_status_apply(status=driver_status(running, "running", committed=committed))
        assert Operation.objects.get().state == state


def test_a_deployment_fails_with_an_operator_that_fails_from_the_beginning(topology: Topology) -> None:
    operation = topology_deploy(name="counts", **BY)
    topology.refresh_from_db()
    fault = "OperatorError: the query failed: Binder Error: column x not found"
    failing = msgspec.structs.replace(driver_status(topology, "degraded", committed=0), error=fault)
    driver_status_apply(status=msgspec.structs.replace(failing, error=""))  # nodes are still awaited
    operation.refresh_from_db()
    assert operation.state == OperationState.PENDING
    driver_status_apply(status=failing)
    operation.refresh_from_db()
    assert (operation.state, operation.error.startswith(fault)) == (OperationState.FAILED, True)
    topology.refresh_from_db()
    assert (topology.status, topology.error) == (TopologyStatus.DEGRADED, fault)


def test_an_operator_that_fails_later_is_no_failed_deployment(topology: Topology) -> None:
    operation = topology_deploy(name="counts", **BY)
    topology.refresh_from_db()
    status = driver_status(topology, "degraded", committed=7)
    driver_status_apply(status=msgspec.structs.replace(status, error="OperatorError: one row"))
    operation.refresh_from_db()
    assert operation.state == OperationState.PENDING


def test_undeploying_ends_a_deployment_that_has_not_run(topology: Topology) -> None:
    operation = topology_deploy(name="counts", **BY)
    topology_undeploy(name="counts", **BY)
    operation.refresh_from_db()
    assert (operation.state, "undeployed before it ran" in operation.error) == (OperationState.FAILED, True)


def test_a_checkpoint_that_was_not_taken_ends_with_the_topology(topology: Topology) -> None:
    deploy()
    topology.refresh_from_db()
    driver_status_apply(status=driver_status(topology, "running"))
    operation = topology_action(kind=OperationKind.TOPOLOGY_CHECKPOINT, name="counts", **BY)
    driver_status_apply(status=driver_status(topology, "stopped"))  # it is started again, and takes it then
    operation.refresh_from_db()
    assert operation.state == OperationState.PENDING
    topology_undeploy(name="counts", **BY)
    driver_status_apply(status=driver_status(topology, "stopped"))
    operation.refresh_from_db()
    assert (operation.state, operation.error) == (OperationState.FAILED, "the topology has stopped")


def test_a_completed_topology_is_undeployed_at_once(topology: Topology) -> None:
    deploy()
    topology.refresh_from_db()
    driver_status_apply(status=driver_status(topology, "completed"))
    operation = topology_undeploy(name="counts", **BY)
    assert operation.state == OperationState.SUCCEEDED
    topology.refresh_from_db()
    assert topology.status == TopologyStatus.STOPPED
    with pytest.raises(Conflict, match="is not deployed"):
        topology_undeploy(name="counts", **BY)


@pytest.mark.parametrize(
    ("checkpoint", "state", "error"),
    [(5, OperationState.SUCCEEDED, ""), (4, OperationState.FAILED, "the topology has completed")],
)
def test_a_checkpoint_that_was_asked_for_at_the_end_of_the_input_ends_with_it(
    topology: Topology, checkpoint: int, state: OperationState, error: str
) -> None:
    deploy()
    topology.refresh_from_db()
    driver_status_apply(status=driver_status(topology, "running"))
    operation = topology_action(kind=OperationKind.TOPOLOGY_CHECKPOINT, name="counts", **BY)
    operation_start(operation=operation, result={"request": 1})
    completed = driver_status(topology, "completed", committed=5)
    driver_status_apply(status=msgspec.structs.replace(completed, checkpoint=checkpoint))
    operation.refresh_from_db()
    assert (operation.state, operation.error) == (state, error)
    assert operation.result.get("checkpoint") == (5 if checkpoint == 5 else None)


def test_one_that_does_not_fit_on_the_nodes_that_came_says_so_once(db: None) -> None:
    topology_create(spec=spec_of(), **BY)
    deploy()
    Partition.objects.update(cpu=0.5)
    Node.objects.create(name="node-1", state=NodeState.ALIVE)
    topology_place_if_unplaced(Topology.objects.get())
    assert not Problem.objects.exists(), "nodes come one by one"
    Topology.objects.update(deployed_at=timezone.now() - timedelta(seconds=60))
    for _ in range(2):
        topology_place_if_unplaced(Topology.objects.get())
    problem = Problem.objects.get()
    assert problem.what.startswith("topology 'counts' does not fit on 1 node: no room for")
    assert (problem.topology.name, problem.count, RecoveryPlan.objects.exists()) == ("counts", 1, False)


def test_an_operation_that_waits_for_its_driver_is_told_once(topology: Topology) -> None:
    """Sweeps carry it out again, until the driver answers."""
    deploy()
    topology.refresh_from_db()
    driver_status_apply(status=driver_status(topology, "running"))
    operation = topology_action(kind=OperationKind.TOPOLOGY_PAUSE, name="counts", **BY)
    before = Event.objects.count()
    alone: Any = Alone()
    for _ in range(3):
        operation_run(alone, str(operation.pk))
    (told,) = Event.objects.order_by("sequence")[before:]
    assert (told.kind, told.changes[0]["fields"]["state"]) == ("operation.updated", "running")


@pytest.mark.parametrize(
    ("kind", "status"),
    [
        (OperationKind.TOPOLOGY_CHECKPOINT, TopologyStatus.DRAFT),
        (OperationKind.TOPOLOGY_PAUSE, TopologyStatus.PAUSED),
        (OperationKind.TOPOLOGY_RESUME, TopologyStatus.RUNNING),
        (OperationKind.TOPOLOGY_RECOVER, TopologyStatus.STOPPED),
    ],
)
def test_actions_need_their_state(topology: Topology, kind: OperationKind, status: TopologyStatus) -> None:
    Topology.objects.update(status=status, desired="running")
    with pytest.raises(Conflict, match=f"is {status}"):
        topology_action(kind=kind, name="counts", **BY)
    assert not Operation.objects.exists()


def test_only_a_checkpoint_in_storage_can_be_gone_back_to(topology: Topology) -> None:
    Topology.objects.update(status=TopologyStatus.RUNNING, desired="running")
    now = timezone.now()
    for epoch, stored in ((10, False), (20, True), (30, True)):
        Checkpoint.objects.create(
            topology=topology, epoch=epoch, state="completed", stored=stored, started_at=now
        )
    with pytest.raises(Missing, match="no checkpoint 15"):
        topology_restore(name="counts", checkpoint=15, **BY)
    with pytest.raises(Conflict, match="10 is not in storage; those that are: 20, 30"):
        topology_restore(name="counts", checkpoint=10, **BY)
    operation = topology_restore(name="counts", checkpoint=20, **BY, idempotency_key="k")
    assert operation.parameters == {"checkpoint": 20, "deployed_at": ""}
    assert topology_restore(name="counts", checkpoint=20, **BY, idempotency_key="k") == operation
    Topology.objects.update(status=TopologyStatus.DEGRADED)
    with pytest.raises(Conflict, match="is degraded"):
        topology_restore(name="counts", checkpoint=20, **BY)


@pytest.mark.parametrize(("label", "priority"), [("O0[0]", 0), ("O0[0]", 11)])
def test_priorities_outside_one_to_ten_are_refused(topology: Topology, label: str, priority: int) -> None:
    with pytest.raises(Invalid, match="not between 1 and 10"):
        query_priorities_set(topology="counts", priorities={label: priority}, **BY)


def test_an_unknown_query_is_missing(topology: Topology) -> None:
    with pytest.raises(Missing, match=r"no query 'Parser\[0\]'"):
        query_priorities_set(topology="counts", priorities={"Parser[0]": 2}, **BY)


def test_priorities_change_with_one_event_and_a_trace(topology: Topology) -> None:
    follower = Follower()
    query_priorities_set(topology="counts", priorities={"O0[0]": 9, "O0[1]": 3}, **BY)
    assert Event.objects.filter(kind="query.updated").count() == 1
    entry = AuditEntry.objects.get(action="query.priority")
    assert (entry.before, entry.after) == ({"O0[0]": 3}, {"O0[0]": 9})
    follower.check()


def test_deletion_removes_every_trace_from_the_snapshot(topology: Topology) -> None:
    deploy()
    topology_undeploy(name="counts", **BY)
    topology_stopped(name="counts")
    follower = Follower()
    topology_delete(name="counts", **BY)
    follower.check()
    assert not any(follower.entities[kind] for kind in ("topology", "partition", "query", "plan"))


def test_failed_partitions_take_their_queries_with_them(topology: Topology) -> None:
    deployed = deploy()
    affected = Affected()
    with transaction.atomic():
        changes = affected.fail("counts", ["O0[1]"])
        affected.write()
    assert {change["key"] for change in changes if change["entity"] != "sample"} == {"counts", "counts/O0[1]"}
    assert [change["entity"] for change in changes].count("sample") == 1
    states = {row.partition.label: row.status for row in Query.objects.select_related("partition")}
    assert states == {"O0[0]": "starting", "O0[1]": QueryStatus.FAILED, "O1[0]": "starting"}
    deployed.refresh_from_db()
    assert deployed.status == TopologyStatus.DEGRADED
    affected.assign("counts", {"O0[1]": "node-4"}, {"O0[1]": PartitionState.RESTORING})
    affected.write()
    row = deployed.partitions.select_related("node").get(operator="O0", index=1)
    assert (row.node.name, row.state) == ("node-4", "restoring")
