"""How much a topology loses with a rack, while partitions are moved about.

The exposure of a placement is the mean, over the racks, of the square of the priority share that the rack's
loss takes down. With the share itself, one rack that takes everything would count like two that take half
each. It falls with every rack that a query no longer needs.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from domain.planning.epoch_time import Unit

MOST_CELLS = 1_000_000
"""Queries times racks, and the sum of the partitions that each query needs. Beyond that racks do not count: a
look would take too long."""

Numbers = NDArray[np.int64]


class RackExposure:
    """needs: by unit, the numbers of the queries that need it. weights: priority of each query.
    racks: number of the rack of each node."""

    def __init__(self, needs: Mapping[Unit, Numbers], weights: Sequence[int], racks: Sequence[int]) -> None:
        self.needs = needs
        self.weights = np.array(weights, dtype=np.int64)
        self.racks = np.array(racks, dtype=np.int64)
        self.count = 1 + max(racks)
        self.units = np.zeros((len(weights), self.count), dtype=np.int32)
        self.lost = np.zeros(self.count, dtype=np.int64)
        self._whole = max(int(self.weights.sum()), 1) ** 2 * self.count

    def value(self) -> float:
        """0 to 1. Sums are whole numbers, so that it does not depend on the order of the moves."""
        return int((self.lost * self.lost).sum()) / self._whole

    def put(self, unit: Unit, node: int) -> None:
        queries, rack = self.needs[unit], self.racks[node]
        before = self.units[queries, rack]
        self.lost[rack] += self.weights[queries[before == 0]].sum()
        self.units[queries, rack] = before + 1

    def take(self, unit: Unit, node: int) -> None:
        queries, rack = self.needs[unit], self.racks[node]
        after = self.units[queries, rack] - 1
        self.lost[rack] -= self.weights[queries[after == 0]].sum()
        self.units[queries, rack] = after

    def moved(self, unit: Unit, node: int) -> NDArray[np.float64]:
        """The value, for each node, if the unit went there from `node`."""
        queries, rack = self.needs[unit], self.racks[node]
        squares = self.lost * self.lost
        left = self.lost[rack] - self.weights[queries[self.units[queries, rack] == 1]].sum()
        more = self.lost + self.weights[queries] @ (self.units[queries] == 0)
        sums = squares.sum() - squares[rack] + left * left - squares + more * more
        sums[rack] = squares.sum()
        value: NDArray[np.float64] = sums[self.racks] / self._whole
        return value
