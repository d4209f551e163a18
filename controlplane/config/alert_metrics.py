"""Series of what alert rules judge, and of alerts themselves, for `/metrics`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from prometheus_client.core import GaugeMetricFamily

if TYPE_CHECKING:
    from controlplane.health.reading import Reading


def alert_families(reading: Reading) -> list[GaugeMetricFamily]:
    """A constant number of queries. A value that is not known now has no series: it is never a zero."""
    # Models exist only once Django is set up.
    from django.db.models import Count
    from django.utils import timezone

    from controlplane.alerts.measuring import Measured
    from controlplane.alerts.selectors import alerts_going_on, evaluated_at
    from domain.alerting import METRICS

    families = {
        metric.name: GaugeMetricFamily(
            metric.series,
            f"{metric.about[0].upper()}{metric.about[1:]}; absent where it is not known now",
            labels=["topology", "query", "priority"] if metric.subject == "query" else ["topology"],
        )
        for metric in METRICS.values()
    }
    of_query = ["topology", "query", "priority"]
    available = GaugeMetricFamily(
        "resurge_query_available", "1 for a query that is available; parked ones are absent", labels=of_query
    )
    priority = GaugeMetricFamily("resurge_query_priority", "Priority of these queries", labels=of_query)
    for topology, figures in Measured(timezone.now(), reading).figures.items():
        for name, family in families.items():
            for query, value in figures.of(name, 1):
                labels = [topology, query, str(figures.queries[query].priority)] if query else [topology]
                if value is not None:
                    family.add_metric(labels, value)
        for query, one in figures.queries.items():
            if one.state != "parked":
                labels = [topology, query, str(one.priority)]
                available.add_metric(labels, one.state == "available")
                priority.add_metric(labels, one.priority)
    alerts = GaugeMetricFamily(
        "resurge_alerts",
        "Alerts that go on; one that fires under a silence is `silenced`",
        labels=["rule", "severity", "state"],
    )
    groups = alerts_going_on().order_by("rule", "severity", "state").values_list("rule", "severity", "state")
    for rule, severity, state, every, covered in groups.annotate(every=Count("pk"), covered=Count("silence")):
        silenced = covered if state == "firing" else 0
        for word, count in ((state, every - silenced), ("silenced", silenced)):
            if count:
                alerts.add_metric([rule, severity, word], count)
    evaluated = GaugeMetricFamily(
        "resurge_alerts_evaluated_timestamp_seconds", "When rules were looked at last, in Unix time"
    )
    at = evaluated_at()
    if at is not None:
        evaluated.add_metric([], at.timestamp())
    return [*families.values(), available, priority, alerts, evaluated]
