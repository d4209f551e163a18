"""What lists of operations and audit entries can be filtered by."""

from __future__ import annotations

from django_filters import CharFilter
from django_filters.rest_framework import FilterSet

from controlplane.api.filtering import one_of, since, until
from controlplane.events.choices import Channel, OperationKind, OperationState


class OperationFilters(FilterSet):
    state = one_of(OperationState.choices)
    kind = one_of(OperationKind.choices)
    target = CharFilter()
    requested_by = CharFilter()
    since = since("created_at")
    until = until("created_at")


class AuditFilters(FilterSet):
    actor = CharFilter()
    channel = one_of(Channel.choices)
    action = CharFilter()
    target = CharFilter()
    since = since("at")
    until = until("at")
