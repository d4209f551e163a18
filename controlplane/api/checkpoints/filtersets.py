"""What lists of checkpoints can be filtered by."""

from __future__ import annotations

from django_filters import CharFilter
from django_filters.rest_framework import FilterSet

from controlplane.api.filtering import WholeFilter, one_of, since, until
from controlplane.checkpoints.choices import CheckpointState


class TopologyCheckpointFilters(FilterSet):
    state = one_of(CheckpointState.choices)
    epoch = WholeFilter(high=2**63 - 1)
    generation = WholeFilter()
    since = since("started_at")
    until = until("started_at")


class CheckpointFilters(TopologyCheckpointFilters):
    topology = CharFilter(field_name="topology__name")
