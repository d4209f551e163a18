"""What lists of webhooks and deliveries can be filtered by."""

from __future__ import annotations

from django_filters import CharFilter
from django_filters.rest_framework import FilterSet

from controlplane.api.filtering import FlagFilter, WholeFilter, one_of, since, until
from controlplane.webhooks.choices import KIND_CHOICES, TEST_KIND, DeliveryState


class WebhookFilters(FilterSet):
    name = CharFilter()
    enabled = FlagFilter()


class DeliveryFilters(FilterSet):
    state = one_of(DeliveryState.choices)
    kind = one_of([*KIND_CHOICES, (TEST_KIND, "Test")])
    topology = CharFilter()
    sequence = WholeFilter(high=2**63 - 1, label="of the event")
    since = since("created_at")
    until = until("created_at")
