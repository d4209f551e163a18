"""Starting the first nodes of an installation and the replacements that recovery asked for."""

from __future__ import annotations

from pathlib import Path

import msgspec
import structlog
from django.db import transaction
from django.utils import timezone

from controlplane.events.choices import EventKind
from controlplane.events.services import event_publish
from controlplane.nodes.choices import NODE_PRESENT, NODE_REQUEST_OPEN, NodeRequestState, NodeState
from controlplane.nodes.models import Node, NodeRequest
from controlplane.nodes.representation import node_change
from controlplane.nodes.selectors import node_name_next
from workers.providers.base import NodeDescription, NodeProvider, ProviderError

log = structlog.get_logger()


class FirstNodes(msgspec.Struct, frozen=True, kw_only=True):
    """`run/first-nodes.json`, written by `make up`: how many nodes a starting installation has."""

    nodes: int
    slots: int = 2
    capacity: int = 100
    racks: tuple[str, ...] = ("rack-a", "rack-b")


_first_nodes = msgspec.json.Decoder(FirstNodes)


def first_nodes_launch(*, provider: NodeProvider, order: Path) -> None:
    """Start the nodes of the last run again (same names, same disks) and new ones up to the number
    ordered. The order is removed when it is carried out, so that a restarted launcher, which finds dead
    nodes, does not mistake them for ones to be started."""
    try:
        wanted = _first_nodes.decode(order.read_bytes())
    except FileNotFoundError:
        return
    known = provider.nodes()
    for node in known:
        _launch(provider, node.description)
    names = {node.description.name for node in known}
    missing = wanted.nodes - len(names) - NodeRequest.objects.filter(state__in=NODE_REQUEST_OPEN).count()
    for _ in range(missing):
        name = node_name_next(names)
        names.add(name)
        rack = wanted.racks[(int(name.rpartition("-")[2]) - 1) % len(wanted.racks)]
        _launch(provider, NodeDescription(name=name, rack=rack, slots=wanted.slots, capacity=wanted.capacity))
    order.unlink(missing_ok=True)


def due_nodes_launch(*, provider: NodeProvider, default: FirstNodes) -> None:
    """Start every requested node whose time has come."""
    due = NodeRequest.objects.filter(state=NodeRequestState.PENDING, due_at__lte=timezone.now())
    for request in due.order_by("due_at", "id"):
        description = NodeDescription(
            name=request.node_name,
            rack=request.rack or default.racks[0],
            slots=request.slots or default.slots,
            capacity=round(request.capacity or default.capacity),
            standby=request.standby,
        )
        error = _launch(provider, description)
        request.state = NodeRequestState.FAILED if error else NodeRequestState.STARTED
        request.error = error
        request.started_at = timezone.now()
        request.save(update_fields=["state", "error", "started_at"])


def dead_nodes_forget(*, provider: NodeProvider) -> None:
    """Clear away what is left of nodes that died: every process of theirs, and their disk. A node never
    comes back under its name, so nothing may go on working in it."""
    for node in provider.nodes():
        if not node.alive:
            log.warning("node is dead", node=node.description.name, pid=node.pid)
            provider.forget(node.description.name)


@transaction.atomic
def nodes_leave(*, reason: str) -> None:
    """Record that every present node leaves in good order, so that its absence is no failure."""
    for node in Node.objects.select_for_update().filter(state__in=NODE_PRESENT):
        node.state = NodeState.LEFT
        node.save(update_fields=["state"])
        event_publish(
            kind=EventKind.NODE_LEFT,
            node=node.name,
            changes=[node_change(node, only=("state",))],
            reason=reason,
        )


def _launch(provider: NodeProvider, description: NodeDescription) -> str:
    """Start one node; the error text when that is impossible."""
    try:
        provider.launch(description)
    except ProviderError as error:
        log.error("node not started", node=description.name, error=str(error))
        return str(error)
    return ""
