"""Partitions that replicas have taken over, or are about to: nothing of them is restored. Pure."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from domain.recovery.events import DriverReported
from domain.recovery.incident import Deployment, NodeView, TopologyCase

PATIENCE = 3.0
"""Seconds after a loss for which a takeover is awaited before its partitions are planned as any other: a
driver that can reach the replica needs less."""


def in_force(event: DriverReported, deployment: Deployment, *, plan: int) -> dict[str, str]:
    """The takeovers that a driver reports and that stay as they are: none of an earlier deployment, and none
    that the newest plan knew of while the driver has not applied that. plan: its generation."""
    if event.generation < deployment.deployed:
        return {}
    known = deployment.acting if event.generation < plan else {}
    return {p: node for p, node in event.acting.items() if known.get(p) != node}


def taken_over(
    case: TopologyCase, acting: Mapping[str, str], nodes: Mapping[str, NodeView]
) -> dict[str, str]:
    """Failed partitions for which a replica acts on a living node: partition -> node."""
    return {p: node for p, node in sorted(acting.items()) if p in case.failed and _alive(node, nodes)}


def standing(
    case: TopologyCase, standing: Mapping[str, str], nodes: Mapping[str, NodeView]
) -> frozenset[str]:
    """Failed partitions with a replica on a living node that could act."""
    return frozenset(p for p, node in standing.items() if p in case.failed and _alive(node, nodes))


def astray(deployment: Deployment, nodes: Mapping[str, NodeView]) -> frozenset[str]:
    """Partitions that replicas took over on nodes that are lost by now."""
    return frozenset(p for p, node in deployment.taken.items() if not _alive(node, nodes))


def awaited(case: TopologyCase, losses: Collection[tuple[float, str]], now: float) -> bool:
    """Whether a takeover is awaited. losses: (moment, node) of each."""
    waiting = bool(case.standing & case.failed)
    return waiting and now - max((at for at, _ in losses), default=float("-inf")) < PATIENCE


def _alive(node: str, nodes: Mapping[str, NodeView]) -> bool:
    return node in nodes and nodes[node].alive
