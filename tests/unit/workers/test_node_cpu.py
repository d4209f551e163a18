"""From heartbeats and reports to the model of a topology's CPU, and to samples of nodes."""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any

import msgspec
import pytest

from controlplane.events import tasks
from controlplane.events.choices import Channel
from controlplane.incidents.loading import deployments_load, nodes_load, plans_newest
from controlplane.lifecycle.topologies import topology_deploy
from controlplane.nodes.choices import NodeState
from controlplane.nodes.models import Node, NodeSample
from controlplane.topologies.capacity import cpu_model_read
from controlplane.topologies.models import Partition, Topology
from controlplane.topologies.services import topology_create
from controlplane.topologies.telemetry import topology_metrics_apply
from domain.capacity import CpuModel, CpuShares, Work
from domain.messages import EpochReport, NodeStats, NodeWork
from tests.unit.controlplane.following import Follower
from tests.unit.controlplane.specs import BY, epoch_report, spec_of
from workers.node_cpu import NodeCpu

TRUE = CpuShares(fixed=0.03, per_task=0.008, per_cpu_second=1.6, per_tuple=0.0)
AGENT = 0.02
TASKS = 3
START = 1_700_000_000.0


@pytest.fixture(autouse=True)
def _no_broker(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tasks, "task_send", lambda name, *arguments: None)


@pytest.fixture
def running(db: None) -> Topology:
    for number in (1, 2, 3, 4):
        Node.objects.create(name=f"node-{number}", rack="rack-a", state=NodeState.ALIVE)
    topology = topology_create(spec=spec_of(), actor="ada", reason="test", channel=Channel.CLI)
    topology_deploy(name=topology.name, **BY)
    topology.refresh_from_db()
    return topology


class System:
    """Nodes that take exactly what `TRUE` says, measured with some noise."""

    def __init__(self, topology: Topology) -> None:
        self.topology = topology
        self.chance = random.Random(5)
        self.node_cpu = NodeCpu()
        self.taken = {f"node-{number}": 0.0 for number in (1, 2, 3, 4)}
        rows = Partition.objects.filter(topology=topology).select_related("node").order_by("pk")
        self.costs = {row.label: 0.01 * (1 + index % 4) for index, row in enumerate(rows)}
        self.homes = {row.label: row.node.name for row in rows if row.node}

    def operators(self, node: str) -> float:
        return sum(self.costs[label] for label, home in self.homes.items() if home == node)

    def cores(self, node: str) -> float:
        """What the node takes in truth."""
        return AGENT + TRUE.of(Work(tasks=TASKS, operators=self.operators(node)))

    def seconds(self, first: int, last: int) -> Iterator[int]:
        """One job and one heartbeat of every node each second."""
        for second in range(first, last + 1):
            report = self.report(second)
            self.node_cpu.report(report)
            topology_metrics_apply(report=report, health={})
            self.node_cpu.heartbeats([self.heartbeat(node, START + second + 1.0) for node in self.taken])
            yield second

    def report(self, second: int) -> EpochReport:
        base = epoch_report(self.topology, epoch=second)
        partitions = {
            label: msgspec.structs.replace(metrics, cost=self.costs[label], tuple_rate=10.0)
            for label, metrics in base.partitions.items()
        }
        work = {
            node: NodeWork(tasks=TASKS, cpu_seconds=self.operators(node), tuples=0) for node in self.taken
        }
        return msgspec.structs.replace(
            base,
            started_at=START + second,
            ended_at=START + second + 0.9,
            partitions=partitions,
            work=work,
            epoch_interval=1.0,
        )

    def heartbeat(self, node: str, at: float, **changes: Any) -> NodeStats:
        self.taken[node] += (self.cores(node) - AGENT) * self.chance.gauss(1.0, 0.1)
        given: dict[str, Any] = {
            "id": node,
            "at": at,
            "session": "a",
            "cpu_percent": 1.0,
            "memory_bytes": 1,
            "disk_free_bytes": 1,
            "topologies": [self.topology.name],
            "cpu_seconds": {self.topology.name: self.taken[node]},
            "own_cpu_seconds": AGENT * (at - START),
            "throttled": 0.25,
        }
        return NodeStats(**{**given, **changes})


def test_nodes_are_predicted_and_recovery_plans_with_it(running: Topology) -> None:
    system = System(running)
    follower = Follower()
    for _ in system.seconds(1, 80):
        pass
    model = cpu_model_read(running.name, Topology.objects.get().cpu_model)
    assert model.windows == 4 * 7
    assert model.tasks == TASKS
    for node in system.taken:
        newest = NodeSample.objects.filter(node__name=node).latest("at")
        assert newest.cpu_percent == pytest.approx(100 * system.cores(node), rel=0.1)
        assert newest.predicted_percent == pytest.approx(100 * system.cores(node), rel=0.1)
        assert newest.throttled == pytest.approx(0.25)
    assert NodeSample.objects.count() == 4 * 7
    # What recovery plans with: the share of a node, and costs that add up to the rest.
    deployments = deployments_load(plans_newest())
    nodes = nodes_load(deployments)
    costs = deployments[running.name].costs
    for node in system.taken:
        partitions = sum(costs[label] for label, home in system.homes.items() if home == node)
        assert nodes[node].load + partitions == pytest.approx(100 * system.cores(node), rel=0.1)
        assert nodes[node].load > 100 * AGENT
    follower.follow()
    told = {name: row["predicted_percent"] for name, row in follower.entities["node"].items()}
    assert told == dict(Node.objects.values_list("name", "predicted_percent"))


def test_while_nothing_was_learned_nothing_is_predicted(running: Topology) -> None:
    system = System(running)
    for _ in system.seconds(1, 11):
        pass
    assert NodeSample.objects.count() == 4
    assert set(NodeSample.objects.values_list("predicted_percent", flat=True)) == {None}
    assert Topology.objects.get().cpu_model == {}


def test_heartbeats_come_twice_stop_and_start_from_zero(running: Topology) -> None:
    system = System(running)
    for second in system.seconds(1, 40):
        if second == 15:
            system.taken["node-2"] = 0.0  # its agent was started again
        if second == 20:
            same = [system.heartbeat(node, START + 21.0) for node in system.taken]
            system.node_cpu.heartbeats(same)
            system.node_cpu.heartbeats(same)
    samples = NodeSample.objects.filter(node__name="node-1")
    assert samples.count() == 3
    # Its sample that had begun when the agent started again is dropped, and the next begins there.
    ends = [sample.at.timestamp() - START for sample in NodeSample.objects.filter(node__name="node-2")]
    assert ends == [12.0, 27.0, 37.0]
    assert all(0 < one.cpu_percent < 150 * system.cores(one.node.name) for one in NodeSample.objects.all())


def test_a_node_that_is_gone_is_forgotten(running: Topology) -> None:
    system = System(running)
    for _ in system.seconds(1, 5):
        pass
    del system.taken["node-3"]
    for _ in system.seconds(6, 40):
        pass
    assert not NodeSample.objects.filter(node__name="node-3").exists()
    assert NodeSample.objects.filter(node__name="node-1").count() == 3


@pytest.mark.parametrize("stored", [{"windows": "many"}, {"moment": [1]}, [1, 2], "x"])
def test_a_stored_model_that_cannot_be_read_is_replaced(running: Topology, stored: Any) -> None:
    Topology.objects.update(cpu_model=stored)
    assert cpu_model_read(running.name, stored) == CpuModel()
    for _ in System(running).seconds(1, 30):
        pass
    assert cpu_model_read(running.name, Topology.objects.get().cpu_model).windows > 0
