"""What lists of incidents and plans can be filtered by."""

from __future__ import annotations

from typing import Any

from django_filters import CharFilter
from django_filters.rest_framework import FilterSet

from controlplane.api.filtering import FlagFilter, WholeFilter, one_of, since, until
from controlplane.incidents.choices import (
    INCIDENT_ACTIVE,
    INCIDENT_ENDED,
    IncidentState,
    IncidentTrigger,
    PlanKind,
    PlanState,
)
from controlplane.topologies.choices import RecoveryMethod


class IncidentFilters(FilterSet):
    state = one_of(IncidentState.choices)
    open = FlagFilter(method="filter_open", label="neither closed nor aborted")
    method = one_of(RecoveryMethod.choices)
    trigger = one_of(IncidentTrigger.choices)
    topology = CharFilter(field_name="topologies__name", label="name of a topology it took down")
    node = CharFilter(field_name="failed_nodes__name", label="name of a node that failed")
    since = since("opened_at")
    until = until("opened_at")

    @staticmethod
    def filter_open(rows: Any, name: str, value: bool) -> Any:
        return rows.filter(state__in=INCIDENT_ACTIVE if value else INCIDENT_ENDED)


class PlanFilters(FilterSet):
    state = one_of(PlanState.choices)
    kind = one_of(PlanKind.choices)
    generation = WholeFilter()
    incident = WholeFilter("incident__number", label="number of the incident")
