"""What nodes remove from their disks: with the node's own session, a real ZooKeeper and real directories."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import msgspec
import pytest
from django.utils import timezone
from kazoo.client import KazooClient

from controlplane.lifecycle.topologies import topology_deploy, topology_undeploy
from controlplane.topologies.former import formers_to_clear
from controlplane.topologies.models import FormerTopology, Topology
from controlplane.topologies.services import topology_create, topology_delete
from controlplane.topologies.telemetry import topology_stopped
from coordination.paths import ROOT, Paths
from domain.messages import CheckpointAck, DriverStatus, Former, LatestCheckpoint, Plan
from domain.topology import partition_directory
from host import environment
from spark_jobs.agent.forgetting import Forgetting
from spark_jobs.agent.membership import NodeIdentity, NodeMembership
from spark_jobs.agent.statistics import NodeUsage
from spark_jobs.agent.uploads import Uploader
from spark_jobs.state.checkpoint_storage import CheckpointStorage
from spark_jobs.state.snapshot import leave_snapshot
from spark_jobs.state.store import Manifest
from supervision.readiness import wait_until
from tests.unit.controlplane.specs import BY, spec_of
from workers import reconciliation
from workers.clearing import formers_agree, formers_clear
from workers.zookeeper import WorkerSession

pytestmark = [pytest.mark.integration, pytest.mark.django_db]


class Node:
    """A node's disk and its session; `forgetting.look()` is what its thread does."""

    def __init__(self, home: Path, hosts: str) -> None:
        self.home = home
        self.gone: list[str] = []
        self.membership = NodeMembership(
            identity=NodeIdentity(
                id="node-1", address="127.0.1.1", rack="rack-a", slots=2, capacity=100, standby=False, pid=20
            ),
            hosts=hosts,
            session_timeout=4.0,
            heartbeat_interval=0.2,
            usage=lambda: NodeUsage(cpu_percent=1.0, memory_bytes=1, disk_free_bytes=1),
            executors=list,
            on_wanted=lambda _: None,
        )
        self.forgetting = Forgetting(node_home=home, ask=self.membership.over, on_gone=self.gone.append)

    def filled(self, topology: str, *deployed: int) -> None:
        for number in deployed:
            for one in (f"state/{topology}/{number}/V-0", f"snapshots/{topology}/30.{number}.0.{number}"):
                (self.home / one).mkdir(parents=True)

    def left(self, topology: str) -> set[int]:
        return {int(path.name) for path in (self.home / "state" / topology).glob("*")}


@contextmanager
def node_up(home: Path, coordination: WorkerSession) -> Iterator[Node]:
    node = Node(home, coordination.hosts)
    node.membership.start()
    try:
        registered: Callable[[], bool] = lambda: coordination.exists(Paths.node("node-1"))  # noqa: E731
        wait_until(registered, what="the registration", timeout=20)
        yield node
    finally:
        node.membership.finish()


def delete(topology: Topology) -> None:
    topology_undeploy(name=topology.name, **BY)
    topology_stopped(name=topology.name)
    topology_delete(name=topology.name, **BY)


@pytest.fixture
def home(tmp_path: Path) -> environment.Environment:
    return replace(
        environment.read(), home=tmp_path, outputs=str(tmp_path / "out"), checkpoints=str(tmp_path / "saved")
    )


def test_a_node_that_was_down_forgets_what_was_deleted_and_only_that(
    coordination: WorkerSession, deployed: Topology, home: environment.Environment, tmp_path: Path
) -> None:
    reconciliation.topology_reconcile(coordination, "counts")
    reached = deployed.generation
    disk = tmp_path / "node-1"
    down = Node(disk, coordination.hosts)
    down.filled("counts", reached)
    down.filled("other", 1)
    down.forgetting.look()
    assert not down.forgetting.looked.is_set(), "it has no session: nothing is known"
    with node_up(disk, coordination) as node:
        node.forgetting.look()
        assert node.left("counts") == {reached}
        assert node.forgetting.looked.is_set()

    delete(deployed)
    formers_clear(coordination, home)
    topology_create(spec=spec_of(), **BY)
    topology_deploy(name="counts", **BY)
    reconciliation.topology_reconcile(coordination, "counts")
    now = Topology.objects.get().generation
    with node_up(disk, coordination) as node:
        node.filled("counts", now)
        node.forgetting.look()
        assert node.left("counts") == {now}
        assert [path.name for path in (disk / "snapshots" / "counts").iterdir()] == [f"30.{now}.0.{now}"]
        assert node.left("other") == {1}, "nothing is known of it"
        assert node.gone == []


def test_nothing_stays_of_a_name_that_is_gone(
    coordination: WorkerSession, deployed: Topology, home: environment.Environment, tmp_path: Path
) -> None:
    reconciliation.topology_reconcile(coordination, "counts")
    with node_up(tmp_path / "node-1", coordination) as node:
        node.filled("counts", deployed.generation)
        (node.home / "work" / "counts").mkdir(parents=True)
        delete(deployed)
        node.forgetting.look()
        assert node.left("counts"), "its driver may still work"
        formers_clear(coordination, home)
        node.forgetting.look()
        assert node.gone == ["counts"], "the executors' directory is the agent's"
        assert sorted(path.name for path in node.home.glob("*/*")) == ["counts"]
        # A task that was frozen writes again.
        node.filled("counts", deployed.generation)
        node.forgetting.look()
        assert node.left("counts") == set()


def test_a_zookeeper_without_its_data_shows_nothing(
    coordination: WorkerSession, deployed: Topology, home: environment.Environment, tmp_path: Path
) -> None:
    reconciliation.topology_reconcile(coordination, "counts")
    with node_up(tmp_path / "node-1", coordination) as node:
        node.filled("counts", deployed.generation)
        node.filled("sums", 4)
        FormerTopology.objects.create(name="sums", generation=4, outputs="keep", cleared_at=timezone.now())
        FormerTopology.objects.create(name="left", generation=4, outputs="keep")
        coordination.delete_tree(Paths.TOPOLOGIES)
        coordination.delete_tree(Paths.FORMER)
        node.forgetting.look()
        assert (node.left("counts"), node.left("sums")) == ({deployed.generation}, {4})
        formers_agree(coordination)
        assert coordination.children(Paths.FORMER) == ["sums"], "the other is not cleared yet"
        node.forgetting.look()
        assert (node.left("counts"), node.left("sums")) == ({deployed.generation}, set())


def test_a_database_that_was_begun_anew_goes_on_counting(
    coordination: WorkerSession, raw: KazooClient
) -> None:
    """What a task of a deployment before the loss may still write has another number than all that follow."""
    coordination.put(Paths.former("counts"), Former(generation=9))
    raw.create(Paths.former("no name"), b'{"generation": 9}')
    formers_agree(coordination)
    formers_agree(coordination)
    topology_create(spec=spec_of(), **BY)
    assert Topology.objects.get().generation == 10
    assert [former.name for former in FormerTopology.objects.all()] == ["counts"]
    assert formers_to_clear() == [], "that was done before"


def test_a_node_that_comes_back_uploads_nothing_of_what_was_deleted(
    coordination: WorkerSession, tmp_path: Path
) -> None:
    coordination.put(Paths.former("deleted"), Former(generation=3))
    storage = CheckpointStorage(f"file://{tmp_path}/saved")
    acknowledged: list[str] = []

    def acknowledge(topology: str, ack: CheckpointAck, _: str) -> bool:
        acknowledged.append(f"{topology} {ack.error}".strip())
        return True

    with node_up(tmp_path / "node-1", coordination) as node:
        for topology, checkpoint in (("deleted", 10), ("running", 20)):
            manifest = Manifest(epoch=checkpoint, generation=3)
            leave_snapshot(node.home, topology, "V[0]", 3, manifest, deployed=3)
        uploader = Uploader(
            node="node-1", node_home=node.home, storage=storage, acknowledge=acknowledge,
            begin=node.forgetting.looked,
        )  # fmt: skip
        uploader.start()
        node.forgetting.start()
        wait_until(lambda: "running" in acknowledged, what="the other snapshot's upload", timeout=20)
        node.forgetting.finish()
        uploader.finish()
    assert acknowledged == ["running"]
    assert [path.name for path in (tmp_path / "saved").glob("[!.]*")] == ["running"]


def test_names_and_values_that_are_none(
    coordination: WorkerSession, raw: KazooClient, tmp_path: Path
) -> None:
    names = ("t", "u", "Upper", "-x", ".hidden", "with space", "..x", "a" * 64)
    coordination.put(Paths.former("t"), Former(generation=9))
    raw.create(Paths.plan("t"), b"{nonsense", makepath=True)
    raw.create(Paths.former("u"), b'{"generation": -1}', makepath=True)
    for name in names[2:]:
        raw.create(f"{ROOT}/former/{name}", b'{"generation": 9}', makepath=True)
    with node_up(tmp_path / "node-1", coordination) as node:
        for name in names:
            node.filled(name, 3)
        node.forgetting.look()
        assert {name: node.left(name) for name in names} == {name: {3} for name in names}
        assert node.forgetting.looked.is_set()
        coordination.put(Paths.plan("t"), Plan(generation=9, kind="deploy", assignment={}, deployed=9))
        node.forgetting.look()
        assert node.left("t") == set()


def test_what_has_moved_away_goes_once_a_checkpoint_of_the_plan_is_complete(
    coordination: WorkerSession, deployed: Topology, tmp_path: Path
) -> None:
    reconciliation.topology_reconcile(coordination, "counts")
    plan = coordination.get(Paths.plan("counts"), Plan)
    assert plan is not None
    in_force = plan.value
    here = next(p for p, node in sorted(in_force.assignment.items()) if node == "node-1")
    elsewhere = next(p for p, node in sorted(in_force.assignment.items()) if node != "node-1")

    with node_up(tmp_path / "node-1", coordination) as node:
        states = {
            p: node.home / "state" / "counts" / str(in_force.deployment) / partition_directory(p)
            for p in (here, elsewhere)
        }
        for state in states.values():
            state.mkdir(parents=True)
            (state / "30.manifest").touch()
            os.utime(state, (1e9, 1e9))
        latest = LatestCheckpoint(checkpoint=30, generation=0, completed_at=1.0, size_bytes=1)
        working = DriverStatus(
            topology="counts", pid=1, session="", generation=in_force.generation, state="running", head=31,
            committed=31, checkpoint=30, at=1.0,
        )  # fmt: skip
        coordination.put(Paths.driver("counts"), working)
        coordination.put(Paths.latest_checkpoint("counts"), latest)
        node.forgetting.look()
        assert all(state.exists() for state in states.values()), "it may be restored from there"
        proof = msgspec.structs.replace(latest, generation=in_force.generation)
        coordination.put(Paths.latest_checkpoint("counts"), proof)
        node.forgetting.look()
        assert states[here].exists()
        assert not states[elsewhere].exists()
