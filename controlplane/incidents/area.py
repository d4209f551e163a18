"""How available the queries were while an incident lasted, in one number."""

from __future__ import annotations

from collections.abc import Collection
from datetime import timedelta

from django.db.models import Sum

from controlplane.incidents.models import Incident
from controlplane.topologies.models import AvailabilitySample, Query
from domain.availability import Sample, area

BEFORE = timedelta(minutes=1)
"""The level at detection is that of the last sample before it."""


def availability_area(incident: Incident, topologies: Collection[str]) -> float | None:
    """Normalised area under the priority-weighted availability curve, 0 to 1, from detection until all
    queries are back, over all these topologies; None while some are not, or where nothing was sampled."""
    start, end = incident.detected_at, incident.all_queries_at
    if end is None or end <= start:
        return None
    total = weight = 0.0
    priorities = Query.objects.filter(topology__name__in=topologies).values_list("topology")
    for topology, priority in priorities.annotate(priority_sum=Sum("priority")).order_by():
        rows = AvailabilitySample.objects.filter(topology=topology, at__gte=start - BEFORE, at__lte=end)
        samples = [
            Sample(at=row.at.timestamp(), available=row.available, total=row.total, weighted=row.weighted)
            for row in rows.order_by("at")
        ]
        if samples:
            total += priority * area(samples, start.timestamp(), end.timestamp())
            weight += priority
    return total / weight if weight else None
