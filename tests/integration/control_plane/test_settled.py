"""The sweep leaves out the topologies of which ZooKeeper, a real one, has all that it is to have."""

from __future__ import annotations

from collections.abc import Callable

import msgspec
import pytest
from django.utils import timezone

from controlplane.events.choices import Channel
from controlplane.incidents.models import RecoveryPlan
from controlplane.lifecycle.topologies import topology_undeploy
from controlplane.topologies.models import FormerTopology, Topology
from coordination.paths import ROOT, Paths
from domain.messages import DeployedSpec, Plan
from tests.integration.control_plane.steps import newest
from workers import reconciliation, tasks
from workers.settled import topologies_settled
from workers.zookeeper import WorkerSession

pytestmark = [pytest.mark.integration, pytest.mark.django_db]


def change(coordination: WorkerSession, **fields: object) -> None:
    """The plan in ZooKeeper."""
    found = coordination.get(Paths.plan("counts"), Plan)
    assert found is not None
    coordination.put(Paths.plan("counts"), msgspec.structs.replace(found.value, **fields))


def change_spec(coordination: WorkerSession, **fields: object) -> None:
    found = coordination.get(Paths.spec("counts"), DeployedSpec)
    assert found is not None
    coordination.put(Paths.spec("counts"), msgspec.structs.replace(found.value, **fields))


def next_plan(state: str) -> None:
    """Only in the database."""
    row = newest()
    row.pk, row.generation, row.state = None, row.generation + 1, state
    row.save(force_insert=True)
    if state == "published":
        RecoveryPlan.objects.filter(pk=row.pk).update(published_at=timezone.now())


UNSETTLED: dict[str, Callable[[WorkerSession], object]] = {
    "zookeeper lost all": lambda zk: zk.delete_tree(ROOT),
    "the plan is lost": lambda zk: zk.delete_tree(Paths.plan("counts")),
    "another specification": lambda zk: change_spec(zk, spec={"name": "counts"}),
    "to be stopped there": lambda zk: change_spec(zk, desired="stopped"),
    "an older version": lambda zk: change_spec(zk, version=0),
    "a plan ahead of the database": lambda zk: change(zk, generation=9),
    "a plan of another database": lambda zk: change(zk, installation="other"),
    "a plan that says not of which": lambda zk: change(zk, installation=""),
    "a newer plan": lambda zk: next_plan("planned"),
    "a newer plan that is known to be there": lambda zk: next_plan("published"),
    "not recorded as published": lambda zk: RecoveryPlan.objects.update(state="planned"),
    "paused": lambda zk: Topology.objects.update(status="paused"),
    "undeployed": lambda zk: topology_undeploy(name="counts", actor="a", reason="b", channel=Channel.CLI),
    "deployed anew, without nodes": lambda zk: Topology.objects.update(deployed_at=timezone.now()),
    "a former one is not cleared": lambda zk: FormerTopology.objects.create(name="counts", generation=1),
}


@pytest.mark.parametrize("case", UNSETTLED)
def test_a_topology_with_anything_to_do_is_not_settled(
    coordination: WorkerSession, deployed: Topology, case: str
) -> None:
    reconciliation.topology_reconcile(coordination, "counts")
    assert topologies_settled(coordination, ["counts", "none"]) == {"counts"}
    UNSETTLED[case](coordination)
    assert topologies_settled(coordination, ["counts"]) == set()


def test_the_sweep_publishes_what_is_not_settled(
    coordination: WorkerSession, deployed: Topology, monkeypatch: pytest.MonkeyPatch
) -> None:
    published: list[str] = []

    def publish(name: str) -> None:
        published.append(name)
        reconciliation.topology_reconcile(coordination, name)

    monkeypatch.setattr(tasks, "coordination", lambda: coordination)
    monkeypatch.setattr(tasks, "topology_publish", publish)
    monkeypatch.setattr(tasks, "operation_run", lambda pk: None)
    tasks.sweep()
    tasks.sweep()
    assert published == ["counts"], "ZooKeeper has everything after the first one"
    coordination.delete_tree(ROOT)
    tasks.sweep()
    assert published == ["counts", "counts"]
    assert coordination.get(Paths.plan("counts"), Plan) is not None


def test_a_dropped_plan_is_not_waited_for(coordination: WorkerSession, deployed: Topology) -> None:
    reconciliation.topology_reconcile(coordination, "counts")
    next_plan("superseded")
    RecoveryPlan.objects.filter(state="superseded").update(published_at=None)
    assert topologies_settled(coordination, ["counts"]) == {"counts"}
