"""Scenarios for the tests of the simulation: generated topologies, evenly loaded nodes, some of which die."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any

from domain.planning import NodeSpace, initial_placement
from domain.simulation.generator import SyntheticTopology, TopologyRecipe, generate_topology
from domain.simulation.scenario import Failure, Scenario, SimulatedNode, SimulatedTopology

RECIPE = TopologyRecipe(queries=8, size=4, max_sharing=4)


def drawn_scenario(
    seed: int = 0,
    *,
    nodes: int = 6,
    dead: int | Sequence[int] = 4,
    topologies: int = 1,
    load: float = 0.4,
    recipe: TopologyRecipe = RECIPE,
    **changes: Any,
) -> Scenario:
    """`dead`: how many nodes die at time 0, or at each of several moments, a minute apart.

    load: share of all capacity in use before the failure.
    """
    drawn = [
        generate_topology(
            TopologyRecipe(
                queries=recipe.queries, size=recipe.size, max_sharing=recipe.max_sharing, name=f"t{k}"
            ),
            100 * seed + k,
        )
        for k in range(topologies)
    ]
    total = sum(sum(one.costs.values()) for one in drawn)
    # Whatever the load: the largest partition fits on a node, and all partitions fit under the bound.
    largest = max(cost for one in drawn for cost in one.costs.values())
    capacity = max(total / nodes / load, 4 * largest)
    placed, loads = _placed(drawn, nodes, capacity)
    while not placed:
        capacity *= 1.1  # partitions that fit in sum may not fit on single nodes
        placed, loads = _placed(drawn, nodes, capacity)
    order = sorted(loads)
    random.Random(seed).shuffle(order)
    counts = [dead] if isinstance(dead, int) else dead
    failures = []
    for index, count in enumerate(counts):
        failures.append(Failure(at=60.0 * index, nodes=tuple(order[:count])))
        order = order[count:]
    given: dict[str, Any] = {
        "topologies": tuple(placed),
        "nodes": tuple(
            SimulatedNode(name=name, capacity=capacity, rack=f"rack-{i % 3}") for i, name in enumerate(loads)
        ),
        "failures": tuple(failures),
        "seed": seed,
        **changes,
    }
    return Scenario(**given)


def _placed(
    drawn: Sequence[SyntheticTopology], nodes: int, capacity: float
) -> tuple[list[SimulatedTopology], dict[str, float]]:
    """The topologies on this many nodes, and the load of each node; no topologies if one does not fit."""
    loads = {f"node-{i}": 0.0 for i in range(1, nodes + 1)}
    placed: list[SimulatedTopology] = []
    for one in drawn:
        spaces = [NodeSpace(name=name, capacity=capacity, load=load) for name, load in loads.items()]
        placement = initial_placement(one.topology, spaces, costs=one.costs)
        if placement.unplaced:
            return [], loads
        loads = placement.load
        placed.append(
            SimulatedTopology(topology=one.topology, assignment=placement.assignment, costs=one.costs)
        )
    return placed, loads
