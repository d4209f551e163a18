"""What the workers do every few seconds, on PostgreSQL: rules of alerts are judged, and figures are kept."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from datetime import datetime, timedelta
from functools import partial
from typing import Any

import pytest
from django.db import connections
from django.utils import timezone

from controlplane.alerts.evaluation import alerts_evaluate
from controlplane.alerts.models import Alert, AlertRule
from controlplane.alerts.services import rule_create
from controlplane.events import tasks
from controlplane.events.models import Event
from controlplane.measurements.buckets import FINEST, LEVELS
from controlplane.measurements.measuring import measurements_take
from controlplane.measurements.models import Measurement
from controlplane.nodes.models import Node, NodeSample
from controlplane.replication.figures import fidelities_note
from controlplane.replication.models import FidelityFigure
from controlplane.topologies.models import Query, Topology
from domain.alerting import METRICS
from host.environment import database_parse
from tests.integration.control_plane import interleaving
from tests.integration.control_plane.postgresql import Filled, database, programs
from tests.unit.controlplane.specs import BY

pytestmark = [
    pytest.mark.integration,
    pytest.mark.skipif(programs() is None, reason="PostgreSQL is not installed on this machine"),
]

HELD = 10.0


@pytest.fixture(scope="module")
def filled(django_db_blocker: Any) -> Iterator[Filled]:
    with (
        interleaving.postgresql() as server,
        django_db_blocker.unblock(),
        interleaving.filled(server) as one,
    ):
        yield one


@pytest.fixture
def running(filled: Filled, monkeypatch: pytest.MonkeyPatch) -> Iterator[Topology]:
    monkeypatch.setattr(tasks, "task_send", lambda *_: None)
    filled.put_back()
    with database(database_parse(filled.url)):
        yield Topology.objects.get(name="counts")


def at_once(*calls: Callable[[], object]) -> None:
    """All at the same moment, each with a connection of its own; what one raises is raised here."""
    gate, raised = threading.Barrier(len(calls)), []

    def call(one: Callable[[], object]) -> None:
        try:
            gate.wait(10)
            one()
        except Exception as error:
            raised.append(error)
        finally:
            connections.close_all()

    threads = [threading.Thread(target=call, args=(one,)) for one in calls]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    if raised:
        raise raised[0]


def fired() -> list[str]:
    events = Event.objects.filter(kind="alert.firing").order_by("sequence")
    return sorted(event.reason.partition(",")[0] for event in events)


def test_rules_on_every_metric_fire_once_and_end(running: Topology) -> None:
    AlertRule.objects.all().delete()
    for metric in METRICS:
        below = METRICS[metric].most is not None
        rule_create(
            name=metric.replace("_", "-"), metric=metric, comparison="below" if below else "above",
            threshold=1.0 if below else 0.001, held=HELD, calm=HELD, topology="counts", **BY,
        )  # fmt: skip
    fidelities_note()
    FidelityFigure.objects.update(now=0.5, worst_rack=0.5)
    Query.objects.update(status="available", available=True, latency=0.5, relative_latency=1.0)
    Query.objects.filter(pk=Query.objects.earliest("pk").pk).update(
        status="failed", available=False, latency=None
    )
    now = timezone.now() + timedelta(minutes=1)
    for _ in range(4):
        now += timedelta(seconds=5)
        Topology.objects.filter(name="counts").update(lag=4.0, metrics_at=now)
        at_once(partial(alerts_evaluate, now), partial(alerts_evaluate, now))
    firing = Alert.objects.filter(state="firing")
    assert set(firing.values_list("metric", flat=True)) == set(METRICS)
    assert fired() == sorted(metric.replace("_", "-") for metric in METRICS)
    AlertRule.objects.update(enabled=False)
    alerts_evaluate(now + timedelta(seconds=5))
    assert not firing.exists()
    assert Event.objects.filter(kind="alert.resolved").count() == len(METRICS)


def test_figures_are_kept_once_and_thinned(running: Topology) -> None:
    hour = LEVELS[-1].seconds
    begin = datetime.fromtimestamp(timezone.now().timestamp() // hour * hour + hour, tz=timezone.now().tzinfo)
    numbers = iter(range(1_000_000, 2_000_000))
    node = Node.objects.get(name="node-1")
    for second in range(0, hour + 120, FINEST):
        at = begin + timedelta(seconds=second)
        changes = [
            {"entity": "topology", "key": "counts", "fields": {"input_rate": float(second), "lag": None}},
            {"entity": "query", "key": "counts/Out[0]", "fields": {"latency": 1.5}},
        ]
        Event.objects.create(
            sequence=next(numbers), at=at, kind="topology.metrics", topology="counts", changes=changes
        )
        NodeSample.objects.create(node=node, at=at, cpu_percent=40.0, throttled=0.1)
        if second % 60 == 0:
            take = partial(measurements_take, now=at + timedelta(seconds=FINEST + 1))
            at_once(take, take)
    rows = Measurement.objects.filter(kind="topology", seconds=FINEST).order_by("at")
    assert [row.figures["input_rate"][1] for row in rows][:3] == [0.0, 10.0, 20.0]
    coarsest = Measurement.objects.filter(seconds=hour, at=begin)
    assert {row.kind for row in coarsest} >= {"topology", "query", "node", "operator"}
    (whole,) = coarsest.filter(kind="topology")
    assert whole.figures["input_rate"] == [hour // FINEST, (hour - FINEST) / 2, 0.0, float(hour - FINEST)]
