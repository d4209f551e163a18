"""How entities look to clients: one builder per entity, used by the snapshot and by every event.

A change is ``{"entity": kind, "key": key, "fields": {...} | None}``. Fields are
merged by the client, so an event may carry a subset of what the snapshot has,
but never another name or another value. Times are ISO 8601 in UTC.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Literal, TypedDict

from controlplane.events.drawing import topology_graph
from domain.topology import partition_id

if TYPE_CHECKING:
    from controlplane.checkpoints.models import Checkpoint
    from controlplane.events.models import Event, Operation
    from controlplane.incidents.models import Incident, IncidentEntry, RecoveryPlan
    from controlplane.nodes.models import Node
    from controlplane.topologies.models import (
        AvailabilitySample,
        Partition,
        Problem,
        Query,
        Topology,
    )

EntityKind = Literal[
    "topology",
    "partition",
    "query",
    "node",
    "incident",
    "entry",
    "plan",
    "checkpoint",
    "problem",
    "operation",
    "sample",
]
Fields = dict[str, Any]


class Change(TypedDict):
    entity: EntityKind
    key: str
    fields: Fields | None


def iso(moment: datetime | None) -> str | None:
    """``2026-01-31T12:00:00.123Z``: fixed width, so that text order is time order."""
    if moment is None:
        return None
    if moment.tzinfo is not UTC:  # rows have it from the database
        moment = moment.astimezone(UTC)
    return f"{moment.isoformat(timespec='milliseconds')[:-6]}Z"


def change(entity: EntityKind, key: str | int, fields: Fields, only: Iterable[str] | None = None) -> Change:
    """An upsert of `fields`, or of those named by `only`."""
    chosen = fields if only is None else {name: fields[name] for name in only}
    return {"entity": entity, "key": str(key), "fields": chosen}


def removal(entity: EntityKind, key: str | int) -> Change:
    return {"entity": entity, "key": str(key), "fields": None}


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
            "latency": _rounded(query.latency),
            "baseline_latency": _rounded(query.baseline_latency),
            "relative_latency": _rounded(query.relative_latency),
            "epoch": query.epoch,
        },
        only,
    )


def node_change(node: Node, *, only: Iterable[str] | None = None) -> Change:
    return change(
        "node",
        node.name,
        {
            "name": node.name,
            "address": node.address,
            "rack": node.rack,
            "slots": node.slots,
            "capacity": node.capacity,
            "standby": node.standby,
            "state": node.state,
            "registered_at": iso(node.registered_at),
            "last_heartbeat": iso(node.last_heartbeat),
            "cpu_percent": _rounded(node.cpu_percent, 1),
            "memory_bytes": node.memory_bytes,
            "disk_free_bytes": node.disk_free_bytes,
            "provider": node.provider,
        },
        only,
    )


def incident_change(
    incident: Incident, *, nodes: Iterable[str] | None = None, topologies: Iterable[str] | None = None
) -> Change:
    """`nodes` and `topologies` are names; given ones save two queries."""
    if nodes is None:
        nodes = incident.failed_nodes.values_list("name", flat=True)
    if topologies is None:
        topologies = incident.topologies.values_list("name", flat=True)
    return change(
        "incident",
        incident.number,
        {
            "number": incident.number,
            "state": incident.state,
            "method": incident.method,
            "trigger": incident.trigger,
            "reason": incident.reason,
            "detected_at": iso(incident.detected_at),
            "opened_at": iso(incident.opened_at),
            "closed_at": iso(incident.closed_at),
            "first_query_at": iso(incident.first_query_at),
            "half_queries_at": iso(incident.half_queries_at),
            "all_queries_at": iso(incident.all_queries_at),
            "failed_nodes": sorted(nodes),
            "topologies": sorted(topologies),
            "checkpoints": incident.checkpoints,
            "wanted_nodes": incident.wanted_nodes,
            "paused": incident.paused,
            "proposals": incident.proposals,
            "availability_area": _rounded(incident.availability_area),
            "summary": incident.summary,
        },
    )


WORKINGS = frozenset({"alternatives", "explanations", "homes", "placed", "planned_load_percent"})
"""What the coordinator writes down of its reckoning. A line of the story is told without it, and so is a plan
of a large topology, where it outgrows everything else: REST has all of it."""

LARGE = 200
"""Partitions in an assignment."""


def without_workings(data: Mapping[str, Any]) -> Fields:
    return {name: value for name, value in data.items() if name not in WORKINGS}


def entry_change(entry: IncidentEntry, *, incident: int) -> Change:
    return change(
        "entry",
        entry.pk,
        {
            "incident": incident,
            "at": iso(entry.at),
            "kind": entry.kind,
            "text": entry.text,
            "data": without_workings(entry.data),
        },
    )


def plan_change(plan: RecoveryPlan, *, topology: str, incident: int | None) -> Change:
    """`incident` is its number. Of a large assignment only what the plan restores is told."""
    assignment, explanation = plan.assignment, plan.explanation
    if len(assignment) > LARGE:
        assignment = {label: assignment[label] for label in plan.restore if label in assignment}
        explanation = without_workings(explanation)
    return change(
        "plan",
        f"{topology}/{plan.generation}",
        {
            "topology": topology,
            "incident": incident,
            "generation": plan.generation,
            "wave": plan.wave,
            "kind": plan.kind,
            "method": plan.method,
            "rollback": plan.rollback,
            "buffering": plan.buffering,
            "checkpoint": plan.checkpoint,
            "assignment": assignment,
            "restore": plan.restore,
            "state": plan.state,
            "reason": plan.reason,
            "created_at": iso(plan.created_at),
            "published_at": iso(plan.published_at),
            "applied_at": iso(plan.applied_at),
            "caught_up_at": iso(plan.caught_up_at),
            "verified_at": iso(plan.verified_at),
            "explanation": explanation,
        },
    )


def checkpoint_change(checkpoint: Checkpoint, *, topology: str) -> Change:
    return change(
        "checkpoint",
        f"{topology}/{checkpoint.epoch}",
        {
            "topology": topology,
            "epoch": checkpoint.epoch,
            "generation": checkpoint.generation,
            "state": checkpoint.state,
            "stored": checkpoint.stored,
            "acknowledged": checkpoint.acknowledged,
            "total": checkpoint.total,
            "size_bytes": checkpoint.size_bytes,
            "started_at": iso(checkpoint.started_at),
            "ended_at": iso(checkpoint.ended_at),
            "restored_at": iso(checkpoint.restored_at),
            "cause": checkpoint.cause,
            "requested_by": checkpoint.requested_by,
        },
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


def event_fields(event: Event) -> Fields:
    """A numbered event as it is sent: over websockets, to webhooks, and (apart from texts) over REST."""
    return {
        "sequence": event.sequence,
        "at": iso(event.at),
        "kind": event.kind,
        "topology": event.topology or None,
        "node": event.node or None,
        "incident": event.incident,
        "actor": event.actor,
        "reason": event.reason,
        "changes": event.changes,
    }


def operation_change(operation: Operation) -> Change:
    return change(
        "operation",
        str(operation.pk),
        {
            "id": str(operation.pk),
            "kind": operation.kind,
            "target": operation.target,
            "state": operation.state,
            "requested_by": operation.requested_by,
            "reason": operation.reason,
            "created_at": iso(operation.created_at),
            "ended_at": iso(operation.ended_at),
            "result": operation.result,
            "error": operation.error,
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


def _rounded(value: float | None, digits: int = 4) -> float | None:
    return None if value is None else round(value, digits)
