"""What lists of checkpoints and savepoints can be filtered by."""

from __future__ import annotations

from django_filters import CharFilter
from django_filters.rest_framework import FilterSet

from controlplane.api.filtering import WholeFilter, one_of, since, until
from controlplane.checkpoints.choices import CheckpointState, SavepointState


class TopologyCheckpointFilters(FilterSet):
    state = one_of(CheckpointState.choices)
    epoch = WholeFilter(high=2**63 - 1)
    generation = WholeFilter()
    since = since("started_at")
    until = until("started_at")


class CheckpointFilters(TopologyCheckpointFilters):
    topology = CharFilter(field_name="topology__name")


class SavepointFilters(FilterSet):
    topology = CharFilter()
    state = one_of([one for one in SavepointState.choices if one[0] != SavepointState.DELETED])
