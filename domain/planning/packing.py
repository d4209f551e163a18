"""Choosing and placing at once: from a plan that fits the sum of what is free to one that fits the nodes.

What fits in sum may fit on no single node, and where partitions are large for the room that nodes have, most
plans of an algorithm that knows the sum only cannot be placed. So here every query is judged by whether what
it needs can be placed together with what was chosen before it (`rooms`).

1. *Starts.* The plans of the algorithm are taken over as far as they can be placed, and filled up by density.
   The empty plan is filled up with three densities: that of the paper, one in which a
   partition counts more the fewer nodes have room for it, and one without shares.
2. *Exchanges.* Of the best plan, one or two queries are given up for one that is out, or for whatever else
   has room, and the rest is filled up again; the first exchange that gains is made, until none does.

Of plans worth the same, the one that takes least stays. Work is bounded by steps (`Effort`).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import combinations

import numpy as np

from domain.planning.packed_plan import Layout, PackedPlan
from domain.planning.problem import RecoveryProblem
from domain.planning.rooms import Effort

EFFORT = 250_000
# Plans of the same value that are kept for a caller who can tell them apart.
TIES = 24


def packed(problem: RecoveryProblem, starts: Sequence[Sequence[int]]) -> PackedPlan:
    """The best plan found that has a node for everything.

    starts: plans to begin with, each as the queries in the order to take them.
    """
    return _Search(problem).best_from(starts)


def packed_ties(problem: RecoveryProblem, starts: Sequence[Sequence[int]]) -> list[PackedPlan]:
    """That plan, and then others that were met on the way and are worth as much."""
    search = _Search(problem)
    best = search.best_from(starts)
    return [best, *(plan for plan in search.ties.values() if plan is not best)]


def take_over(layout: Layout, queries: Sequence[int]) -> PackedPlan:
    """A plan of these queries, as far as they can be placed, filled up by density."""
    plan = PackedPlan(layout, Effort(EFFORT))
    plan.take_together(queries)
    plan.fill(layout.problem.bundle_weight.tolist())
    return plan


def densities(layout: Layout) -> tuple[list[float], list[float]]:
    """What each bundle counts in a density [K]: after Definition 3, and by how scarce room for it is."""
    return layout.problem.bundle_weight.tolist(), _scarcity(layout)


class _Search:
    """best: so far. ties: different plans that are worth as much."""

    def __init__(self, problem: RecoveryProblem) -> None:
        self.layout = Layout.of(problem)
        self.effort = Effort(EFFORT)
        self.shares, self.scarcity = densities(self.layout)
        self.best = PackedPlan(self.layout, self.effort)
        self.ties: dict[frozenset[int], PackedPlan] = {}

    def best_from(self, starts: Sequence[Sequence[int]]) -> PackedPlan:
        for queries in starts:
            self._begin(queries, self.shares)
        for weight in (self.scarcity, self.shares, self.layout.bundle_cost):
            if self.effort.left > 0:
                self._begin((), weight)
        while self._exchange():
            pass
        return self.best

    def _begin(self, queries: Sequence[int], weight: Sequence[float]) -> None:
        plan = PackedPlan(self.layout, self.effort)
        plan.take_together(queries)
        plan.fill(weight)
        self._offer(plan)

    def _offer(self, plan: PackedPlan) -> bool:
        """Whether this plan is better than all before; at the same value, because it takes less."""
        if plan.value > self.best.value:
            self.ties.clear()
        if plan.value >= self.best.value and len(self.ties) < TIES:
            self.ties.setdefault(frozenset(plan.order), plan)
        if (plan.value, plan.left) <= (self.best.value, self.best.left):
            return False
        self.best = plan
        return True

    def _exchange(self) -> bool:
        """Make one exchange that gains; False if there is none, or the effort is spent."""
        plan, priorities = self.best, self.layout.priorities
        inside = sorted(plan.order, key=lambda query: (priorities[query], query))
        outside = [query for query in range(len(priorities)) if query not in plan.order]
        if not outside:
            return False
        for given_up in _one_or_two(inside):
            for wanted in (*outside, None):
                if self.effort.left <= 0:
                    return False
                trial = plan.copy()
                for query in given_up:
                    trial.drop(query)
                if wanted is not None and not trial.add(wanted):
                    continue
                barred = given_up if wanted is None else ()
                for weight in (self.shares, self.scarcity):
                    filled = trial.copy()
                    filled.fill(weight, barred)
                    if self._offer(filled):
                        return True
        return False


def _one_or_two(queries: Sequence[int]) -> Iterator[tuple[int, ...]]:
    for query in queries:
        yield (query,)
    yield from combinations(queries, 2)


def _scarcity(layout: Layout) -> list[float]:
    """Room is counted in whole partitions of the same cost: what no node has room for is beyond any price."""
    free = np.array(layout.free, dtype=np.int64)
    offered = int(free.sum())
    counted: dict[int, float] = {}
    for cost in sorted(set(layout.costs)):
        usable = int((free // cost).sum()) * cost if cost else offered
        counted[cost] = cost * offered / usable if usable else float(offered + 1)
    return [
        sum(counted[layout.costs[partition]] for partition in members) / max(1, len(needing))
        for members, needing in zip(layout.members, layout.needing, strict=True)
    ]
