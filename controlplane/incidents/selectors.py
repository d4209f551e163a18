"""Reading incidents, their story and their plans (read side)."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection
from datetime import timedelta
from typing import Any

from django.db.models import Prefetch, Q, QuerySet
from django.utils import timezone

from controlplane.errors import Missing
from controlplane.incidents.choices import INCIDENT_ACTIVE, INCIDENT_ENDED, PlanState
from controlplane.incidents.models import Incident, IncidentEntry, RecoveryPlan
from controlplane.nodes.models import Node
from controlplane.topologies.models import Topology
from controlplane.topologies.selectors import SPEC_OF_TOPOLOGY

Names = defaultdict[int, list[str]]
QUERIES_AWAITED = timedelta(minutes=10)

INCIDENT_AT_LENGTH = tuple(f"incident__{field}" for field in ("costs", "summary", "proposals", "checkpoints"))
"""To be deferred wherever rows come with their incident for its number."""


def incident_get(number: int, *, lock: bool = False) -> Incident:
    """The incident with this number; raises `Missing`."""
    rows = Incident.objects.select_for_update() if lock else Incident.objects.all()
    incident = rows.filter(number=number).first()
    if incident is None:
        raise Missing(f"there is no incident {number}")
    return incident


def incident_list() -> QuerySet[Incident]:
    """All incidents with the names of their nodes and topologies, newest first."""
    return (
        Incident.objects.defer("costs")
        .prefetch_related(
            Prefetch("failed_nodes", Node.objects.only("name")),
            Prefetch("topologies", Topology.objects.only("name")),
        )
        .order_by("-number")
    )


def incident_names(incidents: Collection[int]) -> tuple[Names, Names]:
    """Of incidents by number, the names of their nodes and of their topologies."""
    return _names(Incident.failed_nodes, incidents), _names(Incident.topologies, incidents)


def _names(relation: Any, incidents: Collection[int]) -> Names:
    names: Names = defaultdict(list)
    field = relation.field.m2m_reverse_field_name()
    rows = relation.through.objects.filter(incident__number__in=incidents)
    for incident, name in rows.values_list("incident__number", f"{field}__name"):
        names[incident].append(name)
    return names


def incidents_open() -> QuerySet[Incident]:
    """Incidents that are neither closed nor aborted, oldest first."""
    return Incident.objects.filter(state__in=INCIDENT_ACTIVE).order_by("number")


def incidents_with_queries_down() -> QuerySet[Incident]:
    """Incidents that have ended in the last minutes while failed queries were still catching up."""
    lately = timezone.now() - QUERIES_AWAITED
    return Incident.objects.filter(
        state__in=INCIDENT_ENDED, closed_at__gte=lately, all_queries_at__isnull=True
    ).order_by("number")


def entry_list(number: int) -> QuerySet[IncidentEntry]:
    """The story, in the order it happened."""
    return IncidentEntry.objects.filter(incident__number=number).order_by("at", "id")


def plan_list(*, incident: int | None = None, topology: str | None = None) -> QuerySet[RecoveryPlan]:
    plans = RecoveryPlan.objects.select_related("topology", "incident").order_by("topology", "-generation")
    plans = plans.defer(SPEC_OF_TOPOLOGY, *INCIDENT_AT_LENGTH)
    if incident is not None:
        plans = plans.filter(incident__number=incident)
    if topology is not None:
        plans = plans.filter(topology__name=topology)
    return plans


def proposals_overtaken(number: int, confirmed: Collection[str]) -> list[str]:
    """Which of the confirmed proposals no plan was made of, because the situation asked for another wave.
    While the incident is paused that is not decided yet. Raises `Missing`."""
    if not confirmed or incident_get(number).paused:
        return []
    plans = RecoveryPlan.objects.filter(incident__number=number, explanation__proposal__in=list(confirmed))
    taken = set(plans.values_list("explanation__proposal", flat=True))
    return [proposal for proposal in confirmed if proposal not in taken]


def placed_since_deploy(topology: Topology) -> bool:
    """Whether there is a plan of its present run: none while no node is alive on which it could begin."""
    plans = topology.plans.all()
    if topology.deployed_at is not None:
        plans = plans.filter(created_at__gte=topology.deployed_at)
    return bool(plans.exists())


PLAN_DROPPED = Q(state=PlanState.SUPERSEDED, published_at=None)
"""Plans that did not get into ZooKeeper, and are not to any more."""


def plan_standing(topology: str) -> RecoveryPlan | None:
    """The plan that must be in ZooKeeper: the newest of those that got there or are still to."""
    plans = plan_list(topology=topology).defer("explanation", "topology__deployed_spec")
    return plans.exclude(PLAN_DROPPED).order_by("-generation").first()
