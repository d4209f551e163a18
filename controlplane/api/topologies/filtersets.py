"""What lists of topologies and their parts can be filtered by."""

from __future__ import annotations

from django_filters import CharFilter
from django_filters.rest_framework import FilterSet

from controlplane.api.filtering import FlagFilter, WholeFilter, one_of, since, until
from controlplane.topologies.choices import (
    Desired,
    MethodPolicy,
    PartitionState,
    QueryStatus,
    Severity,
    TopologyStatus,
)
from controlplane.topologies.models import PRIORITY_HIGH, PRIORITY_LOW


class TopologyFilters(FilterSet):
    status = one_of(TopologyStatus.choices)
    desired = one_of(Desired.choices)
    method = one_of(MethodPolicy.choices)


class QueryFilters(FilterSet):
    status = one_of(QueryStatus.choices)
    available = FlagFilter()
    priority = WholeFilter(low=PRIORITY_LOW, high=PRIORITY_HIGH)


class PartitionFilters(FilterSet):
    operator = CharFilter()
    state = one_of(PartitionState.choices)
    node = CharFilter(field_name="node__name", label="name of the node that hosts them")


class AvailabilityFilters(FilterSet):
    since = since("at")
    until = until("at")


class TentativeFilters(FilterSet):
    query = CharFilter()
    since = since("began_at")
    until = until("began_at")


class TopologyProblemFilters(FilterSet):
    severity = one_of(Severity.choices)
    since = since("at")
    until = until("at")


class ProblemFilters(TopologyProblemFilters):
    topology = CharFilter(field_name="topology__name")
