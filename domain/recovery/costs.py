"""What partitions count for in an incident, fixed once from the placement before it."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Mapping

from domain.planning import effective_costs, entitled_costs
from domain.recovery.incident import Deployment, NodeView

GRAIN = 1e-4
"""Costs are whole numbers of this many percent, as planning counts them: what filled a node before then
fills one exactly, and is never a rounding too large."""

Costs = Mapping[str, Mapping[str, float]]


def full_name(topology: str, partition: str) -> str:
    """The name of a partition in the global topology."""
    return f"{topology}/{partition}"


def costs_fix(
    deployments: Mapping[str, Deployment],
    nodes: Mapping[str, NodeView],
    kept: Costs,
    max_utilisation: float,
) -> dict[str, dict[str, float]]:
    """Entitled costs of all partitions of those topologies that have none in `kept` yet, in CPU percent.

    Nodes as many and as large as the lost ones then suffice in sum, whatever was measured. What was kept
    stays; a topology that came later, or with other partitions, shares what its nodes had left.
    """
    new = {
        name: deployment
        for name, deployment in deployments.items()
        if not kept.get(name, {}).keys() >= set(deployment.topology.partitions)
    }
    if not new:
        return {}
    hosts = {node for deployment in new.values() for node in deployment.homes.values()}
    known = [nodes[name] for name in sorted(hosts) if name in nodes]
    spaces = [node.space() for node in known]
    used: defaultdict[str, float] = defaultdict(float)
    for name, costs in kept.items():
        if name in deployments and name not in new:
            for partition, node in deployments[name].homes.items():
                used[node] += costs.get(partition, 0.0)
    room = {n.name: max(GRAIN, (n.limit(max_utilisation) - used[n.name]) / max_utilisation) for n in known}
    measured = {
        full_name(name, partition): deployment.costs.get(partition, 0.0)
        for name, deployment in new.items()
        for partition in deployment.topology.partitions
    }
    entitled = entitled_costs(
        costs=effective_costs(
            partitions=measured, nodes=spaces, costs=measured, max_utilisation=max_utilisation
        ),
        assignment={
            full_name(name, partition): node
            for name, deployment in new.items()
            for partition, node in deployment.homes.items()
        },
        capacities=room,
        max_utilisation=max_utilisation,
    )
    return {
        name: {
            partition: _whole(entitled[full_name(name, partition)])
            for partition in deployment.topology.partitions
        }
        for name, deployment in new.items()
    }


def costs_raised(kept: Mapping[str, float], deployment: Deployment, *, most: float) -> dict[str, float]:
    """What partitions of a topology count for where what was kept has proved too little: what is measured now
    of those that run, if that is more, but never more than the largest node can take. most: CPU percent that
    partitions may be planned with there."""
    measured = deployment.measured(kept)
    runs = deployment.assignment
    return {p: max(cost, _whole(min(measured[p], most))) if p in runs else cost for p, cost in kept.items()}


def _whole(cost: float) -> float:
    return max(1, math.floor(cost / GRAIN + 1e-6)) * GRAIN
