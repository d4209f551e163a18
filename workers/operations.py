"""Carrying out operations that users asked for: one function per kind, each safe to repeat."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import msgspec
import structlog
from django.db import transaction

from controlplane.checkpoints.choices import CheckpointState
from controlplane.checkpoints.models import Checkpoint
from controlplane.errors import Conflict, ServiceError
from controlplane.events.choices import OPERATION_ENDED, OperationKind, OperationState
from controlplane.events.models import Operation
from controlplane.events.operations import operation_fail, operation_start, operation_succeed
from controlplane.incidents.actions import incident_order
from controlplane.incidents.balancing import rebalance_now
from controlplane.incidents.models import Incident
from controlplane.incidents.parking import queries_park, queries_unpark
from controlplane.incidents.selectors import proposals_overtaken
from controlplane.incidents.services import recover_now
from controlplane.lifecycle.nodes import node_activate, node_drain
from controlplane.lifecycle.racks import rack_activate, rack_drain
from controlplane.nodes.selectors import node_get
from controlplane.topologies.choices import TOPOLOGY_AT_REST, Desired, TopologyStatus
from controlplane.topologies.models import Topology
from domain.messages import Control
from host import environment
from workers.providers.base import ProviderError
from workers.providers.registry import provider_create
from workers.reconciliation import checkpoint_ask, incident_step, topology_reconcile
from workers.zookeeper import WorkerSession

log = structlog.get_logger(__name__)


def operation_run(coordination: WorkerSession, operation_id: str) -> None:
    """Carry out an operation unless it has ended. What the caller can put right ends it as failed;
    a ZooKeeper that is away leaves it open for the sweep."""
    operation = Operation.objects.filter(pk=operation_id).first()
    if operation is None or operation.state in OPERATION_ENDED:
        return
    action = _ACTIONS.get(OperationKind(operation.kind))
    if action is None:
        operation_fail(operation=operation, error=f"{operation.kind} is not available in this version")
        return
    try:
        action(coordination, operation)
    except (ServiceError, ProviderError) as error:
        log.warning("operation failed", operation=operation_id, kind=operation.kind, error=str(error))
        operation_fail(operation=operation, error=str(error))


def _reconcile(coordination: WorkerSession, operation: Operation) -> None:
    """Deploy and undeploy: ZooKeeper gets what the database says; the driver's report ends it."""
    generation = Topology.objects.filter(name=operation.target).values_list("generation", flat=True).first()
    topology_reconcile(coordination, operation.target)
    operation_start(operation=operation, result={"generation": generation})


def _checkpoint(coordination: WorkerSession, operation: Operation) -> None:
    topology = Topology.objects.filter(name=operation.target).first()
    if topology is None or (topology.desired == Desired.STOPPED and topology.status in TOPOLOGY_AT_REST):
        raise Conflict(f"topology {operation.target!r} was undeployed before it took the checkpoint")
    under_way = Checkpoint.objects.filter(topology=topology, state=CheckpointState.STARTED)
    if topology.status == TopologyStatus.PAUSED and not under_way.exists():
        raise Conflict(
            f"topology {topology.name!r} was paused before it took the checkpoint: resume it first"
        )
    if operation.state == OperationState.RUNNING and "request" in operation.result:
        checkpoint_ask(coordination, operation.target, again=operation.result["request"])
        return  # the driver's report ends it
    operation_start(operation=operation, result={"request": checkpoint_ask(coordination, operation.target)})


def _elsewhere(coordination: WorkerSession, operation: Operation) -> None:
    """Nothing: the launcher has a process do it (`workers/launcher/operation_processes.py`)."""


def _set_paused(coordination: WorkerSession, operation: Operation, *, paused: bool) -> None:
    def changed(control: Control) -> Control:
        return msgspec.structs.replace(control, paused=paused)

    coordination.control_change(operation.target, changed)
    operation_start(operation=operation)


def _recover(coordination: WorkerSession, operation: Operation) -> None:
    parameters = operation.parameters
    _by_incident(
        coordination,
        operation,
        recover_now,
        checkpoint=parameters.get("checkpoint"),
        deployed_at=parameters.get("deployed_at"),
    )


def _rebalance(coordination: WorkerSession, operation: Operation) -> None:
    _by_incident(coordination, operation, rebalance_now)


def _park(coordination: WorkerSession, operation: Operation) -> None:
    _by_incident(coordination, operation, queries_park, queries=operation.parameters.get("queries", ()))


def _unpark(coordination: WorkerSession, operation: Operation) -> None:
    _by_incident(coordination, operation, queries_unpark, queries=operation.parameters.get("queries", ()))


def _by_incident(
    coordination: WorkerSession, operation: Operation, order: Callable[..., Incident], **terms: Any
) -> None:
    """Carry out what an incident does. The order and the note that it was given are one transaction, so that
    a repeat goes on with the incident."""
    if "incident" in operation.result:  # an earlier attempt got as far as this
        number = int(operation.result["incident"])
    else:
        with transaction.atomic():
            number = order(
                topology=operation.target, actor=operation.requested_by, reason=operation.reason, **terms
            ).number
            operation_start(operation=operation, result={"incident": number})
    incident_step(coordination, number)
    operation_succeed(operation=operation, result={"incident": number})


def _drain(coordination: WorkerSession, operation: Operation) -> None:
    incident = node_drain(name=operation.target, actor=operation.requested_by, reason=operation.reason)
    operation_succeed(
        operation=operation, result={"incident": incident.number if incident is not None else None}
    )


def _activate(coordination: WorkerSession, operation: Operation) -> None:
    node_activate(name=operation.target, actor=operation.requested_by, reason=operation.reason)
    operation_succeed(operation=operation)


def _drain_rack(coordination: WorkerSession, operation: Operation) -> None:
    incident = rack_drain(rack=operation.target, actor=operation.requested_by, reason=operation.reason)
    operation_succeed(
        operation=operation, result={"incident": incident.number if incident is not None else None}
    )


def _activate_rack(coordination: WorkerSession, operation: Operation) -> None:
    rack_activate(rack=operation.target, actor=operation.requested_by, reason=operation.reason)
    operation_succeed(operation=operation)


def _fail(coordination: WorkerSession, operation: Operation) -> None:
    """Kill a node through its provider, as a real failure would: detection finds out by itself."""
    settings = environment.read()
    if not settings.fault_injection:
        operation_fail(
            operation=operation,
            error="fault injection is off here: set RESURGE_FAULT_INJECTION=1 where nodes may be killed",
        )
        return
    node = node_get(operation.target)
    killed = provider_create(settings).fail(node.name)
    operation_succeed(operation=operation, result={"killed": killed})


def _order(coordination: WorkerSession, operation: Operation) -> None:
    """What an operator asked of an incident; the order and the note that it was given are one transaction."""
    number = int(operation.target)
    if "ordered" not in operation.result:
        with transaction.atomic():
            incident_order(
                kind=OperationKind(operation.kind),
                number=number,
                actor=operation.requested_by,
                reason=operation.reason,
                proposals=operation.parameters.get("proposals", ()),
            )
            operation_start(operation=operation, result={"ordered": True})
    incident_step(coordination, number)
    overtaken = proposals_overtaken(number, operation.parameters.get("proposals", ()))
    if overtaken:
        raise Conflict(
            f"{', '.join(overtaken)} was confirmed, but the situation has changed: it is not carried out; "
            f"look at what incident {number} proposes now"
        )
    operation_succeed(operation=operation, result={"incident": number})


_ACTIONS: dict[OperationKind, Callable[[WorkerSession, Operation], None]] = {
    OperationKind.TOPOLOGY_DEPLOY: _reconcile,
    OperationKind.TOPOLOGY_UNDEPLOY: _reconcile,
    OperationKind.TOPOLOGY_CHECKPOINT: _checkpoint,
    OperationKind.TOPOLOGY_RECOVER: _recover,
    OperationKind.TOPOLOGY_REBALANCE: _rebalance,
    OperationKind.TOPOLOGY_RESTORE: _recover,
    OperationKind.TOPOLOGY_PARK: _park,
    OperationKind.TOPOLOGY_UNPARK: _unpark,
    OperationKind.TOPOLOGY_VERIFY: _elsewhere,
    OperationKind.TOPOLOGY_SAVEPOINT: _elsewhere,
    OperationKind.TOPOLOGY_PAUSE: partial(_set_paused, paused=True),
    OperationKind.TOPOLOGY_RESUME: partial(_set_paused, paused=False),
    OperationKind.NODE_DRAIN: _drain,
    OperationKind.NODE_ACTIVATE: _activate,
    OperationKind.NODE_FAIL: _fail,
    OperationKind.RACK_DRAIN: _drain_rack,
    OperationKind.RACK_ACTIVATE: _activate_rack,
    OperationKind.INCIDENT_APPROVE: _order,
    OperationKind.INCIDENT_PAUSE: _order,
    OperationKind.INCIDENT_RESUME: _order,
    OperationKind.INCIDENT_ABORT: _order,
    OperationKind.INCIDENT_REPLAN: _order,
    OperationKind.INCIDENT_ACCEPT: _order,
}
