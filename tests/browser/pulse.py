"""The metrics of each second, as ingestion publishes them for all running topologies."""

from __future__ import annotations

import math
import random
from datetime import datetime

from django.db import transaction
from django.utils import timezone

from controlplane.checkpoints.services import checkpoint_apply
from controlplane.events.representation import Change
from controlplane.events.services import event_publish
from controlplane.nodes.models import Node
from controlplane.nodes.representation import node_change
from controlplane.topologies.models import AvailabilitySample, Partition, Query, Topology
from controlplane.topologies.representation import (
    partition_change,
    query_change,
    sample_change,
    topology_change,
)
from domain.messages import CheckpointAck, CheckpointReport
from tests.browser.bounded import keys_beat
from tests.browser.chronicle import part_of

CHECKPOINT_EVERY = 10


class Pulse:
    """Publishes metrics of every running topology each second, with small changes, as ingestion does."""

    def __init__(self) -> None:
        self._random = random.Random(7)
        self._turn = 0

    def beat(self, *, at: datetime | None = None) -> None:
        """Publish one second's worth of events; `at` dates the samples."""
        self._turn += 1
        now = at or timezone.now()
        with transaction.atomic():
            for topology in Topology.objects.filter(status__in=("running", "degraded", "recovering")):
                self._topology(topology, now)
                exact = topology.guarantee == "exact"
                if exact and topology.status == "running" and self._turn % CHECKPOINT_EVERY == 0:
                    self._checkpoint(topology, now)
            self._nodes()

    def _nodes(self) -> None:
        nodes = list(Node.objects.filter(state__in=("alive", "draining")))
        for node in nodes:
            node.last_heartbeat = timezone.now()
            node.cpu_percent = max(3.0, min(96.0, (node.cpu_percent or 30) + self._random.uniform(-4, 4)))
        if not nodes:
            return
        Node.objects.bulk_update(nodes, ["last_heartbeat", "cpu_percent"])
        changes = [node_change(node, only=("last_heartbeat", "cpu_percent")) for node in nodes]
        event_publish(kind="node.metrics", changes=changes)

    def _topology(self, topology: Topology, at: datetime) -> None:
        topology.head_epoch += 1
        topology.committed_epoch += 1
        topology.input_rate = 1000 + self._random.uniform(-18, 18)
        keys_beat(topology, self._turn)
        topology.save()
        changes: list[Change] = [topology_change(topology)]
        queries = list(Query.objects.filter(topology=topology).select_related("partition"))
        for query in queries:
            query.epoch += 1
            if query.baseline_latency and query.available:
                wave = 1 + 0.06 * math.sin(self._turn / 9 + query.pk) + self._random.uniform(-0.05, 0.05)
                query.latency = query.baseline_latency * wave
                query.relative_latency = wave
            elif query.latency and query.status == "failed":
                query.latency += 1
                query.relative_latency = query.latency / (query.baseline_latency or 1)
            changes.append(query_change(query, topology=topology.name, partition=query.partition.label))
        Query.objects.bulk_update(queries, ["epoch", "latency", "relative_latency"])
        Partition.objects.filter(topology=topology, state="running").update(epoch=topology.committed_epoch)
        changes += [
            partition_change(row, topology=topology.name, node=row.node.name if row.node else None)
            for row in Partition.objects.filter(topology=topology).select_related("node")
        ]
        changes.append(self._sample(topology, queries, at))
        event_publish(kind="topology.metrics", topology=topology.name, changes=changes)

    @staticmethod
    def _checkpoint(topology: Topology, at: datetime) -> None:
        """What the driver reports when every partition has acknowledged."""
        rows = list(Partition.objects.filter(topology=topology).select_related("node"))
        epoch = topology.committed_epoch
        parts = [part_of(row, epoch % 17) for row in rows]
        started_at = at.timestamp() - 0.9
        for part in parts:
            part["taken_at"] = started_at + part.pop("alignment")
        checkpoint_apply(
            report=CheckpointReport(
                topology=topology.name,
                checkpoint=epoch,
                generation=topology.generation,
                state="completed",
                acknowledged=len(rows),
                total=len(rows),
                size_bytes=sum(part["size_bytes"] for part in parts),
                started_at=started_at,
                ended_at=at.timestamp(),
                kept=[epoch - 2 * CHECKPOINT_EVERY, epoch - CHECKPOINT_EVERY, epoch],
                acknowledgements=[
                    CheckpointAck(checkpoint=epoch, generation=topology.generation, **part) for part in parts
                ],
            )
        )

    @staticmethod
    def _sample(topology: Topology, queries: list[Query], at: datetime) -> Change:
        weight = sum(query.priority for query in queries) or 1
        sample = AvailabilitySample.objects.create(
            topology=topology,
            at=at,
            available=sum(query.available for query in queries),
            total=len(queries),
            tentative=sum(query.fidelity is not None for query in queries),
            weighted=sum(query.priority for query in queries if query.available) / weight,
        )
        return sample_change(sample, topology=topology.name)
