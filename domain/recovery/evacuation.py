"""Whether what runs on some nodes would find room on the others if they were drained together now."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass

from domain.planning import place
from domain.recovery.costs import costs_fix, full_name
from domain.recovery.incident import Deployment, NodeView


@dataclass(frozen=True, slots=True, kw_only=True)
class Evacuation:
    """moving: topology -> partition -> node that it leaves. staying: those of them that no other node has
    room for, by topology. needed: CPU percent of what moves; free: CPU percent that may still be planned on
    the `others`, the nodes that take partitions."""

    moving: Mapping[str, Mapping[str, str]]
    staying: Mapping[str, tuple[str, ...]]
    needed: float
    free: float
    others: tuple[str, ...]


def evacuation_of(
    leaving: Collection[str],
    *,
    deployments: Mapping[str, Deployment],
    nodes: Mapping[str, NodeView],
    max_utilisation: float,
) -> Evacuation:
    """Placed as plans of moves are, largest first on the emptiest node, but for all topologies at once."""
    gone = set(leaving)
    others = [node for node in nodes.values() if node.usable and node.name not in gone]
    fixed = costs_fix(deployments, nodes, {}, max_utilisation)
    costs: dict[str, float] = {}
    staying: dict[str, str] = {}
    origin: dict[str, tuple[str, str, str]] = {}
    for name, deployment in sorted(deployments.items()):
        for partition, node in deployment.assignment.items():
            label = full_name(name, partition)
            costs[label] = fixed[name][partition]
            if node in gone:
                origin[label] = name, partition, node
            else:
                staying[label] = node
    found = place(
        partitions=origin,
        nodes=[node.space() for node in others],
        costs=costs,
        assigned=staying,
        max_utilisation=max_utilisation,
        unmeasured=(),
    )
    moving: dict[str, dict[str, str]] = {}
    for name, partition, node in origin.values():
        moving.setdefault(name, {})[partition] = node
    left: dict[str, list[str]] = {}
    for label in found.unplaced:
        name, partition, _ = origin[label]
        left.setdefault(name, []).append(partition)
    used = dict.fromkeys((node.name for node in others), 0.0)
    for label, node in staying.items():
        if node in used:
            used[node] += costs[label]
    return Evacuation(
        moving=moving,
        staying={name: tuple(partitions) for name, partitions in left.items()},
        needed=sum(costs[label] for label in origin),
        free=sum(max(0.0, node.limit(max_utilisation) - used[node.name]) for node in others),
        others=tuple(node.name for node in others),
    )
