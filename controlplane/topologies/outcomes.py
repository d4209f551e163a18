"""How the operations on a topology end: with what its driver reports."""

from __future__ import annotations

from controlplane.errors import Conflict
from controlplane.events.choices import OperationKind
from controlplane.events.operations import operation_fail, operation_succeed, operations_open
from controlplane.topologies.choices import Desired
from controlplane.topologies.models import Topology
from domain.messages import DriverState

_ENDED_BY: dict[OperationKind, frozenset[str]] = {
    OperationKind.TOPOLOGY_DEPLOY: frozenset({"running", "completed"}),
    OperationKind.TOPOLOGY_UNDEPLOY: frozenset({"stopped", "completed", "failed"}),
    OperationKind.TOPOLOGY_PAUSE: frozenset({"paused"}),
    OperationKind.TOPOLOGY_RESUME: frozenset({"running", "degraded", "replaying", "completed"}),
}
_OVERTAKEN_BY = frozenset({"stopped", "failed", "completed"})


def operations_end(topology: Topology, state: DriverState, error: str) -> None:
    """End the open operations that this state of the driver answers."""
    for kind, states in _ENDED_BY.items():
        if state not in states and state not in _OVERTAKEN_BY:
            continue
        # A driver says that it runs before its first epoch, in which an operator may fail.
        if kind == OperationKind.TOPOLOGY_DEPLOY and state == "running" and not topology.committed_epoch:
            continue
        for operation in operations_open(kind=kind, target=topology.name):
            if state in states:
                operation_succeed(operation=operation, result={"generation": topology.applied_generation})
            elif kind != OperationKind.TOPOLOGY_DEPLOY or state == "failed":
                operation_fail(operation=operation, error=error or f"the topology has {state}")
    if state == "completed" or (topology.desired == Desired.STOPPED and state in ("stopped", "failed")):
        _checkpoints_end(topology, state)
    # What fails in the first epoch would do so for ever: a query that names a column which is not there. The
    # driver goes on trying, since a full disk is mended without a new deployment.
    if state == "degraded" and error and not topology.committed_epoch:
        deployments_fail(topology, f"{error} (it is tried again every few seconds)")


def _checkpoints_end(topology: Topology, state: DriverState) -> None:
    """No driver answers those that are open. The last checkpoint of a whole input is what they asked for."""
    taken = state == "completed" and topology.checkpoint_epoch == topology.committed_epoch
    for operation in operations_open(kind=OperationKind.TOPOLOGY_CHECKPOINT, target=topology.name):
        if taken:
            operation_succeed(operation=operation, result={"checkpoint": topology.checkpoint_epoch})
        else:
            operation_fail(operation=operation, error=f"the topology has {state}")


def savepoints_await(topology: Topology) -> None:
    """Raise `Conflict` while a savepoint is being made, before checkpoints go: it is to be a copy of one of
    them, and would be one of the next deployment's."""
    for operation in operations_open(kind=OperationKind.TOPOLOGY_SAVEPOINT, target=topology.name):
        raise Conflict(
            f"savepoint {operation.parameters['savepoint']!r} of topology {topology.name!r} is being made "
            "from a checkpoint that would be deleted: wait for the outcome"
        )


def deployments_fail(topology: Topology, error: str) -> None:
    """End what was asked for and has not come about yet."""
    for operation in operations_open(kind=OperationKind.TOPOLOGY_DEPLOY, target=topology.name):
        operation_fail(operation=operation, error=error)
