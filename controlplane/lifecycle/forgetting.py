"""Forgetting nodes that are gone for good (write side).

The row stays, so that no later node inherits its name and incidents keep what they lost. It is in no list any
more, and comes back if the node registers again.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Unpack

from django.conf import settings
from django.db.models.functions import Coalesce
from django.utils import timezone

from controlplane.errors import Conflict
from controlplane.events.audit import audit_record
from controlplane.events.choices import Channel, EventKind, OperationKind
from controlplane.events.models import Operation
from controlplane.events.operations import Asked, Permission, operation_request
from controlplane.events.representation import removal
from controlplane.events.services import event_publish, writing
from controlplane.incidents.selectors import incidents_open
from controlplane.nodes.choices import NODE_GONE
from controlplane.nodes.models import Node
from controlplane.nodes.permitted import node_refusal
from controlplane.nodes.selectors import node_get, nodes_known
from controlplane.topologies.models import Partition

BY_ITSELF = "resurge"
"""The actor of what is forgotten after RESURGE_FORGET_NODES_AFTER."""


@writing
def node_forget(*, name: str, **asked: Unpack[Asked]) -> Operation:
    """Take a node that is gone off every list. Raises `Missing` or `Conflict`."""

    def permit() -> Permission:
        node = node_get(name, lock=True)
        refusal = node_refusal(OperationKind.NODE_FORGET, name=name, state=node.state) or _needed(node)
        if refusal:
            raise Conflict(refusal)
        _forget(node, timezone.now())
        return Permission(
            before={"state": node.state},
            done=True,
            announce=lambda: _announce(name, asked["actor"], asked["reason"]),
        )

    return operation_request(
        kind=OperationKind.NODE_FORGET,
        target=name,
        permit=permit,
        **asked,
    )


def nodes_forget_old() -> int:
    """Forget nodes that have been gone for RESURGE_FORGET_NODES_AFTER seconds; returns how many."""
    after = settings.RESURGE.forget_nodes_after
    if not after:
        return 0
    gone = nodes_known().filter(state__in=NODE_GONE)
    silent_since = Coalesce("last_heartbeat", "registered_at", "created_at")
    long_gone = gone.annotate(since=silent_since).filter(since__lt=timezone.now() - timedelta(seconds=after))
    return sum(_forget_old(name, after) for name in long_gone.values_list("name", flat=True))


@writing
def _forget_old(name: str, after: float) -> bool:
    node = nodes_known().select_for_update().filter(name=name, state__in=NODE_GONE).first()
    if node is None or _needed(node):
        return False
    reason = f"{node.state} for more than {after:g} s"
    audit_record(
        actor=BY_ITSELF, channel=Channel.SYSTEM, action=OperationKind.NODE_FORGET, target=name,
        before={"state": node.state}, reason=reason,
    )  # fmt: skip
    _forget(node, timezone.now())
    _announce(name, "", reason)
    return True


def _needed(node: Node) -> str:
    """Why a node that is gone is not history yet; "" where it is."""
    incident = incidents_open().filter(failed_nodes=node).order_by("number").first()
    if incident is not None:
        return (
            f"incident {incident.number} still recovers from the loss of {node.name}; wait until it has ended"
        )
    placed = Partition.objects.filter(node=node)
    topology = placed.order_by("topology__name").values_list("topology__name", flat=True).first()
    if topology is not None:
        return (
            f"{placed.count()} of the partitions that ran on {node.name} are not replaced; "
            f"recover topology {topology!r} first"
        )
    return ""


def _forget(node: Node, at: datetime) -> None:
    node.forgotten_at = at
    node.save(update_fields=["forgotten_at"])


def _announce(name: str, actor: str, reason: str) -> None:
    event_publish(
        kind=EventKind.NODE_UPDATED, node=name, changes=[removal("node", name)], actor=actor, reason=reason
    )
