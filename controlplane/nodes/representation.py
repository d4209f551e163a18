"""How nodes look to clients, in the snapshot and in events."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from controlplane.events.representation import Change, change, rounded, shown
from controlplane.nodes.permitted import node_refusals

if TYPE_CHECKING:
    from controlplane.nodes.models import Node

NODE_FIELDS = (
    *("name", "address", "rack", "slots", "capacity", "standby", "state", "registered_at"),
    *("last_heartbeat", "cpu_percent", "predicted_percent", "throttled"),
    *("memory_bytes", "disk_free_bytes", "provider"),
)
"""What is shown of a node as it is stored: by the snapshot, by events and by REST."""

NODE_SAMPLE_FIELDS = ("at", "cpu_percent", "predicted_percent", "throttled")
"""What is shown of a node's CPU over some seconds, by REST."""

STANDING = ("state", "refusals")
"""What changes with a node's state."""


def node_change(node: Node, *, only: Iterable[str] | None = None) -> Change:
    return change(
        "node",
        node.name,
        shown(
            node,
            NODE_FIELDS,
            cpu_percent=rounded(node.cpu_percent, 1),
            predicted_percent=rounded(node.predicted_percent, 1),
            throttled=rounded(node.throttled),
            refusals=node_refusals(name=node.name, state=node.state),
        ),
        only,
    )
