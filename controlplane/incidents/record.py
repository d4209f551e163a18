"""Everything there is to know about one incident, gathered for its export (read side)."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

import msgspec
from django.db.models import Min, Q, QuerySet, TextField
from django.db.models.functions import Cast, JSONObject
from django.utils import timezone

from controlplane.checkpoints.models import Checkpoint
from controlplane.errors import Missing
from controlplane.events.choices import OperationKind
from controlplane.events.models import AuditEntry, Event, Operation
from controlplane.incidents.choices import PlanKind
from controlplane.incidents.models import Incident, IncidentEntry, RecoveryPlan
from controlplane.incidents.selectors import entry_list, incident_list
from controlplane.nodes.models import Node, NodeRequest
from controlplane.topologies.models import AvailabilitySample, Query
from controlplane.topologies.representation import POLICY_FIELDS
from controlplane.tuple_rows import LABELS, RAW, IsoText, tuple_rows
from domain.topology import partition_id

AROUND = timedelta(minutes=1)
"""What was measured shortly before and after belongs to the picture."""

MOST_SAMPLES = 100_000
MOST_ROWS = 10_000


@dataclass(frozen=True, slots=True, kw_only=True)
class IncidentRecord:
    """Rows that belong to an incident; what was measured or decided is of the time from detection to end.
    The caller decides what to read of the querysets."""

    incident: Incident
    exported_at: datetime
    story: QuerySet[IncidentEntry]
    topologies: list[Any]
    priorities: dict[str, dict[str, int]]
    plans: QuerySet[RecoveryPlan]
    nodes: QuerySet[Node]
    requests: QuerySet[NodeRequest]
    checkpoints: QuerySet[Checkpoint]
    samples: dict[str, list[msgspec.Raw]]
    decisions: QuerySet[AuditEntry]
    operations: QuerySet[Operation]
    events: QuerySet[Event]


def incident_record(number: int) -> IncidentRecord:
    """Gather it; a constant number of queries. Raises `Missing`."""
    incident = incident_list().filter(number=number).first()
    if incident is None:
        raise Missing(f"there is no incident {number}")
    now = timezone.now()
    story = entry_list(number)
    topologies = _topologies(incident)
    names = {topology.pk: topology.name for topology in topologies}
    plans = RecoveryPlan.objects.filter(incident=incident).order_by("topology__name", "generation")
    requests = NodeRequest.objects.filter(incident=incident).order_by("id")
    nodes = sorted(_nodes(incident, plans, requests))
    start = min(incident.detected_at, story.aggregate(first=Min("at"))["first"] or incident.detected_at)
    ended = max(filter(None, (incident.closed_at, incident.all_queries_at)), default=None)
    if incident.closed_at is None:
        ended = None
    end = now if ended is None else ended
    return IncidentRecord(
        incident=incident,
        exported_at=now,
        story=story,
        topologies=topologies,
        priorities=_priorities(names),
        plans=plans,
        nodes=Node.objects.filter(name__in=nodes).order_by("name"),
        requests=requests,
        checkpoints=_checkpoints(_gone_back_to(incident, plans), names, start - AROUND, end + AROUND),
        samples=_samples(names, start - AROUND, end + AROUND),
        decisions=_decisions(incident, list(names.values()), nodes, start, end),
        operations=_operations(incident, list(names.values()), nodes, start, end),
        events=Event.objects.filter(incident=number).order_by("sequence")[:MOST_ROWS],
    )


def _topologies(incident: Incident) -> list[Any]:
    """With their specifications as text."""
    columns = ("pk", "name", "version", "status", *POLICY_FIELDS)
    return [*tuple_rows(incident.topologies.order_by("name"), *columns, json={"spec": RAW})]


def _nodes(incident: Incident, plans: QuerySet[RecoveryPlan], requests: QuerySet[NodeRequest]) -> set[str]:
    names = {node.name for node in incident.failed_nodes.all()}
    for plan in tuple_rows(plans, json={"assignment": LABELS}):
        names.update(plan.assignment.values())
    return names | set(requests.values_list("node_name", flat=True))


def _priorities(topologies: dict[int, str]) -> dict[str, dict[str, int]]:
    """Topology name to query id to priority; `topologies` has their names by primary key."""
    found: dict[str, dict[str, int]] = {name: {} for name in topologies.values()}
    rows = Query.objects.filter(topology__in=topologies)
    columns = ("topology_id", "partition__operator", "partition__index", "priority")
    for topology, operator, index, priority in rows.values_list(*columns):
        found[topologies[topology]][partition_id(operator, index)] = priority
    return found


def _gone_back_to(incident: Incident, plans: QuerySet[RecoveryPlan]) -> set[tuple[str, int]]:
    """Topologies and the epochs of the checkpoints that partitions were put back to."""
    restoring = plans.exclude(kind=PlanKind.MOVE)
    return {*incident.checkpoints.items(), *restoring.values_list("topology__name", "checkpoint")}


def _checkpoints(
    gone_back_to: set[tuple[str, int]], topologies: dict[int, str], first: datetime, last: datetime
) -> QuerySet[Checkpoint]:
    # Asked for together with the topologies, the database would read every checkpoint these ever had.
    back_to = Q(epoch__in={epoch for _, epoch in gone_back_to})
    found = Checkpoint.objects.filter(back_to | Q(started_at__gte=first, started_at__lte=last))
    keys = [
        pk
        for pk, topology, epoch, started in found.values_list("pk", "topology_id", "epoch", "started_at")
        if topology in topologies
        and (first <= started <= last or (topologies[topology], epoch) in gone_back_to)
    ]
    return Checkpoint.objects.filter(pk__in=keys[:MOST_ROWS]).order_by("topology__name", "epoch")


def _samples(topologies: dict[int, str], first: datetime, last: datetime) -> dict[str, list[msgspec.Raw]]:
    """Topology name to its samples in JSON, written by the database: they are many, and shown as they are."""
    found: dict[str, list[msgspec.Raw]] = {name: [] for name in topologies.values()}
    rows = AvailabilitySample.objects.filter(topology__in=topologies, at__gte=first, at__lte=last)
    shown = JSONObject(
        at=IsoText("at"), available="available", total="total", weighted="weighted", tentative="tentative"
    )
    written = rows.order_by("at").values_list("topology_id", Cast(shown, TextField()))
    for topology, text in written[:MOST_SAMPLES]:
        found[topologies[topology]].append(msgspec.Raw(text))
    return found


def _decisions(
    incident: Incident, topologies: list[str], nodes: list[str], start: datetime, end: datetime
) -> QuerySet[AuditEntry]:
    """What people (or their programs) changed that bears on it, in order."""
    of_topologies = Q(action__startswith="topology.") | Q(action__startswith="query.")
    bearing: QuerySet[Any] = AuditEntry.objects.filter(
        Q(action__startswith="incident.", target=str(incident.number))
        | Q(
            (of_topologies & Q(target__in=topologies)) | Q(action__startswith="node.", target__in=nodes),
            at__gte=start,
            at__lte=end,
        )
    )
    return bearing.order_by("at", "id")[:MOST_ROWS]


def _operations(
    incident: Incident, topologies: list[str], nodes: list[str], start: datetime, end: datetime
) -> QuerySet[Operation]:
    kinds = {area: [str(kind) for kind in OperationKind if kind.startswith(f"{area}.")] for area in _AREAS}
    meanwhile = Q(created_at__gte=start, created_at__lte=end)
    bearing = Operation.objects.filter(
        Q(kind__in=kinds["incident"], target=str(incident.number))
        | (meanwhile & Q(kind__in=kinds["topology"], target__in=topologies))
        | (meanwhile & Q(kind__in=kinds["node"], target__in=nodes))
    )
    return bearing.order_by("created_at", "id")[:MOST_ROWS]


_AREAS = ("incident", "topology", "node")
