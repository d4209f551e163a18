"""Registrations, moments and driver messages for the tests of the workers."""

from __future__ import annotations

from datetime import datetime

from django.utils import timezone

from controlplane.incidents.models import RecoveryPlan
from controlplane.topologies.models import Topology
from controlplane.topologies.telemetry import topology_metrics_apply
from domain.availability import QueryHealth
from domain.messages import NodeRegistration
from domain.recovery.events import CheckpointCompleted, DriverReported, Event
from tests.unit.controlplane.specs import epoch_report


def now() -> datetime:
    return timezone.now()


def registration(name: str, session: str = "a1", pid: int = 10) -> NodeRegistration:
    return NodeRegistration(
        id=name,
        address="127.0.1.1",
        rack="rack-a",
        slots=2,
        capacity=100,
        pid=pid,
        session=session,
        registered_at=now().timestamp(),
    )


def driver(generation: int, state: str, checkpoint: int = 0) -> list[Event]:
    """What ZooKeeper would say of `counts`."""
    at = now().timestamp()
    return [
        CheckpointCompleted(at=at, topology="counts", checkpoint=checkpoint, generation=generation),
        DriverReported(
            at=at, topology="counts", generation=generation, state=state, head=50, committed=50, checkpoint=0
        ),
        CheckpointCompleted(at=at, topology="counts", checkpoint=checkpoint, generation=generation),
    ]


def queries_return(latency: float = 0.8, *, available: bool = True) -> None:
    """The driver of `counts` reports results, and detection finds every query (un)available."""
    topology = Topology.objects.get(name="counts")
    report = epoch_report(topology, epoch=60, latency=latency)
    verdict = QueryHealth(latency=latency, baseline=0.8, relative=latency / 0.8, available=available)
    topology_metrics_apply(report=report, health=dict.fromkeys(report.queries, verdict))


def newest() -> RecoveryPlan:
    return RecoveryPlan.objects.filter(topology__name="counts").order_by("-generation")[0]
