"""Greedy extension by profit density, for many candidate plans at once.

This is the inner loop of Algorithm 3 (lines 20 to 31): a candidate plan takes, again and again, the failed
query with the highest priority per cost that still fits, where covered partitions cost nothing. All
candidates advance in step, one query each, over arrays [candidates, queries]; covering a bundle changes
only the entries of the queries that share it.

All quantities are whole numbers below 2**53 held in floats, so updates are exact and the result does not
depend on the order of additions.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from domain.planning.problem import Flags, Floats, Integers, RecoveryProblem

# The density of a query that may not be taken.
NEVER = -1.0
NO_START: Integers = np.zeros((1, 0), dtype=np.int64)


@dataclass(frozen=True, slots=True)
class Extended:
    """Finished candidates: chosen[B, M], value[B], used[B] in grains, and the first one's queries in the
    order they were taken."""

    chosen: Flags
    value: Integers
    used: Integers
    order: tuple[int, ...]


class GreedyExtension:
    """The extension step over one problem; build once, run for any number of starting plans.

    weight: what each bundle counts in a density [K], default its cost divided by f_k (Definition 3).
    """

    def __init__(self, problem: RecoveryProblem, weight: Floats | None = None) -> None:
        self.problem = problem
        self.queries, self.bundles = problem.needs.shape
        self.priority: Floats = problem.priorities.astype(np.float64)
        self.cost: Floats = problem.bundle_cost.astype(np.float64)
        self.weight: Floats = problem.bundle_weight if weight is None else weight
        self.query_cost: Floats = problem.query_cost.astype(np.float64)
        self.query_weight: Floats = problem.query_weight if weight is None else problem.needed.sums(weight)
        self.capacity = float(problem.capacity)

    def run(self, starts: Integers = NO_START) -> Extended:
        """Extend each row of `starts` [B, s] (query indices) until nothing fits. Rows must fit themselves."""
        batch = _Batch(self, len(starts))
        order: list[int] = []
        for column in starts.T:
            batch.take(np.arange(len(starts)), column)
            order.append(int(column[0]))
        return batch.extend(order)

    def without_each(self, plan: Integers, given_up: Integers) -> Extended:
        """For each of these queries of a plan: give it up, and extend the rest without taking it back."""
        batch = _Batch(self, len(given_up))
        batch.begin_with(plan)
        batch.give_up(plan, given_up)
        return batch.extend([])

    def order_of(self, plan: Integers) -> tuple[int, ...]:
        """The queries of a plan that fits, in the order the greedy would take them."""
        batch = _Batch(self, 1)
        barred = np.ones(self.queries, dtype=bool)
        barred[plan] = False
        batch.density[:, barred] = NEVER
        return batch.extend([]).order


class _Batch:
    """Candidates being extended: remaining cost, weight and density of every query for every candidate."""

    def __init__(self, parent: GreedyExtension, size: int) -> None:
        self.parent = parent
        with np.errstate(divide="ignore"):
            density = parent.priority / parent.query_weight
        self.cost = np.tile(parent.query_cost, (size, 1))
        self.weight = np.tile(parent.query_weight, (size, 1))
        self.density = np.tile(density, (size, 1))
        self.covered = np.zeros((size, parent.bundles), dtype=bool)
        self.chosen = np.zeros((size, parent.queries), dtype=bool)
        self.used = np.zeros(size)

    def take(self, rows: Integers, picked: Integers) -> None:
        """Add query `picked[i]` to candidate `rows[i]`."""
        parent = self.parent
        self.used[rows] += self.cost[rows, picked]
        self.chosen[rows, picked] = True
        self.density[rows, picked] = NEVER
        bundle, origin = parent.problem.needed.gather(picked)
        row = rows[origin]
        fresh = ~self.covered[row, bundle]
        bundle, row = bundle[fresh], row[fresh]
        self.covered[row, bundle] = True
        self._adjust(row, bundle, np.subtract)

    def begin_with(self, plan: Integers) -> None:
        """Start every candidate, all still empty, with the same plan."""
        parent = self.parent
        covered = parent.problem.covered(plan)
        missing = (~covered).astype(np.float64)
        self.cost[:] = parent.problem.needed.sums(parent.cost * missing)
        self.weight[:] = parent.problem.needed.sums(parent.weight * missing)
        with np.errstate(divide="ignore"):
            self.density[:] = parent.priority / self.weight[0]
        self.density[:, plan] = NEVER
        self.chosen[:, plan] = True
        self.covered[:] = covered
        self.used[:] = parent.cost[covered].sum()

    def give_up(self, plan: Integers, given_up: Integers) -> None:
        """Take `given_up[i]` out of candidate i, all of which hold exactly `plan`; it stays barred."""
        parent = self.parent
        holders = parent.problem.needed.counts(plan, parent.bundles)
        bundle, row = parent.problem.needed.gather(given_up)
        freed = holders[bundle] == 1
        bundle, row = bundle[freed], row[freed]
        self.covered[row, bundle] = False
        np.subtract.at(self.used, row, parent.cost[bundle])
        self._adjust(row, bundle, np.add)
        self.chosen[np.arange(len(given_up)), given_up] = False

    def _adjust(self, row: Integers, bundle: Integers, change: np.ufunc) -> None:
        """Change what the queries that need these bundles still cost, in these candidates."""
        if not bundle.size:
            return
        parent = self.parent
        query, origin = parent.problem.needing.gather(bundle)
        bundle = bundle[origin]
        flat = row[origin] * parent.queries + query
        weight, density = self.weight.reshape(-1), self.density.reshape(-1)
        change.at(self.cost.reshape(-1), flat, parent.cost[bundle])
        change.at(weight, flat, parent.weight[bundle])
        open_entries = density[flat] >= 0
        flat, query = flat[open_entries], query[open_entries]
        with np.errstate(divide="ignore"):
            density[flat] = parent.priority[query] / weight[flat]

    def extend(self, order: list[int]) -> Extended:
        """Until no candidate can grow. Finished candidates leave the arrays when they are the majority."""
        size = len(self.used)
        chosen = np.zeros((size, self.parent.queries), dtype=bool)
        used = np.zeros(size)
        rows = np.arange(size)
        active = np.arange(size)
        while active.size:
            if 2 * active.size < rows.size:
                chosen[rows], used[rows] = self.chosen, self.used
                self._keep(active)
                rows, active = rows[active], np.arange(active.size)
            left = self.parent.capacity - self.used
            eligible = np.where(self.cost <= left[:, None], self.density, NEVER)
            picked = eligible.argmax(axis=1)
            active = np.flatnonzero(eligible[np.arange(len(picked)), picked] >= 0)
            if active.size:
                self.take(active, picked[active])
                if rows[active[0]] == 0:
                    order.append(int(picked[active[0]]))
        chosen[rows], used[rows] = self.chosen, self.used
        value = np.rint(chosen @ self.parent.priority).astype(np.int64)
        return Extended(chosen, value, used.astype(np.int64), tuple(order))

    def _keep(self, rows: Integers) -> None:
        self.cost, self.weight, self.density = self.cost[rows], self.weight[rows], self.density[rows]
        self.covered, self.chosen, self.used = self.covered[rows], self.chosen[rows], self.used[rows]
