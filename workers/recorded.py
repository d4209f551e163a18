"""What the node watch decided and the database does not know any more, as after a failover to a standby that
had not got the last transactions, or with a backup that is put back.

The watch decides only when something changes, so a loss that is not recorded would stay unknown for good.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

from controlplane.nodes.choices import NODE_PRESENT, NodeState
from controlplane.nodes.models import Node
from domain.recovery.events import NodesLost
from domain.recovery.liveness import Instruction, NodeAlive, WatchedNode

FORGOTTEN = "The database has lost what was recorded"


def decisions_forgotten(
    nodes: Mapping[str, WatchedNode], *, at: float, unrecorded: Collection[str] = ()
) -> list[Instruction]:
    """What must be recorded again of these nodes. unrecorded: those that the database refused."""
    rows = {row.name: row for row in Node.objects.filter(name__in=nodes)}
    lost: dict[str, str] = {}
    alive: list[Instruction] = []
    for name, node in nodes.items():
        row, registration = rows.get(name), node.registration
        present = row is not None and row.state in NODE_PRESENT
        if node.state == "lost":
            if present:
                lost[name] = f"{FORGOTTEN}: {node.story[-1][2]}" if node.story else FORGOTTEN
        elif registration is not None and registration.session == node.session and name not in unrecorded:
            if row is not None and row.session == node.session and row.state != NodeState.LOST:
                continue
            same_process = row is not None and row.pid == node.pid
            if present and not same_process:
                lost[name] = f"{FORGOTTEN}: another process registered under its name"
            alive.append(NodeAlive(registration, same_process, FORGOTTEN))
    return [*([NodesLost(at=at, nodes=lost)] if lost else ()), *alive]
