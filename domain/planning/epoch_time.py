"""How long the epochs of a topology take under a placement.

An epoch is one job of as many stages as the topology has levels, and each stage lasts as long as its busiest
node works. What a placement costs is therefore the sum, over the levels, of the busiest node's share of its
capacity, and that of the busiest node over all levels. A maximum says nothing of the nodes below it, so a
norm of high order takes its place; it falls with every move that helps.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from domain.planning.placement import NodeSpace

ORDER = 8
"""Of the norm, see `_power`: two nodes with equal load count 9 % more than one."""
LEAST_GAIN = 0.05
"""Share, divided by the number of nodes, that a single move must save."""
SUM = 0.5
"""Weight of a node's sum over all levels. It says how near a node is to its limit; how long an epoch takes is
said by the levels."""
BUSIEST = 3
"""Nodes, in sum and in each level, whose units are looked at for the next move."""
MOST_SWAPPED = 300
"""Units among which two are looked for that change places, which takes 20 ms. More units on a node even each
other out."""

Shares = NDArray[np.float64]


@dataclass(frozen=True, slots=True, eq=False)
class Unit:
    """Partitions that are on one node together. costs: level -> CPU percent."""

    members: tuple[str, ...]
    costs: dict[int, float]

    @property
    def cost(self) -> float:
        return sum(self.costs.values())


Weighed = Callable[[Unit, int, Shares], Shares]


class EpochTime:
    """Shares of the nodes' capacities: of each level's units on each node, and in sum.

    movable: by node, the units that may move. levels: how many there are.
    """

    def __init__(self, nodes: Sequence[NodeSpace], *, levels: int, max_utilisation: float) -> None:
        self.capacity = np.array([max(node.capacity, 1e-9) for node in nodes])
        self.limit = max_utilisation
        self.level = np.zeros((levels, len(nodes)))
        self.total = np.array([node.load for node in nodes]) / self.capacity
        self.movable: list[list[Unit]] = [[] for _ in nodes]
        # What no move can change.
        self._least = SUM * float(_norm(self.total))

    def cost(self) -> float:
        """What the placement costs beyond what the nodes take anyway."""
        return float(_norm(self.level).sum() + SUM * _norm(self.total)) - self._least

    def put(self, unit: Unit, node: int, *, movable: bool = True) -> None:
        self._add(unit, node, 1.0)
        if movable:
            self.movable[node].append(unit)

    def take(self, unit: Unit, node: int) -> None:
        """Away with a unit that was put there and may not move."""
        self._add(unit, node, -1.0)

    def fits(self, unit: Unit) -> NDArray[np.bool_]:
        """Nodes with room for a unit that is nowhere yet."""
        fits: NDArray[np.bool_] = self.total + unit.cost / self.capacity <= self.limit + 1e-9
        return fits

    def best_node(self, unit: Unit, among: NDArray[np.bool_] | None = None) -> int | None:
        """Where a unit that is nowhere yet costs least; None if it has room nowhere. among: nodes that it may
        go to."""
        fits = self.fits(unit) if among is None else self.fits(unit) & among
        if not fits.any():
            return None
        cost = SUM * _added(self.total, unit.cost / self.capacity)
        for level, part in unit.costs.items():
            cost = cost + _added(self.level[level], part / self.capacity)
        return int(np.argmin(np.where(fits, cost, np.inf)))

    def best_move(self, weighed: Weighed | None = None) -> tuple[Unit, int, int] | None:
        """The move that saves most, if one saves enough: what, from which node and to which. weighed: what
        counts instead of what moving a unit from a node to each node saves."""
        found: tuple[float, Unit, int, int] | None = None
        least = LEAST_GAIN / len(self.movable) * self.cost()
        for node in self._busy():
            for unit in self.movable[node]:
                saved = self._savings(unit, node)
                saved = saved if weighed is None else weighed(unit, node, saved)
                target = int(np.argmax(saved))
                if saved[target] > least and (found is None or saved[target] > found[0]):
                    found = float(saved[target]), unit, node, target
        return None if found is None else found[1:]

    def best_swap(self) -> tuple[tuple[Unit, int, int], tuple[Unit, int, int]] | None:
        """The two units that change places for the largest saving, if it is as large as that of a move has to
        be. Where every node is planned to its bound no unit can move by itself."""
        units = [(unit, node) for node, mine in enumerate(self.movable) for unit in mine]
        if not 2 <= len(units) <= MOST_SWAPPED:
            return None
        at = np.array([node for _, node in units])
        costs = np.zeros((len(self.level), len(units)))
        for number, (unit, _) in enumerate(units):
            for level, cost in unit.costs.items():
                costs[level, number] = cost
        found: tuple[float, int, int] | None = None
        least = LEAST_GAIN / len(self.movable) * self.cost()
        for number in np.flatnonzero(np.isin(at, self._busy())).tolist():
            saved = self._swapped(costs, at, number)
            other = int(np.argmax(saved))
            if saved[other] > least and (found is None or saved[other] > found[0]):
                found = float(saved[other]), number, other
        if found is None:
            return None
        (unit, node), (instead, target) = units[found[1]], units[found[2]]
        return (unit, node, target), (instead, target, node)

    def mark(self) -> tuple[Shares, Shares]:
        """The shares as they are, for `reset`."""
        return self.level.copy(), self.total.copy()

    def reset(self, mark: tuple[Shares, Shares]) -> None:
        """The shares as they were. Units that may move have to be where they were then."""
        self.level, self.total = mark[0].copy(), mark[1].copy()

    def carry_out(self, unit: Unit, node: int, target: int) -> None:
        self.movable[node].remove(unit)
        self._add(unit, node, -1.0)
        self.put(unit, target)

    def _add(self, unit: Unit, node: int, sign: float) -> None:
        for level, cost in unit.costs.items():
            self.level[level, node] += sign * cost / self.capacity[node]
            self.total[node] += sign * cost / self.capacity[node]

    def _busy(self) -> list[int]:
        """The nodes with most to do, in sum and in each level, in their order."""
        busiest = np.argsort(-self.total, kind="stable")[:BUSIEST].tolist()
        for row in self.level:
            busiest += np.argsort(-row, kind="stable")[:BUSIEST].tolist()
        return sorted(set(busiest))

    def _savings(self, unit: Unit, node: int) -> Shares:
        """What moving a unit to each node would save; minus infinity where there is no room."""
        cost = unit.cost
        saved = SUM * (_norm(self.total) - self._moved(self.total, cost, node))
        for level, part in unit.costs.items():
            saved = saved + _norm(self.level[level]) - self._moved(self.level[level], part, node)
        room = self.fits(unit)
        room[node] = False
        return np.where(room, saved, -np.inf)

    def _swapped(self, costs: Shares, at: NDArray[np.int_], number: int) -> Shares:
        """What one unit saves by changing places with each of the others; minus infinity where a node would
        have more than its bound, and more than it has. costs: of each level and unit. at: node of each."""
        node = int(at[number])
        here, there = self.capacity[node], self.capacity[at]
        more = costs - costs[:, [number]]  # what its node gets, in each level
        both = more.sum(axis=0)
        saved = SUM * (_norm(self.total) - _exchanged(self.total, node, both / here, at, -both / there))
        for shares, level in zip(self.level, more, strict=True):
            saved = saved + _norm(shares) - _exchanged(shares, node, level / here, at, -level / there)
        limit = self.limit + 1e-9
        fits = ((both <= 0.0) | (self.total[node] + both / here <= limit)) & (
            (both >= 0.0) | (self.total[at] - both / there <= limit)
        )
        return np.where(fits & (at != node), saved, -np.inf)

    def _moved(self, shares: Shares, cost: float, node: int) -> Shares:
        """The norm of these shares if `cost` went from `node` to each of the others."""
        powers = _power(shares)
        left = max(float(shares[node]) - cost / self.capacity[node], 0.0) ** ORDER
        rest = powers.sum() - powers[node] + left
        moved: Shares = np.maximum(rest - powers + _power(shares + cost / self.capacity), 0.0)
        return _root(moved)


def _exchanged(shares: Shares, node: int, gets: Shares, at: NDArray[np.int_], get: Shares) -> Shares:
    """The norm of these shares with `gets` more on `node` and `get` more on `at`, for each of these."""
    powers = _power(shares)
    rest = powers.sum() - powers[node] - powers[at]
    first = _power(np.maximum(shares[node] + gets, 0.0))
    second = _power(np.maximum(shares[at] + get, 0.0))
    exchanged: Shares = _root(np.maximum(rest + first + second, 0.0))
    return exchanged


def _added(shares: Shares, more: Shares) -> Shares:
    """What the norm of these shares grows by if each of them gets that much more, by itself."""
    powers = _power(shares)
    whole = powers.sum()
    grown: Shares = _root(np.maximum(whole - powers + _power(shares + more), 0.0)) - _root(whole)
    return grown


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
