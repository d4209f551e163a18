"""BestDensity (incremental recovery, Algorithm 3), the greedy it grew out of, and the search beyond it.

Algorithm 3 starts one candidate plan from the densest query and one from each pair of queries, extends each
by profit density and keeps the best: O(M^2) greedy runs of up to M steps. While that is at most `exact_work`
steps times queries, every candidate is run, in batches. Above it `adaptive_search` takes over, whose number
of candidates is bounded; docs/planning.md has the comparison.

One thing is added to the paper. Its candidates hold a single query only where that is the densest one. With
a query of priority 1 and cost 1, another of priority 8 and cost 9, and a capacity of 9, they recover a value
of 1, and Theorem 5.1 promises more. So every single query starts a candidate too, after all others: the
result differs from the paper's only where it is better.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from domain.planning.adaptive_search import WORK, adaptive_search
from domain.planning.candidates import Candidates, in_batches
from domain.planning.greedy import GreedyExtension
from domain.planning.planner import PackingPlanner, Planner
from domain.planning.problem import Integers, RecoveryProblem
from domain.planning.proposal import Selection

EXACT_WORK = 50_000_000


class ProfitDensity(Planner):
    """The first paper's greedy: always the densest query that fits, from an empty plan."""

    name = "profit_density"

    def select(self, problem: RecoveryProblem) -> Selection:
        found = GreedyExtension(problem).run()
        return Selection(order=found.order, covered=problem.covered(found.order))


@dataclass(frozen=True)
class BestDensity(PackingPlanner):
    """exact_work: run all candidates while candidates x steps x queries stay below; about half a second.
    singles: False leaves the single queries out, to the letter of the paper.
    """

    exact_work: int = EXACT_WORK
    singles: bool = True
    name: ClassVar[str] = "best_density"

    def select(self, problem: RecoveryProblem) -> Selection:
        found = enumerated(problem, limit=self.exact_work, singles=self.singles)
        return found or adaptive_search(problem)


@dataclass(frozen=True)
class AdaptiveDensity(PackingPlanner):
    """The better of `best_density` and the adaptive search: the best plan without a solver."""

    work: int = WORK
    name: ClassVar[str] = "adaptive_density"

    def select(self, problem: RecoveryProblem) -> Selection:
        paper = enumerated(problem, limit=EXACT_WORK)
        search = adaptive_search(problem, self.work)
        if paper is None or problem.value_of(paper.order) < problem.value_of(search.order):
            return search
        return paper


def enumerated(problem: RecoveryProblem, *, limit: int, singles: bool = True) -> Selection | None:
    """Algorithm 3 in full, or None if that is more work than the limit."""
    extension = GreedyExtension(problem)
    first = extension.run()
    best = Candidates(problem)
    best.offer(first)
    queries = len(problem.queries)
    if len(first.order) == queries:
        return best.selection(first.order)
    if queries * queries * (queries + 1) // 2 * max(1, len(first.order)) > limit:
        return None
    start: Integers | None = None
    families = [_fitting_pairs(problem)]
    if singles:
        families.append(np.flatnonzero(problem.query_cost <= problem.capacity)[:, None])
    for family in families:
        for starts in in_batches(family, queries):
            found = extension.run(starts)
            if best.offer(found):
                start = starts[int(found.value.argmax())]
    return best.selection(first.order if start is None else extension.run(start[None, :]).order)


def _fitting_pairs(problem: RecoveryProblem) -> Integers:
    """All pairs of queries whose joint cost is within the capacity, in name order [B, 2]."""
    needs = problem.needs.astype(np.float64)
    joint = (needs * problem.bundle_cost) @ needs.T
    first, second = np.triu_indices(len(problem.queries), 1)
    cost = problem.query_cost[first] + problem.query_cost[second] - np.rint(joint[first, second])
    fits = cost <= problem.capacity
    return np.stack([first[fits], second[fits]], axis=1)
