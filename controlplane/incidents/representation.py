"""How incidents, their story and their plans look to clients, in the snapshot and in events."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from controlplane.events.representation import Change, Fields, change, rounded, shown
from controlplane.incidents.permitted import incident_refusals

if TYPE_CHECKING:
    from controlplane.incidents.models import Incident, IncidentEntry, RecoveryPlan

INCIDENT_RELATED = ("failed_nodes", "topologies")
"""Names of related rows."""

INCIDENT_FIELDS = (
    *("number", "state", "method", "trigger", "reason", "detected_at", "opened_at", "closed_at"),
    *("first_query_at", "half_queries_at", "all_queries_at", *INCIDENT_RELATED, "checkpoints"),
    *("wanted_nodes", "paused", "proposals", "availability_area", "summary", "forecast"),
)
"""What is shown of an incident, apart from what it permits: by the snapshot, by events and by REST."""

PLAN_FIELDS = (
    *("topology", "incident", "generation", "wave", "kind", "method", "rollback", "buffering"),
    *("checkpoint", "assignment", "restore", "state", "reason", "explanation", "created_at"),
    *("published_at", "applied_at", "caught_up_at", "verified_at"),
)
"""Likewise of a plan; a large one is told without what outgrows everything else (`plan_change`)."""

PLAN_MOVED = tuple(name for name in PLAN_FIELDS if name != "explanation")

ENTRY_STORED = ("at", "kind", "text", "data")
ENTRY_FIELDS = ("incident", *ENTRY_STORED)
"""Likewise of a line of the story, which is told without workings (`entry_change`)."""


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
        shown(
            incident,
            INCIDENT_FIELDS,
            failed_nodes=sorted(nodes),
            topologies=sorted(topologies),
            availability_area=rounded(incident.availability_area),
            refusals=incident_refusals(incident),
        ),
    )


WORKINGS = frozenset({"alternatives", "explanations", "homes", "placed", "planned_load_percent"})
"""What the coordinator writes down of its reckoning. A line of the story is told without it, and so is a plan
of a large topology, where it outgrows everything else: REST has all of it."""

LARGE = 200
"""Partitions in an assignment."""


def without_workings(data: Mapping[str, Any]) -> Fields:
    return {name: value for name, value in data.items() if name not in WORKINGS}


def entry_change(entry: IncidentEntry, *, incident: int) -> Change:
    fields = shown(entry, ENTRY_FIELDS, incident=incident, data=without_workings(entry.data))
    return change("entry", entry.pk, fields)


def plan_change(plan: RecoveryPlan, *, topology: str, incident: int | None) -> Change:
    """`incident` is its number. Of a large assignment only what the plan restores is told."""
    explanation = without_workings(plan.explanation) if len(plan.assignment) > LARGE else plan.explanation
    moved = plan_moved(plan, topology=topology, incident=incident)
    return {**moved, "fields": {**(moved["fields"] or {}), "explanation": explanation}}


def plan_moved(plan: RecoveryPlan, *, topology: str, incident: int | None) -> Change:
    """Of one that clients know: its explanation, which is long, stays as it is."""
    assignment = plan.assignment
    if len(assignment) > LARGE:
        assignment = {label: assignment[label] for label in plan.restore if label in assignment}
    fields = shown(plan, PLAN_MOVED, topology=topology, incident=incident, assignment=assignment)
    return change("plan", f"{topology}/{plan.generation}", fields)
