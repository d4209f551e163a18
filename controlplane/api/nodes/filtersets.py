"""What lists of nodes and node requests can be filtered by."""

from __future__ import annotations

from django_filters import CharFilter
from django_filters.rest_framework import FilterSet

from controlplane.api.filtering import FlagFilter, WholeFilter, one_of, since, until
from controlplane.nodes.choices import NodeRequestState, NodeState


class NodeFilters(FilterSet):
    state = one_of(NodeState.choices)
    rack = CharFilter()
    standby = FlagFilter()


class NodeSampleFilters(FilterSet):
    since = since("at")
    until = until("at")


class NodeRequestFilters(FilterSet):
    state = one_of(NodeRequestState.choices)
    incident = WholeFilter("incident__number", label="number of the incident")
