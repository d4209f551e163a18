"""What tests of the session of a worker, of reconciliation and of operations do."""

from __future__ import annotations

import time
from typing import Any

from django.db import transaction

from controlplane.events.choices import Channel, OperationKind
from controlplane.events.models import Operation
from controlplane.events.operations import operation_request
from controlplane.incidents.models import RecoveryPlan
from coordination.paths import Paths
from domain.messages import (
    Control,
    DriverStatus,
    LatestCheckpoint,
    Plan,
)
from workers import operations
from workers.zookeeper import WorkerSession


def plan(generation: int, **more: Any) -> Plan:
    return Plan(generation=generation, kind="deploy", assignment={"O0[0]": "node-1"}, **more)


def publish(coordination: WorkerSession, topology: str, one: Plan) -> Plan:
    return coordination.plan_publish(topology, one, own=lambda other: True)


def newest() -> RecoveryPlan:
    """The plan of the highest generation, whatever became of it."""
    return RecoveryPlan.objects.order_by("-generation")[0]


def status(generation: int, state: Any = "running", checkpoint: int = 0) -> DriverStatus:
    return DriverStatus(
        topology="counts", pid=1, session="d", generation=generation, state=state, head=40, committed=40,
        checkpoint=checkpoint, at=time.time(),
    )  # fmt: skip


def control(coordination: WorkerSession) -> Control:
    found = coordination.get(Paths.control("counts"), Control)
    assert found is not None
    return found.value


def complete(coordination: WorkerSession, checkpoint: int, generation: int, at: float = 1.0) -> None:
    latest = LatestCheckpoint(checkpoint=checkpoint, generation=generation, completed_at=at, size_bytes=1)
    coordination.put(Paths.latest_checkpoint("counts"), latest)


def ask(kind: OperationKind, target: str) -> Operation:
    with transaction.atomic():
        return operation_request(kind=kind, target=target, actor="kim", reason="a test", channel=Channel.CLI)


def run(coordination: WorkerSession, operation: Operation) -> Operation:
    operations.operation_run(coordination, str(operation.pk))
    operation.refresh_from_db()
    return operation
