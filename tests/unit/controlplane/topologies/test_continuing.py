"""A topology that is deployed again goes on from its newest checkpoint, where its version fits that."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import Any
from unittest.mock import Mock

import pytest
from msgspec import structs
from rest_framework.test import APIClient

from controlplane.checkpoints.models import Checkpoint
from controlplane.checkpoints.services import checkpoint_apply
from controlplane.errors import Conflict, Invalid
from controlplane.events.models import AuditEntry, Operation
from controlplane.incidents.loading import deploy_generations
from controlplane.incidents.models import RecoveryPlan
from controlplane.incidents.plans import plan_mark_applied
from controlplane.incidents.services import recover_now
from controlplane.lifecycle.continuing import outlook_find
from controlplane.lifecycle.topologies import topology_deploy, topology_undeploy
from controlplane.nodes.choices import NodeState
from controlplane.nodes.models import Node
from controlplane.topologies.choices import Start
from controlplane.topologies.models import Topology
from controlplane.topologies.services import topology_update
from controlplane.topologies.telemetry import driver_status_apply, topology_stopped
from tests.unit.controlplane.following import Follower
from tests.unit.controlplane.specs import BY, checkpoint_report, driver_status, spec_of
from workers.reconciliation import plan_of, topology_reconcile
from workers.zookeeper import WorkerSession

API = "/api/v1/topologies/counts"


def stop() -> Topology:
    topology_undeploy(name="counts", **BY)
    topology_stopped(name="counts")
    return Topology.objects.get()


def ran(*, committed: int = 20, checkpoints: Sequence[int] = (10, 20)) -> Topology:
    """It was deployed, gave output up to an epoch, and was undeployed."""
    topology_deploy(name="counts", **BY)
    topology = Topology.objects.get()
    driver_status_apply(status=driver_status(topology, committed=committed))
    for position, checkpoint in enumerate(checkpoints):
        kept = checkpoints[: position + 1]
        checkpoint_apply(report=checkpoint_report(topology, checkpoint=checkpoint, kept=kept))
    return stop()


def go_on() -> tuple[Topology, RecoveryPlan]:
    topology_deploy(name="counts", start=Start.CHECKPOINT, **BY)
    return Topology.objects.get(), RecoveryPlan.objects.order_by("-generation")[0]


def updated(**operator: Any) -> dict[str, Any]:
    """A version with one operator more, or with other fields of one."""
    spec = spec_of()
    known = next((one for one in spec["operators"] if one["name"] == operator["name"]), None)
    if known is None:
        spec["operators"].append(copy.deepcopy(operator))
    else:
        known.update(operator)
    topology_update(name="counts", spec=spec, **BY)
    return spec


NEW = {
    "name": "O2", "kind": "sliding_window", "parallelism": 2, "inputs": [{"from": "Parser"}],
    "params": {"size_s": 60, "slide_s": 5}, "output": True,
}  # fmt: skip


def test_the_plan_starts_at_the_checkpoint_in_the_same_deployment(topology: Topology) -> None:
    before = ran()
    follower = Follower()
    after, plan = go_on()
    assert (plan.kind, plan.rollback, plan.checkpoint, plan.generation) == ("restore", True, 20, 2)
    assert plan.restore == sorted(plan.assignment)
    assert plan.stateless == plan.divided == []
    assert plan_of(plan).deployed == 1 == deploy_generations()[after.pk]
    assert (after.status, after.desired, after.generation) == ("deploying", "running", 2)
    assert (after.committed_epoch, after.checkpoint_epoch) == (20, 20)
    assert after.spec == before.spec == after.deployed_spec
    assert after.computation == 1
    assert Checkpoint.objects.filter(stored=True).count() == 2
    assert AuditEntry.objects.latest("pk").after["checkpoint_epoch"] == 20
    follower.check()


def test_event_time_goes_on_counting_from_the_same_moment(topology: Topology) -> None:
    """The new version does not name it."""
    origin = ran().spec["operators"][0]["params"]["origin"]
    Topology.objects.update(deployed_at="2020-01-01T00:00:00Z")
    updated(name="O0", priority=9)
    assert "origin" not in Topology.objects.get().spec["operators"][0]["params"]
    after, _ = go_on()
    assert after.spec["operators"][0]["params"]["origin"] == origin
    assert after.computation == 1
    assert after.version == 2


def test_a_version_with_the_same_rows_may_compute_some_again(topology: Topology) -> None:
    ran(committed=25)
    updated(name="O0", priority=9)
    after, plan = go_on()
    assert (plan.checkpoint, after.committed_epoch, after.renewed) == (20, 25, [])


def test_an_operator_that_is_new_begins_without_state(topology: Topology) -> None:
    ran()
    updated(**NEW)
    follower = Follower()
    after, plan = go_on()
    assert plan.stateless == plan_of(plan).stateless == ["O2[0]", "O2[1]"]
    assert set(plan.assignment) == {row.label for row in after.partitions.all()}
    assert (after.computation, after.renewed) == (2, ["O2"])
    assert [row.epoch for row in Checkpoint.objects.filter(stored=True)] == [20]
    follower.check()


def test_what_the_checkpoint_lacks_is_told_until_there_is_a_newer_one(topology: Topology) -> None:
    """The driver of the version before may never have begun."""
    ran()
    updated(**NEW)
    go_on()
    stop()
    _, again = go_on()
    assert again.stateless == ["O2[0]", "O2[1]"]
    running = Topology.objects.get()
    driver_status_apply(status=driver_status(running, committed=30))
    checkpoint_apply(report=checkpoint_report(running, checkpoint=30, kept=[30]))
    stop()
    _, later = go_on()
    assert (later.checkpoint, later.stateless) == (30, [])


def test_a_driver_that_failed_at_its_start_lets_no_final_rows_change(topology: Topology) -> None:
    ran(committed=25)
    running, _ = go_on()
    driver_status_apply(status=driver_status(running, committed=25))
    failed = driver_status(running, "failed", committed=0, error="no module")
    driver_status_apply(status=structs.replace(failed, head=0))
    stop()
    wider()
    with pytest.raises(Conflict, match="outputs are final up to epoch 25"):
        go_on()


def wider(parallelism: int = 4) -> None:
    updated(name="O0", parallelism=parallelism)


def test_state_by_key_is_divided_among_other_partitions(topology: Topology) -> None:
    ran()
    wider()
    after, plan = go_on()
    assert (plan.stateless, plan.divided, plan_of(plan).divided) == ([], ["O0"], ["O0"])
    assert {"O0[2]", "O0[3]"} <= set(plan.restore)
    assert after.continues == {"checkpoint": 20, "stateless": [], "divided": ["O0"]}
    assert after.renewed[0] == "O0"


def test_what_is_divided_is_told_until_there_is_a_newer_checkpoint(topology: Topology) -> None:
    ran()
    wider()
    go_on()
    stop()
    assert go_on()[1].divided == ["O0"], "its driver may never have begun"
    stop()
    wider(3)
    _, again = go_on()
    assert (again.divided, again.stateless) == (["O0"], [])
    running = Topology.objects.get()
    driver_status_apply(status=driver_status(running, committed=30))
    checkpoint_apply(report=checkpoint_report(running, checkpoint=30, kept=[30]))
    stop()
    assert go_on()[1].divided == []


def test_what_began_without_state_has_none_to_divide(topology: Topology) -> None:
    """Nothing of it is in the checkpoint from which both versions go on."""
    ran()
    updated(**NEW)
    go_on()
    stop()
    updated(**{**NEW, "parallelism": 3})
    _, plan = go_on()
    assert (plan.stateless, plan.divided) == (["O2[0]", "O2[1]", "O2[2]"], [])


def test_what_was_renewed_is_remembered_until_it_starts_anew(topology: Topology) -> None:
    ran()
    updated(**NEW)
    go_on()
    stop()
    spec = spec_of()
    spec["operators"] += [copy.deepcopy(NEW), {**copy.deepcopy(NEW), "name": "O3"}]
    topology_update(name="counts", spec=spec, **BY)
    assert go_on()[0].renewed == ["O2", "O3"]
    stop()
    topology_update(name="counts", spec=spec_of(), **BY)
    after, _ = go_on()
    assert (after.renewed, after.computation) == ([], 3)
    stop()
    topology_deploy(name="counts", **BY)
    anew = Topology.objects.get()
    assert (anew.renewed, anew.computation, anew.continues) == ([], anew.version, None)
    assert not Checkpoint.objects.exists()


def test_other_rows_need_a_checkpoint_of_all_that_is_final(topology: Topology) -> None:
    ran(committed=25)
    updated(**NEW)
    with pytest.raises(Conflict, match=r"final up to epoch 25, .*computes otherwise \(O2\), .*checkpoint 20"):
        topology_deploy(name="counts", start=Start.CHECKPOINT, **BY)
    unchanged = Topology.objects.get()
    assert (unchanged.status, unchanged.generation, unchanged.continues) == ("stopped", 1, None)
    assert Checkpoint.objects.filter(stored=True).count() == 2


def test_state_that_does_not_fit_is_named(topology: Topology) -> None:
    ran()
    updated(name="O0", params={"size_s": 30, "slide_s": 5})
    with pytest.raises(Invalid) as refused:
        topology_deploy(name="counts", start=Start.CHECKPOINT, **BY)
    assert [problem.path for problem in refused.value.problems] == ["operators[2].params"]


def test_there_must_be_something_to_go_on_from(topology: Topology) -> None:
    with pytest.raises(Conflict, match="never been deployed"):
        topology_deploy(name="counts", start=Start.CHECKPOINT, **BY)
    ran(checkpoints=())
    with pytest.raises(Conflict, match="no checkpoint of topology 'counts' is in storage"):
        topology_deploy(name="counts", start=Start.CHECKPOINT, **BY)
    Topology.objects.update(deployed_spec=None)
    with pytest.raises(Conflict, match="an earlier version of Resurge"):
        topology_deploy(name="counts", start=Start.CHECKPOINT, **BY)
    Topology.objects.update(deployed_spec=spec_of(), status="completed")
    with pytest.raises(Conflict, match="to the end of its input"):
        topology_deploy(name="counts", start=Start.CHECKPOINT, **BY)


def test_the_checkpoint_is_restored_once_the_driver_runs_the_plan(topology: Topology) -> None:
    ran()
    _, plan = go_on()
    assert Checkpoint.objects.get(epoch=20).restored_at is None
    follower = Follower()
    assert plan_mark_applied(topology="counts", generation=plan.generation)
    plan.refresh_from_db()
    assert Checkpoint.objects.get(epoch=20).restored_at == plan.applied_at
    follower.check()


def test_where_it_goes_on_is_kept_until_there_are_nodes(topology: Topology) -> None:
    ran()
    updated(**NEW)
    Node.objects.update(state=NodeState.LOST)
    topology_deploy(name="counts", start=Start.CHECKPOINT, **BY)
    assert RecoveryPlan.objects.count() == 1
    # The driver of the run before has just ended.
    driver_status_apply(status=driver_status(topology, "stopped", generation=1, committed=20))
    with pytest.raises(Conflict, match="it waits for nodes"):
        recover_now(topology="counts", actor="kim", reason="it waits")
    coordination = Mock()
    topology_reconcile(coordination, "counts")
    assert not coordination.mock_calls, "a driver would begin with the plan of the run before"
    Node.objects.update(state=NodeState.ALIVE)

    class Nowhere(WorkerSession):
        def __init__(self) -> None:
            pass

        def __getattribute__(self, name: str) -> Any:
            raise ConnectionError("no ZooKeeper here")

    with pytest.raises(ConnectionError):
        topology_reconcile(Nowhere(), "counts")
    plan = RecoveryPlan.objects.order_by("-generation")[0]
    assert (plan.kind, plan.checkpoint, plan.stateless) == ("restore", 20, ["O2[0]", "O2[1]"])
    assert Topology.objects.get().status == "deploying"


def test_rest_says_what_it_would_go_on_with(topology: Topology, viewer: APIClient) -> None:
    assert "never been deployed" in viewer.get(f"{API}/continuation/").json()["refusal"]
    ran(committed=20)
    same = viewer.get(f"{API}/continuation/").json()
    assert (same["possible"], same["refusal"], same["checkpoint"], same["committed_epoch"]) == (
        True,
        "",
        20,
        20,
    )
    assert same["size_bytes"] == 7000
    assert same["completed_at"]
    updated(**NEW)
    more = viewer.get(f"{API}/continuation/").json()
    assert (more["possible"], more["added"], more["changed"]) == (True, ["O2[0]", "O2[1]"], ["O2"])
    wider()
    divided = viewer.get(f"{API}/continuation/").json()
    assert (divided["divided"], divided["added"]) == (["O0"], [])
    updated(name="O0", params={"size_s": 30, "slide_s": 5})
    refused = viewer.get(f"{API}/continuation/").json()
    assert (refused["possible"], len(refused["problems"])) == (False, 1)
    assert refused["problems"][0]["path"] == "operators[2].params"
    assert outlook_find(Topology.objects.get()).refusal == refused["refusal"]


def test_rest_deploys_from_the_checkpoint(topology: Topology, operator: APIClient) -> None:
    ran()
    assert operator.post(f"{API}/deploy/", {"reason": "test", "start": "middle"}).status_code == 400
    asked = operator.post(f"{API}/deploy/", {"reason": "the maintenance is over", "start": "checkpoint"})
    assert asked.status_code == 202
    assert Operation.objects.get(pk=asked.json()["id"]).parameters["checkpoint"] == 20
    assert RecoveryPlan.objects.order_by("-generation")[0].checkpoint == 20


def test_rest_refuses_what_does_not_fit_with_its_place(topology: Topology, operator: APIClient) -> None:
    ran()
    updated(name="O0", inputs=[{"from": "Parser", "key": "ts"}])
    asked = operator.post(f"{API}/deploy/", {"reason": "test", "start": "checkpoint"})
    assert asked.status_code == 400
    assert [error["path"] for error in asked.json()["errors"]] == ["operators[2].inputs"]
