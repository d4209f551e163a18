"""How topologies and their parts look to clients, in the snapshot and in events."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from controlplane.events.representation import Change, Fields, change, iso, rounded
from controlplane.topologies.drawing import topology_graph
from controlplane.topologies.permitted import topology_refusals
from domain.topology import partition_id

if TYPE_CHECKING:
    from controlplane.topologies.models import AvailabilitySample, Partition, Problem, Query, Topology


POLICY_FIELDS = (
    "method",
    "planner",
    "rollback",
    "approval",
    "correlation_threshold",
    "correlation_window",
    "replication_planner",
    "replication_budget",
)
"""How a topology is to be recovered, and what a replication plan of it is asked for. Numbers may be None:
those of the installation, and of the budget a quarter of the partitions."""

TOPOLOGY_METRICS = (
    "status",
    "error",
    "generation",
    "applied_generation",
    "head_epoch",
    "committed_epoch",
    "checkpoint_epoch",
    "input_rate",
)


def topology_fields(topology: Topology) -> Fields:
    """Everything but `graph`, which costs a parse and changes only with the version."""
    return {
        "name": topology.name,
        "version": topology.version,
        "status": topology.status,
        "desired": topology.desired,
        "error": topology.error,
        "method": topology.method,
        "policy": {field: getattr(topology, field) for field in POLICY_FIELDS},
        "generation": topology.generation,
        "applied_generation": topology.applied_generation,
        "head_epoch": topology.head_epoch,
        "committed_epoch": topology.committed_epoch,
        "checkpoint_epoch": topology.checkpoint_epoch,
        "input_rate": round(topology.input_rate, 1),
        "deployed_at": iso(topology.deployed_at),
        "created_at": iso(topology.created_at),
        "refusals": topology_refusals(topology),
    }


def topology_change(topology: Topology, *, only: Iterable[str] | None = None, graph: bool = False) -> Change:
    fields = topology_fields(topology)
    if graph:
        fields["graph"] = topology_graph(topology.spec)
        fields["description"] = topology.spec.get("description", "")
    return change("topology", topology.name, fields, only)


PARTITION_METRICS = ("epoch", "cpu", "rows_in_rate", "rows_out_rate", "state_bytes")
QUERY_METRICS = ("latency", "baseline_latency", "relative_latency", "epoch")


def partition_change(
    partition: Partition, *, topology: str, node: str | None, only: Iterable[str] | None = None
) -> Change:
    """`node` is the node's name; the caller has it without a query per row."""
    label = partition_id(partition.operator, partition.index)
    return change(
        "partition",
        f"{topology}/{label}",
        {
            "topology": topology,
            "partition": label,
            "operator": partition.operator,
            "index": partition.index,
            "node": node,
            "state": partition.state,
            "epoch": partition.epoch,
            "cpu": partition.cpu,  # rounded when it was stored: there are too many of these to do it here
            "rows_in_rate": partition.rows_in_rate,
            "rows_out_rate": partition.rows_out_rate,
            "state_bytes": partition.state_bytes,
        },
        only,
    )


def query_change(query: Query, *, topology: str, partition: str, only: Iterable[str] | None = None) -> Change:
    return change(
        "query",
        f"{topology}/{partition}",
        {
            "topology": topology,
            "partition": partition,
            "priority": query.priority,
            "status": query.status,
            "available": query.available,
            "latency": rounded(query.latency),
            "baseline_latency": rounded(query.baseline_latency),
            "relative_latency": rounded(query.relative_latency),
            "epoch": query.epoch,
        },
        only,
    )


def problem_change(problem: Problem, *, topology: str | None) -> Change:
    return change(
        "problem",
        problem.pk,
        {
            "topology": topology,
            "at": iso(problem.at),
            "first_at": iso(problem.first_at),
            "severity": problem.severity,
            "where": problem.where,
            "what": problem.what,
            "hint": problem.hint,
            "count": problem.count,
        },
    )


def sample_change(sample: AvailabilitySample, *, topology: str) -> Change:
    at = iso(sample.at)
    return change(
        "sample",
        f"{topology}/{at}",
        {
            "topology": topology,
            "at": at,
            "available": sample.available,
            "total": sample.total,
            "weighted": round(sample.weighted, 4),
        },
    )
