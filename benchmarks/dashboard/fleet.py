"""A large fleet as the services leave it in the database, without ZooKeeper, Spark or nodes.

Nodes register, topologies are deployed, drivers report, a fifth of the nodes is lost and the coordinator
plans: all of it through the services that the workers call. What gathers over hours is in `history`.
"""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from django.db.models import Max
from django.utils import timezone

from benchmarks.dashboard.specs import spec_flat, spec_wide
from controlplane.checkpoints.services import checkpoint_apply
from controlplane.events.choices import Channel
from controlplane.incidents.models import Incident, RecoveryPlan
from controlplane.incidents.plans import plan_mark_applied, plan_mark_published
from controlplane.incidents.services import incident_advance
from controlplane.lifecycle.nodes import node_register, nodes_heartbeat, nodes_lost
from controlplane.lifecycle.topologies import topology_deploy
from controlplane.nodes.models import Node
from controlplane.topologies.graphs import graph_of
from controlplane.topologies.models import Partition, Topology
from controlplane.topologies.services import topology_create
from controlplane.topologies.telemetry import topology_metrics_apply
from domain.messages import (
    CheckpointReport,
    EpochReport,
    NodeRegistration,
    NodeStats,
    PartitionMetrics,
    QueryMetrics,
)
from domain.recovery.events import DriverReported, Event, Looked, PlanPublished
from domain.topology import partition_id
from workers.availabilities import Availabilities

OPERATOR: dict[str, Any] = {"actor": "kim", "reason": "the fleet of the benchmark", "channel": Channel.CLI}
PER_RACK = 20
BEATS = 15
"""Seconds without failures, for the baseline latencies and the sparklines of a page."""

BUSY = 0.06
"""CPU seconds per second of a partition: ten of them keep a node of one core 60 % busy."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FleetSize:
    nodes: int = 1_000
    topologies: int = 10


def _spec_large(name: str) -> dict[str, Any]:
    return spec_flat(name) if name == "flat" else spec_wide(name)


class Fleet:
    """Writes the fleet. `grow` may be called again with a larger size. spec: of the topology of a name;
    capacity: of a node, and busy: what a partition takes of it, so that nodes are 60 % busy."""

    def __init__(
        self,
        spec: Callable[[str], dict[str, Any]] = _spec_large,
        *,
        capacity: int = 100,
        busy: float = BUSY,
        beats: int = BEATS,
    ) -> None:
        self._spec, self._capacity, self._busy, self._beats = spec, capacity, busy, beats
        self._availabilities = Availabilities()
        self._random = random.Random(11)
        newest = Topology.objects.aggregate(newest=Max("head_epoch"))["newest"]
        self._epoch = newest or 100_000

    def grow(self, size: FleetSize, step: Callable[[], None]) -> None:
        """Nodes and topologies up to `size`, all of them running and checkpointed."""
        for number in range(Node.objects.count() + 1, size.nodes + 1):
            self._node_register(number)
            step()
        for number in range(Topology.objects.count(), size.topologies):
            name = f"region-{number}" if number else "flat"
            topology_create(spec=self._spec(name), **OPERATOR)
            topology_deploy(name=name, **OPERATOR)
            plan_mark_published(topology=name, generation=1)
            self.report(name)
            plan_mark_applied(topology=name, generation=1)
            step()
        for _ in range(self._beats):
            self.beat()
            step()
        for name in self.topologies():
            self._checkpoint(name)

    def topologies(self) -> list[str]:
        return list(Topology.objects.order_by("pk").values_list("name", flat=True))

    def second(self) -> None:
        """The next epoch begins."""
        self._epoch += 1

    def beat(self) -> None:
        """One second: every driver reports, every node's heartbeat is stored."""
        self.second()
        for name in self.topologies():
            self.report(name)
        self.heartbeats()

    def report(self, name: str) -> None:
        """Store a driver's report of its last epoch as ingestion does."""
        report = self._epoch_report(Topology.objects.get(name=name))
        verdicts, _ = self._availabilities.observe(report)
        topology_metrics_apply(report=report, health=verdicts)

    def heartbeats(self) -> None:
        now = timezone.now()
        rng = self._random
        stats = [
            NodeStats(
                id=name,
                at=now.timestamp(),
                session="a1",
                cpu_percent=rng.uniform(50, 70),
                memory_bytes=rng.randrange(2 * 10**9, 4 * 10**9),
                disk_free_bytes=rng.randrange(7 * 10**10, 8 * 10**10),
            )
            for name in Node.objects.values_list("name", flat=True)
        ]
        nodes_heartbeat(stats=stats, at=now)

    def lose(self, nodes: int) -> int:
        """Whole racks die together; every topology's first wave is planned and published. Returns the
        incident's number."""
        names = list(Node.objects.order_by("pk").values_list("name", flat=True)[:nodes])
        evidence = "no heartbeat for 4.3 s; its registration is gone"
        nodes_lost(evidence=dict.fromkeys(names, evidence), at=timezone.now())
        number = int(Incident.objects.order_by("-number")[0].number)
        at = timezone.now().timestamp()
        seen = self.degraded()
        incident_advance(number=number, events=[*seen, Looked(at=at)])
        published = [
            PlanPublished(at=at, topology=plan.topology.name, generation=plan.generation)
            for plan in RecoveryPlan.objects.filter(incident__number=number).select_related("topology")
        ]
        incident_advance(number=number, events=[*published, Looked(at=at)])
        return number

    def degraded(self) -> list[Event]:
        """What the drivers say once they miss partitions."""
        at, failed = timezone.now().timestamp(), defaultdict[int, set[str]](set)
        rows = Partition.objects.filter(state="failed")
        for topology, operator, index in rows.values_list("topology_id", "operator", "index"):
            failed[topology].add(partition_id(operator, index))
        return [
            DriverReported(
                at=at,
                topology=topology.name,
                generation=topology.generation,
                state="degraded",
                head=self._epoch,
                committed=self._epoch,
                checkpoint=topology.checkpoint_epoch,
                absent=frozenset(failed[topology.pk]),
            )
            for topology in Topology.objects.defer("spec", "deployed_spec")
        ]

    def _node_register(self, number: int) -> None:
        now = timezone.now()
        node_register(
            registration=NodeRegistration(
                id=f"node-{number}",
                address=f"10.1.{number // 250}.{number % 250}",
                rack=f"rack-{1 + (number - 1) // PER_RACK}",
                slots=16,
                capacity=self._capacity,
                pid=number,
                session="a1",
                registered_at=now.timestamp(),
            ),
            at=now,
        )

    def _epoch_report(self, topology: Topology) -> EpochReport:
        plan = RecoveryPlan.objects.filter(topology=topology).order_by("-generation")[0]
        graph = graph_of(topology.spec)
        now = timezone.now().timestamp()
        rng = self._random
        return EpochReport(
            topology=topology.name,
            generation=topology.generation,
            first=self._epoch,
            last=self._epoch,
            head=self._epoch,
            committed=self._epoch,
            tuples=100_000,
            started_at=now - 0.5,
            ended_at=now,
            input_rate=100_000 + rng.uniform(-500, 500),
            watermark=now,
            state="running",
            absent=[label for label in graph.partitions if label not in plan.assignment],
            queries={
                query: QueryMetrics(epoch=self._epoch, latency=rng.uniform(0.6, 0.7), rows=70)
                for query in graph.queries
            },
            partitions={
                label: PartitionMetrics(
                    epoch=self._epoch,
                    node=node,
                    cost=self._busy * rng.uniform(0.9, 1.1),
                    rows_in=rng.randrange(900, 1_100),
                    rows_out=rng.randrange(400, 600),
                    state_bytes=rng.randrange(100_000, 900_000),
                )
                for label, node in plan.assignment.items()
            },
        )

    def _checkpoint(self, name: str) -> None:
        at = timezone.now().timestamp()
        topology = Topology.objects.get(name=name)
        checkpoint_apply(
            report=CheckpointReport(
                topology=name,
                checkpoint=self._epoch,
                generation=topology.generation,
                state="completed",
                acknowledged=1_000,
                total=1_000,
                size_bytes=400_000_000,
                started_at=at - 2.0,
                ended_at=at,
            )
        )
