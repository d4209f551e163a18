"""Moves after which the loss of a rack takes down less.

A query is spared by the loss of a rack only when its last partition has left the rack, so a single move
often gains nothing. A step therefore brings all partitions of one query out of one rack. Steps are made one
after the other, also where one makes the placement cost more: the next may bring a partition into the room
that it left, or find that the partitions it shares with the first are out already. What is kept are the
steps up to the point where the placement cost least.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from domain.planning.epoch_time import Unit
from domain.planning.rack_exposure import RackExposure
from domain.planning.standing import Move, Standing

LEAST_GAIN = 1e-6
"""Share of the cost that further steps must save to be kept: more than sums of floats differ by."""
PATIENCE = 8
"""Steps in a row that save nothing before the search ends."""
SHORT_LIST = 24
"""Pairs of a query and a rack that are tried for a step: most priority for the units to be moved first."""
WORK = 4_000
"""Units that are put somewhere for a trial, in all steps; no seconds, so that all machines find the same."""
IDLEST = 2
"""Racks to which a query may go that is in one rack only."""


def leave_racks(standing: Standing, most: int) -> int:
    """Carry out at most `most` moves; returns how many of them are kept, the others are undone."""
    if standing.exposure is None or most <= 0:
        return 0
    search = _Search(standing, standing.exposure)
    start = kept = len(standing.made)
    lowest, idle = standing.cost(), 0
    while idle < PATIENCE:
        moves = search.step(most - (len(standing.made) - start))
        if not moves:
            break
        standing.carry_out(moves)
        search.lock(moves)
        cost, idle = standing.cost(), idle + 1
        if cost < lowest * (1.0 - LEAST_GAIN):
            lowest, kept, idle = cost, len(standing.made), 0
    standing.undo(kept)
    return kept - start


class _Search:
    """What has been moved stays where it is until the search ends, so there are no circles."""

    def __init__(self, standing: Standing, exposure: RackExposure) -> None:
        self.standing, self.exposure = standing, exposure
        self.work = WORK
        self.time = standing.time.cost()
        self.locked: set[Unit] = set()
        self.closed = np.zeros(exposure.units.shape, dtype=bool)
        self.units_of: defaultdict[int, list[Unit]] = defaultdict(list)
        for unit in standing.where:
            for query in exposure.needs[unit].tolist():
                self.units_of[query].append(unit)

    def lock(self, moves: list[Move]) -> None:
        for unit, _, target in moves:
            self.locked.add(unit)
            self.closed[self.exposure.needs[unit], self.exposure.racks[target]] = True

    def step(self, most: int) -> list[Move]:
        """The moves of the step after which the placement costs least; empty if none is possible. Where steps
        have made epochs longer, a move that makes them shorter is one, too."""
        found: list[tuple[float, list[Move]]] = []
        for query, rack in self._pairs():
            units = self._units(query, rack)
            if not units or len(units) > most:
                self.closed[query, rack] = True
                continue
            for among in self._targets(query, rack):
                if self.work < len(units):
                    break
                self.work -= len(units)
                tried = self.standing.tried(units, among)
                if tried is not None:
                    found.append(tried)
        longer = self.standing.time.cost() > self.time
        move = self.standing.best_move(self.locked) if most > 0 and longer else None
        if move is not None:
            unit, _, target = move
            tried = self.standing.tried([unit], np.arange(len(self.exposure.racks)) == target)
            found += [tried] if tried is not None else []
        return min(found, key=lambda one: one[0])[1] if found else []

    def _pairs(self) -> list[tuple[int, int]]:
        units = self.exposure.units
        score = np.where((units > 0) & ~self.closed, self.exposure.weights[:, None] / np.maximum(units, 1), 0)
        flat = score.ravel()
        best = np.argpartition(-flat, min(SHORT_LIST, flat.size - 1))[:SHORT_LIST].tolist()
        best = sorted((one for one in best if flat[one] > 0), key=lambda one: (-flat[one], one))
        return [divmod(one, units.shape[1]) for one in best]

    def _units(self, query: int, rack: int) -> list[Unit]:
        """The query's units in the rack, largest first; none if one of them has been moved there."""
        here = [u for u in self.units_of[query] if self.exposure.racks[self.standing.where[u]] == rack]
        return [] if self.locked.intersection(here) else sorted(here, key=lambda unit: -unit.cost)

    def _targets(self, query: int, rack: int) -> Iterator[NDArray[np.bool_]]:
        """Nodes to which the query may go: in the racks it needs anyway, or in an idle one."""
        racks = self.exposure.racks
        others = np.flatnonzero(self.exposure.units[query] > 0)
        others = others[others != rack]
        if len(others):
            yield np.isin(racks, others)
            return
        time = self.standing.time
        size = np.bincount(racks, weights=time.capacity, minlength=self.exposure.count)
        used = np.bincount(racks, weights=time.total * time.capacity, minlength=self.exposure.count) / size
        used[rack] = np.inf
        for idle in np.argsort(used, kind="stable")[: min(IDLEST, self.exposure.count - 1)].tolist():
            yield racks == idle
