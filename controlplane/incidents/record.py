"""Everything there is to know about one incident, gathered for its export (read side)."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from django.db.models import Q, QuerySet
from django.utils import timezone

from controlplane.checkpoints.models import Checkpoint
from controlplane.errors import Missing
from controlplane.events.choices import OperationKind
from controlplane.events.models import AuditEntry, Event, Operation
from controlplane.incidents.models import Incident, RecoveryPlan
from controlplane.nodes.models import Node, NodeRequest
from controlplane.topologies.models import AvailabilitySample, Query, Topology

AROUND = timedelta(minutes=1)
"""What was measured shortly before and after belongs to the picture."""

MOST_SAMPLES = 100_000
MOST_ROWS = 10_000


@dataclass(frozen=True, slots=True)
class IncidentRecord:
    """Rows that belong to an incident; what was measured or decided is of the time from detection to end."""

    incident: Incident
    exported_at: datetime
    topologies: list[Topology]
    priorities: dict[str, dict[str, int]]
    plans: list[RecoveryPlan]
    nodes: list[Node]
    requests: list[NodeRequest]
    checkpoints: list[Checkpoint]
    samples: dict[str, list[AvailabilitySample]]
    decisions: list[AuditEntry]
    operations: list[Operation]
    events: list[Event]


def incident_record(number: int) -> IncidentRecord:
    """Gather it; a constant number of queries. Raises `Missing`."""
    rows = Incident.objects.prefetch_related("failed_nodes", "topologies", "entries")
    incident = rows.filter(number=number).first()
    if incident is None:
        raise Missing(f"there is no incident {number}")
    now = timezone.now()
    topologies = sorted(incident.topologies.all(), key=lambda topology: topology.name)
    names = {topology.pk: topology.name for topology in topologies}
    plans = list(
        RecoveryPlan.objects.filter(incident=incident)
        .select_related("topology", "incident")
        .order_by("topology__name", "generation")
    )
    requests = list(NodeRequest.objects.filter(incident=incident).select_related("incident").order_by("id"))
    nodes = list(Node.objects.filter(name__in=_nodes(incident, plans, requests)).order_by("name"))
    start = min([incident.detected_at, *(row.at for row in incident.entries.all())])
    ended = max(filter(None, (incident.closed_at, incident.all_queries_at)), default=None)
    if incident.closed_at is None:
        ended = None
    end = now if ended is None else ended
    priorities: dict[str, dict[str, int]] = {name: {} for name in names.values()}
    for query in Query.objects.filter(topology__in=names).select_related("partition"):
        priorities[names[query.topology_id]][query.partition.label] = query.priority
    samples: dict[str, list[AvailabilitySample]] = {name: [] for name in names.values()}
    measured = AvailabilitySample.objects.filter(
        topology__in=names, at__gte=start - AROUND, at__lte=end + AROUND
    )
    for sample in measured.order_by("at")[:MOST_SAMPLES]:
        samples[names[sample.topology_id]].append(sample)
    checkpoints = Checkpoint.objects.filter(topology__in=names).select_related("topology")
    first = min(incident.checkpoints.values(), default=0)
    return IncidentRecord(
        incident=incident,
        exported_at=now,
        topologies=topologies,
        priorities=priorities,
        plans=plans,
        nodes=nodes,
        requests=requests,
        checkpoints=list(
            checkpoints.filter(
                Q(epoch=first) | Q(started_at__gte=start - AROUND, started_at__lte=end + AROUND)
            ).order_by("topology__name", "epoch")[:MOST_ROWS]
        ),
        samples=samples,
        decisions=_decisions(incident, list(names.values()), [node.name for node in nodes], start, end),
        operations=_operations(incident, list(names.values()), [node.name for node in nodes], start, end),
        events=list(Event.objects.filter(incident=number).defer("changes").order_by("sequence")[:MOST_ROWS]),
    )


def _nodes(incident: Incident, plans: list[RecoveryPlan], requests: list[NodeRequest]) -> set[str]:
    names = {node.name for node in incident.failed_nodes.all()}
    names |= {node for plan in plans for node in plan.assignment.values()}
    return names | {request.node_name for request in requests}


def _decisions(
    incident: Incident, topologies: list[str], nodes: list[str], start: datetime, end: datetime
) -> list[AuditEntry]:
    """What people (or their programs) changed that bears on it, in order."""
    meanwhile = Q(at__gte=start, at__lte=end)
    bearing: QuerySet[Any] = AuditEntry.objects.filter(
        Q(action__startswith="incident.", target=str(incident.number))
        | (meanwhile & Q(action__startswith="topology.", target__in=topologies))
        | (meanwhile & Q(action__startswith="query.", target__in=topologies))
        | (meanwhile & Q(action__startswith="node.", target__in=nodes))
    )
    return list(bearing.order_by("at", "id")[:MOST_ROWS])


def _operations(
    incident: Incident, topologies: list[str], nodes: list[str], start: datetime, end: datetime
) -> list[Operation]:
    kinds = {area: [str(kind) for kind in OperationKind if kind.startswith(f"{area}.")] for area in _AREAS}
    meanwhile = Q(created_at__gte=start, created_at__lte=end)
    bearing = Operation.objects.filter(
        Q(kind__in=kinds["incident"], target=str(incident.number))
        | (meanwhile & Q(kind__in=kinds["topology"], target__in=topologies))
        | (meanwhile & Q(kind__in=kinds["node"], target__in=nodes))
    )
    return list(bearing.order_by("created_at", "id")[:MOST_ROWS])


_AREAS = ("incident", "topology", "node")
