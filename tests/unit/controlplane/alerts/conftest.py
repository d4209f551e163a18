"""A topology that runs and is well, and looks at it at times of the test's choice."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta

import pytest
from django.utils import timezone

from controlplane.alerts.evaluation import alerts_evaluate
from controlplane.alerts.models import AlertRule
from controlplane.checkpoints.models import Checkpoint
from controlplane.lifecycle.topologies import topology_deploy
from controlplane.topologies.models import Query, Topology
from tests.unit.controlplane.specs import BY

EVERY = 5


class Clock:
    """Looks every five seconds; `figures` is called before each, to keep what is measured fresh."""

    def __init__(self, figures: Callable[[datetime], object]) -> None:
        self.now = timezone.now()
        self._figures = figures

    def run(self, seconds: int) -> None:
        for _ in range(seconds // EVERY):
            self.pass_by(EVERY)

    def pass_by(self, seconds: int, *, fresh: bool = True) -> None:
        """One look after so many seconds."""
        self.now += timedelta(seconds=seconds)
        if fresh:
            self._figures(self.now)
        alerts_evaluate(self.now)


@pytest.fixture
def healthy(topology: Topology) -> Topology:
    topology_deploy(name="counts", **BY)
    Query.objects.update(status="available", available=True, latency=0.5, relative_latency=1.0)
    Topology.objects.update(status="running", checkpoint_epoch=10, lag=0.4, metrics_at=timezone.now())
    Checkpoint.objects.create(
        topology=topology, epoch=10, state="completed", started_at=timezone.now(), ended_at=timezone.now()
    )
    topology.refresh_from_db()
    return topology


@pytest.fixture
def clock(healthy: Topology) -> Clock:
    def reported(now: datetime) -> None:
        Topology.objects.update(metrics_at=now)
        Checkpoint.objects.update(ended_at=now)

    return Clock(reported)


@pytest.fixture
def only_lag(db: None) -> AlertRule:
    """One rule: a lag of more than 30 s for a minute; an alert ends after 30 s."""
    AlertRule.objects.exclude(name="lag-high").delete()
    return AlertRule.objects.get(name="lag-high")
