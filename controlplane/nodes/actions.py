"""Asking for something to be done to a node or a rack; the recovery worker carries it out (write side)."""

from __future__ import annotations

from typing import Unpack

from controlplane.errors import Conflict
from controlplane.events.choices import OperationKind
from controlplane.events.models import Operation
from controlplane.events.operations import Asked, Permission, operation_request
from controlplane.events.services import writing
from controlplane.nodes.permitted import node_refusal, rack_refusal
from controlplane.nodes.selectors import node_get, rack_nodes


@writing
def node_action(
    *,
    kind: OperationKind,
    name: str,
    **asked: Unpack[Asked],
) -> Operation:
    """Ask for a node to be drained, activated or (an experiment) failed. Raises `Missing` or `Conflict`."""

    def permit() -> Permission:
        node = node_get(name)
        if refusal := node_refusal(kind, name=name, state=node.state):
            raise Conflict(refusal)
        return Permission(before={"state": node.state})

    return operation_request(
        kind=kind,
        target=name,
        permit=permit,
        **asked,
    )


@writing
def rack_action(
    *,
    kind: OperationKind,
    rack: str,
    **asked: Unpack[Asked],
) -> Operation:
    """Ask for all nodes of a rack to be drained or activated together. Raises `Missing` or `Conflict`."""

    def permit() -> Permission:
        states = {node.name: node.state for node in rack_nodes(rack)}
        if refusal := rack_refusal(kind, rack=rack, nodes=states):
            raise Conflict(refusal)
        return Permission(before={"nodes": states})

    return operation_request(kind=kind, target=rack, permit=permit, **asked)
