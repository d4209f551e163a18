"""Asking for something to be done to a node; the recovery worker carries it out (write side)."""

from __future__ import annotations

from django.db import transaction

from controlplane.errors import Conflict
from controlplane.events.choices import Door, OperationKind
from controlplane.events.models import Operation
from controlplane.events.operations import operation_find, operation_request
from controlplane.nodes.choices import NODE_PRESENT, NodeState
from controlplane.nodes.selectors import node_get

_PERMITTED: dict[OperationKind, frozenset[str]] = {
    OperationKind.NODE_DRAIN: frozenset({NodeState.ALIVE, NodeState.SUSPECT}),
    OperationKind.NODE_ACTIVATE: frozenset({NodeState.DRAINING}),
    OperationKind.NODE_FAIL: frozenset({*NODE_PRESENT, NodeState.JOINING}),
}


@transaction.atomic
def node_action(
    *,
    kind: OperationKind,
    name: str,
    actor: str,
    reason: str,
    door: Door,
    idempotency_key: str = "",
) -> Operation:
    """Ask for a node to be drained, activated or (an experiment) failed. Raises `Missing` or `Conflict`."""
    earlier = operation_find(kind=kind, target=name, actor=actor, idempotency_key=idempotency_key)
    if earlier is not None:
        return earlier
    node = node_get(name)
    if node.state not in _PERMITTED[kind]:
        wanted = ", ".join(sorted(_PERMITTED[kind]))
        raise Conflict(f"node {name!r} is {node.state}; {kind.label.lower()} needs it to be {wanted}")
    operation, _ = operation_request(
        kind=kind,
        target=name,
        actor=actor,
        reason=reason,
        door=door,
        idempotency_key=idempotency_key,
        before={"state": node.state},
    )
    return operation
