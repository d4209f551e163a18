"""The exact algorithm of the paper (Algorithm 4): every feasible expansion of every plan.

The paper raises the resource usage unit by unit and expands the plans whose cost is reached. The order
changes nothing about which plans exist, so plans are expanded here by number of queries, which needs no unit
and vectorises: every feasible set of queries is made once, by adding a query behind its last one. Plans
whose value and the fractional knapsack of what may still be added cannot beat the best known are dropped
(sum over a plan of the shares c_k / f_k never exceeds its cost, so the bound is sound).

Exponential in the number of queries all the same: meant for comparisons of up to about twenty queries.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from domain.planning.greedy import GreedyExtension
from domain.planning.planner import Planner
from domain.planning.problem import Flags, Floats, Integers, RecoveryProblem
from domain.planning.proposal import Selection


class TooManyPlansError(RuntimeError):
    """There are more than `max_plans`."""


@dataclass(frozen=True)
class DynamicProgramming(Planner):
    """max_plans, max_entries: raise `TooManyPlansError` rather than make more plans, or more entries of them,
    one for each query and bundle: a wave waits for its plan. So many take some seconds."""

    max_plans: int = 300_000
    max_entries: int = 20_000_000
    name: ClassVar[str] = "dynamic_programming"

    def select(self, problem: RecoveryProblem) -> Selection:
        queries = len(problem.queries)
        order, upper = _density_order(problem)
        needs = problem.needs[order]
        priority = problem.priorities[order].astype(np.int64)
        shares = problem.query_weight[order]
        budget = float(problem.capacity) * problem.weight_scale

        first = GreedyExtension(problem).run()
        best_value, best_plan = int(first.value[0]), first.order
        plans = _Plans.empty(queries, needs.shape[1])
        most = min(self.max_plans, self.max_entries // sum(needs.shape))
        count = 1
        while plans.size:
            left = most - count
            plans = plans.expanded(needs, problem.bundle_cost, priority, shares, problem.capacity, left)
            if not plans.size:
                break
            count += plans.size
            top = int(plans.value.argmax())
            if int(plans.value[top]) > best_value:
                best_value = int(plans.value[top])
                best_plan = tuple(int(order[i]) for i in np.flatnonzero(plans.members[top]))
            plans = plans.only(plans.value + upper(plans.last + 1, budget - plans.share) > best_value + 1e-6)
        return Selection(
            order=best_plan,
            covered=problem.covered(best_plan),
            candidates=count,
            bound=float(best_value),
            proven=True,
            note=f"proven by enumeration of {count} plans",
        )


@dataclass(frozen=True, slots=True)
class _Plans:
    """Plans of one size: members[N, M], covered[N, K], cost, value, share and the last query added [N]."""

    members: Flags
    covered: Flags
    cost: Integers
    value: Integers
    share: Floats
    last: Integers

    @classmethod
    def empty(cls, queries: int, bundles: int) -> _Plans:
        zero = np.zeros(1, dtype=np.int64)
        members, covered = np.zeros((1, queries), bool), np.zeros((1, bundles), bool)
        return cls(members, covered, zero, zero, np.zeros(1), zero - 1)

    @property
    def size(self) -> int:
        return len(self.cost)

    def only(self, keep: Flags) -> _Plans:
        return _Plans(
            self.members[keep],
            self.covered[keep],
            self.cost[keep],
            self.value[keep],
            self.share[keep],
            self.last[keep],
        )

    def expanded(
        self,
        needs: Flags,
        bundle_cost: Integers,
        priority: Integers,
        shares: Floats,
        capacity: int,
        limit: int,
    ) -> _Plans:
        """All feasible plans with one query more. Raises `TooManyPlansError` for more than `limit`."""
        parts: list[_Plans] = []
        total = 0
        for query in range(len(priority)):
            base = self.only(self.last < query)
            if not base.size:
                continue
            added = (needs[query] & ~base.covered) @ bundle_cost
            base, added = base.only(base.cost + added <= capacity), added[base.cost + added <= capacity]
            total += base.size
            if total > limit:
                raise TooManyPlansError(
                    f"too many plans for {len(priority)} failed queries; use the planner `optimal` or "
                    "`best_density`"
                )
            members = base.members.copy()
            members[:, query] = True
            parts.append(
                _Plans(
                    members,
                    base.covered | needs[query],
                    base.cost + added,
                    base.value + priority[query],
                    base.share + shares[query],
                    np.full(base.size, query, dtype=np.int64),
                )
            )
        if not parts:
            return self.only(np.zeros(self.size, dtype=bool))
        return _Plans(
            np.concatenate([part.members for part in parts]),
            np.concatenate([part.covered for part in parts]),
            np.concatenate([part.cost for part in parts]),
            np.concatenate([part.value for part in parts]),
            np.concatenate([part.share for part in parts]),
            np.concatenate([part.last for part in parts]),
        )


class _Upper:
    """Fractional knapsack over the queries from an index on, densest first."""

    def __init__(self, shares: Floats, priority: Floats) -> None:
        self.shares = np.concatenate([[0.0], np.cumsum(shares)])
        self.values = np.concatenate([[0.0], np.cumsum(priority)])

    def __call__(self, begin: Integers, budget: Floats) -> Floats:
        room = self.shares[begin] + np.maximum(budget, 0.0)
        return np.interp(room, self.shares, self.values) - self.values[begin]


def _density_order(problem: RecoveryProblem) -> tuple[Integers, _Upper]:
    with np.errstate(divide="ignore"):
        density = problem.priorities / problem.query_weight
    order = np.argsort(-density, kind="stable")
    return order, _Upper(problem.query_weight[order], problem.priorities[order].astype(np.float64))
