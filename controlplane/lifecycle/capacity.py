"""The CPU of nodes over some seconds: what was measured, beside what the planner expects."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from datetime import datetime

from django.db.models import Sum

from controlplane.events.choices import EventKind
from controlplane.events.services import event_publish, writing
from controlplane.nodes.choices import NODE_PRESENT
from controlplane.nodes.models import Node, NodeSample
from controlplane.nodes.representation import node_change
from controlplane.topologies.bulk import rows_update
from controlplane.topologies.capacity import PERCENT, cpu_model_read
from controlplane.topologies.models import Partition, Topology
from domain.capacity import CpuModel

SMOOTHING = 0.3
"""Weight of the newest seconds in the moving average of what an agent takes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """A node over some seconds: CPU percent of everything, and of the agent alone; share of the quota's
    periods in which it was stopped; topologies that have processes there."""

    cpu_percent: float
    agent_percent: float
    throttled: float
    topologies: Collection[str]


@writing
def node_samples_record(*, measured: Mapping[str, Measured], at: datetime) -> None:
    """Store a sample of each node, with what the planner expects of it; one event for all of them."""
    models = {
        name: cpu_model_read(name, stored)
        for name, stored in Topology.objects.values_list("name", "cpu_model")
    }
    hosted: defaultdict[int, dict[str, float]] = defaultdict(dict)
    sums = Partition.objects.filter(node__name__in=measured).values_list("node", "topology__name")
    for node_id, topology, cores in sums.annotate(Sum("cpu")).order_by():
        hosted[node_id][topology] = cores
    rows = list(Node.objects.filter(name__in=measured, state__in=NODE_PRESENT))
    for node in rows:
        seen = measured[node.name]
        before = node.agent_percent or seen.agent_percent
        node.agent_percent = round(before + SMOOTHING * (seen.agent_percent - before), 2)
        node.predicted_percent = _predicted(node.agent_percent, seen.topologies, hosted[node.pk], models)
    values = ((node.pk, node.agent_percent, node.predicted_percent) for node in rows)
    rows_update(Node, ("agent_percent", "predicted_percent"), values)
    NodeSample.objects.bulk_create(
        NodeSample(
            node=node,
            at=at,
            cpu_percent=round(measured[node.name].cpu_percent, 1),
            predicted_percent=node.predicted_percent,
            throttled=round(measured[node.name].throttled, 3),
        )
        for node in rows
    )
    changes = [node_change(node, only=("predicted_percent",)) for node in rows]
    if changes:
        event_publish(kind=EventKind.NODE_METRICS, changes=changes)


def _predicted(
    agent: float,
    topologies: Collection[str],
    hosted: Mapping[str, float],
    models: Mapping[str, CpuModel],
) -> float | None:
    """CPU percent at the normal pace; None while nothing was learned of a topology that works there."""
    cores = 0.0
    for name in topologies:
        model = models.get(name)
        if model is None:
            continue
        if name in hosted and not model.windows:
            return None
        cores += model.node + hosted[name] if name in hosted else model.shares.fixed
    return round(agent + PERCENT * cores, 1)
