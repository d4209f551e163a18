"""What detection and recovery change on a topology's rows.

These run inside the caller's transaction and return the changes for the caller's
event, so that an incident and its effect on the topologies are one event.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

from django.utils import timezone

from controlplane.events.representation import Change
from controlplane.topologies.choices import PartitionState, QueryStatus, TopologyStatus
from controlplane.topologies.graphs import graph_of
from controlplane.topologies.models import Query, Topology
from controlplane.topologies.representation import topology_change
from controlplane.topologies.rows import Rows
from controlplane.topologies.samples import sample_take


def partitions_failed(*, topology: Topology, partitions: Collection[str]) -> list[Change]:
    """Mark `partitions` failed and every query that needs one of them unavailable.

    The topology becomes degraded unless it is already recovering or at its end.
    """
    rows = Rows.load(topology)
    graph = graph_of(topology.spec)
    failed = [label for label in partitions if label in rows.partitions]
    for label in failed:
        rows.partitions[label].state = PartitionState.FAILED
    down = [label for label in graph.failed_queries(failed) if label in rows.queries]
    for label in down:
        query = rows.queries[label]
        query.status = QueryStatus.PARKED if query.parked else QueryStatus.FAILED
        rows.queries[label].available = False
    rows.save()
    changes = [*rows.partition_changes(failed), *rows.query_changes(down)]
    if down:
        # The curve falls when the failure is known, not when the driver reports again.
        changes.append(sample_take(rows, at=timezone.now()))
    if topology.status in (TopologyStatus.RUNNING, TopologyStatus.DEPLOYING):
        changes.insert(0, topology_status_set(topology=topology, status=TopologyStatus.DEGRADED))
    return changes


def queries_parked(*, topology: Topology, queries: Collection[str]) -> list[Change]:
    """These queries are parked from now on, and no others; each shows it once it has stopped."""
    rows = Rows.load(topology)
    changed = [label for label, row in rows.queries.items() if row.parked != (label in queries)]
    for label in changed:
        row = rows.queries[label]
        row.parked = label in queries
        if not row.parked and row.status == QueryStatus.PARKED:
            row.status = QueryStatus.FAILED
    Query.objects.bulk_update([rows.queries[label] for label in changed], ["parked", "status"])
    return rows.query_changes(changed)


def partitions_assign(
    *,
    topology: Topology,
    assignment: Mapping[str, str],
    states: Mapping[str, PartitionState] | None = None,
    whole: bool = False,
) -> list[Change]:
    """Put partitions on the nodes (names) a plan gives them, with new `states` where given.

    whole: the assignment is that of a plan, so that what it leaves out is to run nowhere and has failed.
    """
    rows = Rows.load(topology)
    touched: list[str] = []
    for label, partition in rows.partitions.items():
        node = rows.nodes.ids.get(assignment.get(label, ""), partition.node_id)
        state = (states or {}).get(label, partition.state)
        if whole and label not in assignment:
            node, state = None, PartitionState.FAILED
        if (node, state) != (partition.node_id, partition.state):
            partition.node_id, partition.state = node, state
            touched.append(label)
    if touched:
        rows.save()
    return rows.partition_changes(touched)


def topology_status_set(*, topology: Topology, status: TopologyStatus, error: str = "") -> Change:
    topology.status = status
    topology.error = error
    topology.save(update_fields=["status", "error", "updated_at"])
    return topology_change(topology)
