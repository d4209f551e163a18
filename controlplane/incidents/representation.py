"""How incidents, their story and their plans look to clients, in the snapshot and in events."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from controlplane.events.representation import Change, Fields, change, iso, rounded
from controlplane.incidents.permitted import incident_refusals

if TYPE_CHECKING:
    from controlplane.incidents.models import Incident, IncidentEntry, RecoveryPlan


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
            "availability_area": rounded(incident.availability_area),
            "summary": incident.summary,
            "refusals": incident_refusals(incident),
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
