"""Registrations, moments and driver messages for the tests of the workers."""

from __future__ import annotations

from datetime import datetime

from django.utils import timezone

from controlplane.incidents.models import RecoveryPlan
from domain.messages import NodeRegistration
from domain.recovery.events import CheckpointCompleted, DriverReported, Event


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


def newest() -> RecoveryPlan:
    return RecoveryPlan.objects.filter(topology__name="counts").order_by("-generation")[0]
