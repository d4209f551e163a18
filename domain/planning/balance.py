"""Which partitions that run should change their node, so that no node is the slowest of every epoch.

An epoch is one job of as many stages as the topology has levels, and each stage lasts as long as its busiest
node works. What a placement costs is therefore the sum, over the levels, of the busiest node's share of its
capacity, and that of the busiest node over all levels. A maximum says nothing of the nodes below it, so a
norm of high order takes its place; it falls with every move that helps.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from domain.planning.deployment import chains, partition_levels
from domain.planning.placement import MAX_UTILISATION, NodeSpace, effective_costs, natural_key
from domain.topology import Topology

ORDER = 8
"""Of the norm, see `_power`: two nodes with equal load count 9 % more than one."""
WORTHWHILE = 0.1
"""Share of what the placement costs that all moves together must save, or nothing moves."""
LEAST_GAIN = 0.05
"""Share, divided by the number of nodes, that a single move must save."""
MOST_MOVES = 200
"""Partitions, or chains of partitions, that move at once: a tenth of all and a few more, and never more than
this."""
FEW = 10
SUM = 0.5
"""Weight of a node's sum over all levels. It says how near a node is to its limit; how long an epoch takes is
said by the levels."""
BUSIEST = 3
"""Nodes, in sum and in each level, whose partitions are looked at for the next move."""

Shares = NDArray[np.float64]


@dataclass(frozen=True, slots=True, eq=False)
class _Unit:
    """Partitions of one chain on one node. costs: level -> CPU percent."""

    members: tuple[str, ...]
    costs: dict[int, float]


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
    state = _State(topology, assignment, usable, costs, max_utilisation)
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


class _State:
    """Shares of the nodes' capacities: of each level's partitions on each node, and in sum."""

    def __init__(
        self,
        topology: Topology,
        assignment: Mapping[str, str],
        nodes: list[NodeSpace],
        costs: Mapping[str, float],
        max_utilisation: float,
    ) -> None:
        index = {node.name: position for position, node in enumerate(nodes)}
        here = {p: index[node] for p, node in assignment.items() if node in index}
        full = effective_costs(partitions=here, nodes=nodes, costs=costs, max_utilisation=max_utilisation)
        levels = partition_levels(topology)
        self.capacity = np.array([max(node.capacity, 1e-9) for node in nodes])
        self.limit = max_utilisation
        self.level = np.zeros((1 + max(levels.values(), default=0), len(nodes)))
        self.total = np.array([node.load for node in nodes]) / self.capacity
        # What no move can change.
        self._least = SUM * float(_norm(self.total))
        self.on: list[list[_Unit]] = [[] for _ in nodes]
        for unit, node in _units(topology, here, levels, full):
            self._add(unit, node, 1.0)
            self.on[node].append(unit)

    def cost(self) -> float:
        """What the placement costs beyond what the nodes take anyway."""
        return float(_norm(self.level).sum() + SUM * _norm(self.total)) - self._least

    def best_move(self) -> tuple[_Unit, int, int] | None:
        """The move that saves most, if one saves enough: what, from which node and to which."""
        found: tuple[float, _Unit, int, int] | None = None
        least = LEAST_GAIN / len(self.on) * self.cost()
        for node in self._busy():
            for unit in self.on[node]:
                saved = self._savings(unit, node)
                target = int(np.argmax(saved))
                if saved[target] > least and (found is None or saved[target] > found[0]):
                    found = float(saved[target]), unit, node, target
        return None if found is None else found[1:]

    def carry_out(self, unit: _Unit, node: int, target: int) -> None:
        self.on[node].remove(unit)
        self.on[target].append(unit)
        self._add(unit, node, -1.0)
        self._add(unit, target, 1.0)

    def _add(self, unit: _Unit, node: int, sign: float) -> None:
        for level, cost in unit.costs.items():
            self.level[level, node] += sign * cost / self.capacity[node]
            self.total[node] += sign * cost / self.capacity[node]

    def _busy(self) -> list[int]:
        """The nodes with most to do, in sum and in each level, in their order."""
        busiest = np.argsort(-self.total, kind="stable")[:BUSIEST].tolist()
        for row in self.level:
            busiest += np.argsort(-row, kind="stable")[:BUSIEST].tolist()
        return sorted(set(busiest))

    def _savings(self, unit: _Unit, node: int) -> Shares:
        """What moving a unit to each node would save; minus infinity where there is no room."""
        cost = sum(unit.costs.values())
        saved = SUM * (_norm(self.total) - self._moved(self.total, cost, node))
        for level, part in unit.costs.items():
            saved = saved + _norm(self.level[level]) - self._moved(self.level[level], part, node)
        room = self.total + cost / self.capacity <= self.limit + 1e-9
        room[node] = False
        return np.where(room, saved, -np.inf)

    def _moved(self, shares: Shares, cost: float, node: int) -> Shares:
        """The norm of these shares if `cost` went from `node` to each of the others."""
        powers = _power(shares)
        left = max(float(shares[node]) - cost / self.capacity[node], 0.0) ** ORDER
        rest = powers.sum() - powers[node] + left
        moved: Shares = np.maximum(rest - powers + _power(shares + cost / self.capacity), 0.0)
        return _root(moved)


def _norm(shares: Shares) -> Shares:
    """Of each row, or of one."""
    return _root(_power(np.maximum(shares, 0.0)).sum(axis=-1))


def _power(shares: Shares) -> Shares:
    """To the eighth; `**` would take a logarithm of each."""
    squared = shares * shares
    squared *= squared
    squared *= squared
    return squared


def _root(powers: Shares) -> Shares:
    root: Shares = np.sqrt(np.sqrt(np.sqrt(powers)))
    return root


def _units(
    topology: Topology, here: Mapping[str, int], levels: Mapping[str, int], costs: Mapping[str, float]
) -> list[tuple[_Unit, int]]:
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
        found.append((_Unit(tuple(members), by_level), node))
    return found
