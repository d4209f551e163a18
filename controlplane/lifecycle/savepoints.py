"""Savepoints: asking for one, and deleting one (write side). `saving.py` makes them."""

from __future__ import annotations

import re
from typing import Any, Unpack

from django.utils import timezone

from controlplane.checkpoints.choices import SavepointState
from controlplane.checkpoints.models import SAVEPOINT_NAME, Checkpoint, Savepoint
from controlplane.checkpoints.selectors import savepoint_get
from controlplane.errors import Conflict, Invalid
from controlplane.events.audit import By, audit_record
from controlplane.events.choices import OperationKind
from controlplane.events.models import Operation
from controlplane.events.operations import (
    Asked,
    Permission,
    operation_fail,
    operation_request,
    reason_require,
)
from controlplane.events.services import writing
from controlplane.topologies.choices import Desired
from controlplane.topologies.models import Topology
from controlplane.topologies.permitted import permit
from controlplane.topologies.selectors import topology_get


@writing
def savepoint_request(
    *,
    topology: str,
    name: str,
    checkpoint: int | None = None,
    **asked: Unpack[Asked],
) -> Operation:
    """Ask for a copy of a checkpoint of a topology, its newest one if none is named, that stays until it is
    deleted. Raises `Missing`, `Invalid` (the name) or `Conflict`."""
    row = topology_get(topology, lock=True)

    def ask() -> Permission:
        permit(row, "savepoint")
        stored = list(Checkpoint.objects.filter(topology=row, stored=True).values_list("epoch", flat=True))
        if not stored:
            raise Conflict(f"no checkpoint of topology {topology!r} is in storage: there is nothing to copy")
        if checkpoint is not None and checkpoint not in stored:
            choice = ", ".join(map(str, sorted(stored)))
            raise Conflict(f"checkpoint {checkpoint} is not in storage; those that are: {choice}")
        savepoint_name_require(name)
        Savepoint.objects.create(
            name=name, topology=topology, requested_by=asked["actor"], reason=asked["reason"]
        )
        wanted = {"savepoint": name, "checkpoint": checkpoint}
        return Permission(after=wanted, parameters=wanted)

    return operation_request(
        kind=OperationKind.TOPOLOGY_SAVEPOINT,
        target=topology,
        permit=ask,
        **asked,
    )


@writing
def savepoint_failed(*, operation: Operation, error: str) -> None:
    """Note that the savepoint of an operation was not made, and why."""
    operation_fail(operation=operation, error=error)
    making = Savepoint.objects.filter(name=operation.parameters["savepoint"], state=SavepointState.MAKING)
    making.update(state=SavepointState.FAILED, cause=error, ended_at=timezone.now())


@writing
def savepoint_delete(*, name: str, **by: Unpack[By]) -> None:
    """Give a savepoint up; a worker deletes its archive. Raises `Missing` or `Conflict`."""
    reason_require(by["reason"])
    savepoint = savepoint_get(name, lock=True)
    if savepoint.state == SavepointState.MAKING:
        raise Conflict(f"savepoint {name!r} is being made: wait for the outcome")
    # Until an epoch after it is committed, a driver may still have to read it.
    user = Topology.objects.filter(
        desired=Desired.RUNNING, continues__savepoint=savepoint.key, committed_epoch__lte=savepoint.epoch
    ).first()
    if user is not None:
        raise Conflict(
            f"topology {user.name!r} is beginning with savepoint {name!r}: wait until it runs, or undeploy it"
        )
    before = savepoint_shown(savepoint)
    # The name is free at once; no other has a capital letter.
    savepoint.name, savepoint.state = f"DELETED-{savepoint.pk}", SavepointState.DELETED
    savepoint.save(update_fields=["name", "state"])
    audit_record(action="savepoint.delete", target=name, before=before, **by)


def savepoint_name_require(name: str) -> None:
    """Raises `Invalid` or `Conflict`. A failed one of that name makes room."""
    if not re.fullmatch(SAVEPOINT_NAME, name):
        raise Invalid(
            "savepoint",
            "begins with a small letter or a digit, then also dots, - or _; 63 characters at most",
        )
    earlier = Savepoint.objects.filter(name=name).first()
    if earlier is None:
        return
    if earlier.state != SavepointState.FAILED:
        raise Conflict(f"there is a savepoint {name!r} already; delete it, or choose another name")
    earlier.name, earlier.state = f"DELETED-{earlier.pk}", SavepointState.DELETED
    earlier.save(update_fields=["name", "state"])


def savepoint_shown(savepoint: Savepoint) -> dict[str, Any]:
    """What the audit trail keeps of one."""
    return {
        "topology": savepoint.topology,
        "version": savepoint.version,
        "checkpoint": savepoint.epoch,
        "size_bytes": savepoint.size_bytes,
        "imported": savepoint.imported,
    }
