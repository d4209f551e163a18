"""Taking all nodes of a rack out of service together, and back: one transaction and one audit entry.

The protocol is that of single nodes. Drained one after the other, partitions of the first node would move to
the others of the rack and from there once more.
"""

from __future__ import annotations

from dataclasses import dataclass

from django.conf import settings

from controlplane.errors import Conflict
from controlplane.events.audit import audit_record
from controlplane.events.choices import Channel, OperationKind
from controlplane.events.services import writing
from controlplane.incidents.loading import deployments_load, nodes_load, plans_newest
from controlplane.incidents.models import Incident
from controlplane.lifecycle.nodes import drain_begin, drain_end
from controlplane.nodes.choices import NODE_AWAITED, NodeState
from controlplane.nodes.permitted import rack_refusal
from controlplane.nodes.selectors import rack_nodes
from domain.recovery.evacuation import Evacuation, evacuation_of

DRAINABLE = frozenset({NodeState.ALIVE, NodeState.SUSPECT})


@dataclass(frozen=True, slots=True, kw_only=True)
class RackOutlook:
    """What draining the rack now would do. leaving: nodes that would be drained; draining: that are already.
    awaited: nodes of it that have not joined, and would not be drained."""

    rack: str
    states: dict[str, str]
    leaving: tuple[str, ...]
    draining: tuple[str, ...]
    awaited: tuple[str, ...]
    evacuation: Evacuation


def rack_outlook(rack: str) -> RackOutlook:
    """Raises `Missing`."""
    states = {node.name: node.state for node in rack_nodes(rack)}
    leaving = tuple(name for name, state in states.items() if state in DRAINABLE)
    deployments = deployments_load(plans_newest())
    return RackOutlook(
        rack=rack,
        states=states,
        leaving=leaving,
        draining=tuple(name for name, state in states.items() if state == NodeState.DRAINING),
        awaited=tuple(name for name, state in states.items() if state in NODE_AWAITED),
        evacuation=evacuation_of(
            leaving,
            deployments=deployments,
            nodes=nodes_load(deployments),
            max_utilisation=settings.RESURGE.max_utilisation,
        ),
    )


@writing
def rack_drain(*, rack: str, actor: str, reason: str, channel: Channel = Channel.SYSTEM) -> Incident | None:
    """Plan nothing more on the nodes of a rack and move away what runs there. Raises `Missing` or `Conflict`.

    Returns the incident that moves their partitions, or None where there are none.
    """
    nodes = rack_nodes(rack, lock=True)
    leaving = [node for node in nodes if node.state in DRAINABLE]
    if not leaving:
        if any(node.state == NodeState.DRAINING for node in nodes):
            return None
        states = {node.name: node.state for node in nodes}
        raise Conflict(rack_refusal(OperationKind.RACK_DRAIN, rack=rack, nodes=states))
    audit_record(
        actor=actor, channel=channel, action="rack.drained", target=rack,
        before={node.name: node.state for node in leaving},
        after={node.name: NodeState.DRAINING for node in leaving}, reason=reason,
    )  # fmt: skip
    return drain_begin(leaving, actor=actor, reason=reason)


@writing
def rack_activate(*, rack: str, actor: str, reason: str, channel: Channel = Channel.SYSTEM) -> None:
    """Let the drained nodes of a rack take partitions again. Raises `Missing` or `Conflict`."""
    nodes = rack_nodes(rack, lock=True)
    drained = [node for node in nodes if node.state == NodeState.DRAINING]
    if not drained:
        if any(node.state in DRAINABLE for node in nodes):
            return
        states = {node.name: node.state for node in nodes}
        raise Conflict(rack_refusal(OperationKind.RACK_ACTIVATE, rack=rack, nodes=states))
    audit_record(
        actor=actor, channel=channel, action="rack.activated", target=rack,
        before={node.name: node.state for node in drained},
        after={node.name: NodeState.ALIVE for node in drained}, reason=reason,
    )  # fmt: skip
    drain_end(drained, actor=actor, reason=reason)
