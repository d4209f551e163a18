"""How nodes look to clients, in the snapshot and in events."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from controlplane.events.representation import Change, change, iso, rounded
from controlplane.nodes.permitted import node_refusals

if TYPE_CHECKING:
    from controlplane.nodes.models import Node

STANDING = ("state", "refusals")
"""What changes with a node's state."""


def node_change(node: Node, *, only: Iterable[str] | None = None) -> Change:
    return change(
        "node",
        node.name,
        {
            "name": node.name,
            "address": node.address,
            "rack": node.rack,
            "slots": node.slots,
            "capacity": node.capacity,
            "standby": node.standby,
            "state": node.state,
            "registered_at": iso(node.registered_at),
            "last_heartbeat": iso(node.last_heartbeat),
            "cpu_percent": rounded(node.cpu_percent, 1),
            "memory_bytes": node.memory_bytes,
            "disk_free_bytes": node.disk_free_bytes,
            "provider": node.provider,
            "refusals": node_refusals(name=node.name, state=node.state),
        },
        only,
    )
