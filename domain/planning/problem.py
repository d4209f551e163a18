"""The recovery scheduling problem as arrays (incremental recovery, Definition 2).

Choose failed partitions to restore, within a capacity, so that the priorities of the queries that become
whole add up to as much as possible. A query is whole when *all* its failed partitions are restored.

Partitions needed by exactly the same failed queries are always worth restoring together, so they are
merged into a *bundle*. Real topologies have far fewer bundles than partitions: behind a shuffle every
partition of an operator is needed by the same queries.

Costs are kept as whole numbers of `GRAIN` CPU percent. Sums are then exact, which makes plans independent
of the order of summation and lets ties be real ties.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from domain.planning.placement import MAX_UTILISATION, NodeSpace
from domain.planning.ragged import Ragged

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]
Flags = NDArray[np.bool_]

GRAIN = 1e-4
# Largest integer below which every integer is a float64.
EXACT = 2**53


def to_grains(percent: float) -> int:
    """A cost in grains, rounded up so that nothing that costs something becomes free."""
    return math.ceil(percent / GRAIN - 1e-6)


def capacity_grains(percent: float) -> int:
    """A capacity in grains, rounded down."""
    return math.floor(percent / GRAIN + 1e-6)


def to_percent(grains: int) -> float:
    """Grains as CPU percent."""
    return round(grains * GRAIN, 4)


@dataclass(frozen=True, eq=False, kw_only=True)
class RecoveryProblem:
    """M failed queries, P failed partitions in K bundles. Names are in natural order, and so are ties.

    queries, priorities[M]: the failed queries and what each is worth to have back: their priorities, times
        `points` (whole numbers, at least 1). points: more than 1 where some queries are worth less than their
        priority, because a part of their output is there already.
    partitions, costs[P]: failed, not restored partitions and their costs in grains.
    bundle_of[P]: bundle of each partition; -1 for one that no query needs.
    needs[M, K]: which query needs which bundle.
    capacity: what may be planned in this wave, in grains.
    predecessors: per partition the failed partitions next upstream of it (healthy ones looked through).
    nodes, assigned, affinity, levels, max_utilisation: for placing the plan; no nodes, no placement.
    movable: partitions in `assigned` that a plan may move to another node, and the price of each move in
        points of priority. Empty: what runs stays where it is.
    """

    queries: tuple[str, ...]
    priorities: Integers
    partitions: tuple[str, ...]
    costs: Integers
    bundle_of: Integers
    needs: Flags
    capacity: int
    predecessors: tuple[tuple[int, ...], ...] = ()
    nodes: tuple[NodeSpace, ...] = ()
    assigned: Mapping[str, str] = field(default_factory=dict)
    placed_costs: Mapping[str, float] = field(default_factory=dict)
    movable: Mapping[str, float] = field(default_factory=dict)
    affinity: tuple[tuple[str, ...], ...] = ()
    levels: Mapping[str, int] = field(default_factory=dict)
    max_utilisation: float = MAX_UTILISATION
    points: int = 1

    @property
    def total_priority(self) -> int:
        return int(self.priorities.sum())

    @cached_property
    def partition_index(self) -> dict[str, int]:
        return {name: i for i, name in enumerate(self.partitions)}

    @cached_property
    def bundle_cost(self) -> Integers:
        """Cost of each bundle in grains [K]."""
        owned = self.bundle_of >= 0
        weights = np.bincount(
            self.bundle_of[owned], weights=self.costs[owned].astype(np.float64), minlength=self.needs.shape[1]
        )
        return np.rint(weights).astype(np.int64)

    @cached_property
    def bundle_size(self) -> Integers:
        """Partitions in each bundle [K]."""
        owned = self.bundle_of[self.bundle_of >= 0]
        return np.bincount(owned, minlength=self.needs.shape[1]).astype(np.int64)

    @cached_property
    def sharing(self) -> Integers:
        """f_k: the number of failed queries that need each bundle [K]."""
        return self.needing.lengths

    @cached_property
    def weight_scale(self) -> int:
        """Factor that turns the shares c_k / f_k into whole numbers: the least common multiple of all f_k
        where sums stay exact, otherwise the largest exact power of two (shares are then rounded)."""
        total = max(1, int(self.bundle_cost.sum()))
        scale = 1
        for frequency in np.unique(self.sharing[self.sharing > 0]).tolist():
            scale = math.lcm(scale, frequency)
            if scale * total >= EXACT:
                return 1 << max(0, (EXACT // total).bit_length() - 2)
        return scale

    @cached_property
    def bundle_weight(self) -> Floats:
        """c_k / f_k, scaled by `weight_scale`: whole numbers in floats [K]."""
        shares = self.bundle_cost * float(self.weight_scale) / np.maximum(self.sharing, 1)
        return np.rint(shares)

    @cached_property
    def needed(self) -> Ragged:
        """Bundles of each query."""
        return Ragged.of_matrix(self.needs)

    @cached_property
    def needing(self) -> Ragged:
        """Queries of each bundle."""
        return Ragged.of_matrix(np.ascontiguousarray(self.needs.T))

    @cached_property
    def query_cost(self) -> Integers:
        """C_i: cost of restoring all failed partitions of each query [M]."""
        return np.rint(self.needed.sums(self.bundle_cost.astype(np.float64))).astype(np.int64)

    @cached_property
    def query_weight(self) -> Floats:
        """The denominator of Definition 3, scaled, for each query [M]."""
        return self.needed.sums(self.bundle_weight)

    def cost_of(self, queries: Iterable[int]) -> int:
        """Cost in grains of restoring these queries together."""
        covered = self.covered(queries)
        return int(self.bundle_cost[covered].sum())

    def covered(self, queries: Iterable[int]) -> Flags:
        """Bundles that restoring these queries restores [K]."""
        covered = np.zeros(self.needs.shape[1], dtype=bool)
        covered[self.needed.gather(np.fromiter(queries, dtype=np.int64))[0]] = True
        return covered

    def recovered(self, covered: Flags) -> Flags:
        """Queries that are whole once these bundles are restored [M]."""
        return self.needed.sums((~covered).astype(np.float64)) == 0

    def partitions_of(self, covered: Flags) -> list[int]:
        """Indices of the partitions in these bundles."""
        if not covered.size:
            return []
        owned = self.bundle_of >= 0
        return [int(i) for i in np.flatnonzero(owned & covered[self.bundle_of])]

    def narrowed(self, *, keep: Flags, covered: Flags, capacity: int) -> tuple[RecoveryProblem, Integers]:
        """The same problem for some of its queries [M], after some bundles [K] were restored, with another
        capacity and without placement. Also returns, for each remaining query, its index here.

        Queries that are whole already are left out, and f_k counts only those that remain.
        """
        rows = np.flatnonzero(keep & ~self.recovered(covered))
        columns = np.flatnonzero(~covered & self.needs[rows].any(axis=0))
        renumbered = np.full(self.needs.shape[1] + 1, -1, dtype=np.int64)
        renumbered[columns] = np.arange(len(columns))
        bundle_of = renumbered[self.bundle_of]
        members = np.flatnonzero(bundle_of >= 0)
        smaller = RecoveryProblem(
            queries=tuple(self.queries[i] for i in rows),
            priorities=self.priorities[rows],
            partitions=tuple(self.partitions[i] for i in members),
            costs=self.costs[members],
            bundle_of=bundle_of[members],
            needs=self.needs[np.ix_(rows, columns)],
            capacity=capacity,
            points=self.points,
        )
        return smaller, rows

    def value_of(self, queries: Iterable[int]) -> int:
        return int(sum(int(self.priorities[i]) for i in queries))
