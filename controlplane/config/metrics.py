"""Prometheus figures of the system itself, read from the database when they are scraped."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from prometheus_client.core import REGISTRY, GaugeMetricFamily
from prometheus_client.registry import Collector

from controlplane.config.alert_metrics import alert_families


class ControlPlaneCollector(Collector):
    """A constant number of queries a scrape. Health comes from where pages have it."""

    def describe(self) -> Iterable[GaugeMetricFamily]:
        return []  # nothing is read before the first scrape

    def collect(self) -> Iterable[GaugeMetricFamily]:
        # Models exist only once Django is set up, and this module is imported before.
        from controlplane.health.reading import Reading
        from controlplane.topologies.choices import Guarantee
        from controlplane.topologies.models import Topology
        from controlplane.webhooks.choices import DeliveryState
        from controlplane.webhooks.models import Delivery, Webhook

        available = GaugeMetricFamily(
            "resurge_queries_available",
            "Queries that are available, of topologies whose queries are to give results",
            labels=["topology"],
        )
        total = GaugeMetricFamily("resurge_queries", "Queries of these topologies", labels=["topology"])
        parked = GaugeMetricFamily("resurge_queries_parked", "Those that are parked", labels=["topology"])
        health = GaugeMetricFamily(
            "resurge_topology_health", "1 for the state that pages show", labels=["topology", "state"]
        )
        catch_up = GaugeMetricFamily(
            "resurge_catch_up_seconds",
            "Seconds until what is behind has caught up, as estimated; absent if nothing is behind",
            labels=["topology"],
        )
        rate = GaugeMetricFamily(
            "resurge_input_tuples_per_second", "Tuples read per second", labels=["topology"]
        )
        load = GaugeMetricFamily(
            "resurge_load", "Seconds of work for each second of input", labels=["topology"]
        )
        lag = GaugeMetricFamily(
            "resurge_lag_seconds", "Seconds of input that wait to be processed", labels=["topology"]
        )
        epoch = GaugeMetricFamily("resurge_committed_epoch", "Newest committed epoch", labels=["topology"])
        checkpoint = GaugeMetricFamily(
            "resurge_checkpoint_epoch",
            "Newest complete global checkpoint; absent where the guarantee is bounded",
            labels=["topology"],
        )
        reading = Reading()
        for topology in Topology.objects.defer("spec"):
            labels = [topology.name]
            shown = reading.topologies.get(topology.name)
            if shown is None:  # deleted since it was read
                continue
            health.add_metric([topology.name, shown.state], 1)
            if shown.value is not None and shown.limit is not None:
                available.add_metric(labels, shown.value)
                total.add_metric(labels, shown.limit)
                parked.add_metric(labels, reading.counts(topology.name).parked)
            if topology.catch_up is not None:
                catch_up.add_metric(labels, topology.catch_up)
            rate.add_metric(labels, topology.input_rate)
            lag.add_metric(labels, topology.lag)
            if topology.load is not None:
                load.add_metric(labels, topology.load)
            epoch.add_metric(labels, topology.committed_epoch)
            if topology.guarantee != Guarantee.BOUNDED:
                checkpoint.add_metric(labels, topology.checkpoint_epoch)
        nodes = GaugeMetricFamily("resurge_nodes", "Nodes by the state that pages show", labels=["state"])
        states = Counter(node.state for node in reading.nodes().values())
        for state, count in sorted(states.items()):
            nodes.add_metric([state], count)
        open_now = reading.incidents()
        incidents = GaugeMetricFamily("resurge_incidents_open", "Incidents that have not ended")
        incidents.add_metric([], len(open_now))
        standing = GaugeMetricFamily(
            "resurge_incidents", "Open incidents by the state that pages show", labels=["state"]
        )
        for state, count in sorted(Counter(one.state for one in open_now.values()).items()):
            standing.add_metric([state], count)
        waiting = GaugeMetricFamily("resurge_webhook_deliveries_pending", "Deliveries not sent yet")
        waiting.add_metric([], Delivery.objects.filter(state=DeliveryState.PENDING).count())
        failing = GaugeMetricFamily("resurge_webhooks_failing", "Webhooks that have failed since they worked")
        failing.add_metric([], Webhook.objects.exclude(failing_since=None).count())
        of_topologies = [available, total, parked, health, catch_up, rate, load, lag, epoch, checkpoint]
        return [*of_topologies, nodes, incidents, standing, waiting, failing, *alert_families(reading)]


def metrics_register() -> None:
    """Add our figures to the process's registry, once."""
    global _registered
    if not _registered:
        REGISTRY.register(ControlPlaneCollector())
        _registered = True


_registered = False
