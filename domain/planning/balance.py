"""Which partitions that run should change their node, so that no node is the slowest of every epoch."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Mapping

from domain.planning.deployment import chains, partition_levels
from domain.planning.epoch_time import EpochTime, Unit
from domain.planning.placement import MAX_UTILISATION, NodeSpace, effective_costs, natural_key
from domain.topology import Topology

WORTHWHILE = 0.1
"""Share of what the placement costs that all moves together must save, or nothing moves."""
MOST_MOVES = 200
"""Partitions, or chains of partitions, that move at once: a tenth of all and a few more, and never more than
this."""
FEW = 10


def balancing_moves(
    topology: Topology,
    assignment: Mapping[str, str],
    nodes: Collection[NodeSpace],
    costs: Mapping[str, float],
    *,
    max_utilisation: float = MAX_UTILISATION,
    most: int | None = None,
    worthwhile: float = WORTHWHILE,
    least: float = 0.0,
) -> dict[str, str]:
    """Partition -> node to which it should move; empty if the placement is even already.

    assignment: partition -> node now; what is on none of `nodes` stays there and does not count.
    nodes: those that may take partitions; `load` is what they have besides this topology.
    costs: CPU percent of each partition. most: units that may move; default `MOST_MOVES`.
    worthwhile, least: what all moves together must save, as a share of what the placement costs and in
    seconds per second of epochs; otherwise nothing moves.
    No node takes a partition that would bring it above `max_utilisation`.
    """
    usable = sorted((one for one in nodes if not one.standby), key=lambda one: natural_key(one.name))
    if len(usable) < 2:
        return {}
    state = _epoch_time(topology, assignment, usable, costs, max_utilisation)
    before = state.cost()
    moves: dict[str, str] = {}
    few = min(FEW + len(assignment) // 10, MOST_MOVES)
    for _ in range(few if most is None else most):
        best = state.best_move()
        if best is None:
            break
        state.carry_out(*best)
        unit, _, target = best
        moves.update(dict.fromkeys(unit.members, usable[target].name))
    stay = {p for p, node in moves.items() if assignment[p] == node}
    saved = before - state.cost()
    return {p: moves[p] for p in moves if p not in stay} if saved > max(worthwhile * before, least) else {}


def _epoch_time(
    topology: Topology,
    assignment: Mapping[str, str],
    nodes: list[NodeSpace],
    costs: Mapping[str, float],
    max_utilisation: float,
) -> EpochTime:
    index = {node.name: position for position, node in enumerate(nodes)}
    here = {p: index[node] for p, node in assignment.items() if node in index}
    full = effective_costs(partitions=here, nodes=nodes, costs=costs, max_utilisation=max_utilisation)
    levels = partition_levels(topology)
    state = EpochTime(nodes, levels=1 + max(levels.values(), default=0), max_utilisation=max_utilisation)
    for unit, node in _units(topology, here, levels, full):
        state.put(unit, node)
    return state


def _units(
    topology: Topology, here: Mapping[str, int], levels: Mapping[str, int], costs: Mapping[str, float]
) -> list[tuple[Unit, int]]:
    """What moves together, and where it is: a chain keeps its stage only while it is on one node."""
    chained = {p: chain for chain in chains(topology) for p in chain}
    groups: defaultdict[tuple[tuple[str, ...], int], list[str]] = defaultdict(list)
    for partition in topology.partitions:
        if partition in here:
            groups[chained.get(partition, (partition,)), here[partition]].append(partition)
    found = []
    for (_, node), members in groups.items():
        by_level: dict[int, float] = {}
        for partition in members:
            by_level[levels[partition]] = by_level.get(levels[partition], 0.0) + costs[partition]
        found.append((Unit(tuple(members), by_level), node))
    return found
