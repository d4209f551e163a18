"""What lists of alerts, rules and silences can be filtered by."""

from __future__ import annotations

from typing import Any

from django.db.models import Q
from django.utils import timezone
from django_filters import CharFilter
from django_filters.rest_framework import FilterSet

from controlplane.alerts.choices import METRIC_CHOICES, AlertSeverity, AlertState
from controlplane.api.filtering import FlagFilter, one_of, since, until


class AlertFilters(FilterSet):
    state = one_of(AlertState.choices)
    severity = one_of(AlertSeverity.choices)
    rule = CharFilter()
    topology = CharFilter()
    silenced = FlagFilter(method="filter_silenced", label="whether a silence covers it")
    since = since("since")
    until = until("since")

    def filter_silenced(self, rows: Any, name: str, value: bool) -> Any:
        return rows.filter(silence__isnull=not value)


class RuleFilters(FilterSet):
    metric = one_of(METRIC_CHOICES)
    severity = one_of(AlertSeverity.choices)
    enabled = FlagFilter()


class SilenceFilters(FilterSet):
    rule = CharFilter()
    topology = CharFilter()
    author = CharFilter()
    lasting = FlagFilter(method="filter_lasting", label="whether it has not ended")

    def filter_lasting(self, rows: Any, name: str, value: bool) -> Any:
        lasting = Q(ended_at=None, until__gt=timezone.now())
        return rows.filter(lasting if value else ~lasting)
