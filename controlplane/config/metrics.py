"""Prometheus figures of the system itself, read from the database when they are scraped."""

from __future__ import annotations

from collections.abc import Iterable

from django.db.models import Count, Q
from prometheus_client.core import REGISTRY, GaugeMetricFamily
from prometheus_client.registry import Collector


class ControlPlaneCollector(Collector):
    """Five queries a scrape: topologies with their queries, nodes by state, open incidents, webhooks."""

    def describe(self) -> Iterable[GaugeMetricFamily]:
        return []  # nothing is read before the first scrape

    def collect(self) -> Iterable[GaugeMetricFamily]:
        # Models exist only once Django is set up, and this module is imported before.
        from controlplane.incidents.choices import INCIDENT_ACTIVE
        from controlplane.incidents.models import Incident
        from controlplane.nodes.selectors import nodes_known
        from controlplane.topologies.models import Topology
        from controlplane.webhooks.choices import DeliveryState
        from controlplane.webhooks.models import Delivery, Webhook

        available = GaugeMetricFamily(
            "resurge_queries_available", "Queries that are available", labels=["topology"]
        )
        total = GaugeMetricFamily("resurge_queries", "Queries defined", labels=["topology"])
        rate = GaugeMetricFamily(
            "resurge_input_tuples_per_second", "Tuples read per second", labels=["topology"]
        )
        load = GaugeMetricFamily(
            "resurge_load", "Seconds of work for each second of input", labels=["topology"]
        )
        lag = GaugeMetricFamily(
            "resurge_lag_seconds", "Seconds of input that wait to be worked off", labels=["topology"]
        )
        epoch = GaugeMetricFamily("resurge_committed_epoch", "Newest committed epoch", labels=["topology"])
        checkpoint = GaugeMetricFamily(
            "resurge_checkpoint_epoch", "Newest complete global checkpoint", labels=["topology"]
        )
        rows = Topology.objects.annotate(
            total=Count("queries"), up=Count("queries", filter=Q(queries__available=True))
        )
        for topology in rows:
            labels = [topology.name]
            available.add_metric(labels, topology.up)
            total.add_metric(labels, topology.total)
            rate.add_metric(labels, topology.input_rate)
            lag.add_metric(labels, topology.lag)
            if topology.load is not None:
                load.add_metric(labels, topology.load)
            epoch.add_metric(labels, topology.committed_epoch)
            checkpoint.add_metric(labels, topology.checkpoint_epoch)
        nodes = GaugeMetricFamily("resurge_nodes", "Nodes by state", labels=["state"])
        for state, count in nodes_known().values_list("state").annotate(Count("pk")).order_by("state"):
            nodes.add_metric([state], count)
        incidents = GaugeMetricFamily("resurge_incidents_open", "Incidents that have not ended")
        incidents.add_metric([], Incident.objects.filter(state__in=INCIDENT_ACTIVE).count())
        waiting = GaugeMetricFamily("resurge_webhook_deliveries_pending", "Deliveries not sent yet")
        waiting.add_metric([], Delivery.objects.filter(state=DeliveryState.PENDING).count())
        failing = GaugeMetricFamily("resurge_webhooks_failing", "Webhooks that have failed since they worked")
        failing.add_metric([], Webhook.objects.exclude(failing_since=None).count())
        return [available, total, rate, load, lag, epoch, checkpoint, nodes, incidents, waiting, failing]


def metrics_register() -> None:
    """Add our figures to the process's registry, once."""
    global _registered
    if not _registered:
        REGISTRY.register(ControlPlaneCollector())
        _registered = True


_registered = False
