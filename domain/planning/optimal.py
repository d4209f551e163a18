"""The optimal plan, by mixed-integer programming, with a proof or a gap."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np

from domain.planning.best_density import AdaptiveDensity
from domain.planning.fitting import Fitted, fit_packed
from domain.planning.moving import Moves
from domain.planning.placed_optimum import placed_optimum
from domain.planning.planner import PackingPlanner, Planner
from domain.planning.problem import RecoveryProblem
from domain.planning.proposal import Selection
from domain.planning.wave_program import WaveProgram


@dataclass(frozen=True)
class Optimal(Planner):
    """The solver starts from the plan of `first`, so the answer is never worse than that.

    time_limit: seconds; when it ends the search, the proposal carries the bound reached, and so the gap.
        Which plan that is then depends on the machine; a proven one has the same value everywhere.
    """

    time_limit: float = 10.0
    first: PackingPlanner = field(default_factory=AdaptiveDensity)
    name: ClassVar[str] = "optimal"

    def fit(self, problem: RecoveryProblem) -> Fitted:
        """On nodes, what is proven is the best plan that can be placed while what runs stays where it is."""
        selection = self.first.select(problem)
        found = placed_optimum(self.first.pack(problem, selection), time_limit=self.time_limit)
        order = _densest_first(problem, list(found.plan.order))
        proven = Selection(
            order=order,
            covered=problem.covered(order),
            candidates=selection.candidates,
            bound=float(found.plan.value) if found.proven else found.bound,
            proven=found.proven,
            note="proven optimal, placement included"
            if found.proven
            else f"solver: {found.status}; nothing above {found.bound:g} can be placed",
        )
        return fit_packed(Moves(found.plan), proven)

    def select(self, problem: RecoveryProblem) -> Selection:
        start = self.first.select(problem)
        value = problem.value_of(start.order)
        if value == problem.total_priority or not (problem.query_cost <= problem.capacity).any():
            return Selection(
                order=start.order,
                covered=start.covered,
                bound=float(value),
                proven=True,
                note="proven: every query fits, or none does",
            )
        # Priorities are whole numbers: a bound less than one above the value proves it.
        program = WaveProgram(
            problem,
            capacities=[problem.capacity],
            weights=[1.0],
            time_limit=self.time_limit,
            absolute_gap=1.0 - 1e-6,
        )
        suggestion = np.zeros((1, len(problem.queries)), dtype=bool)
        suggestion[0, list(start.order)] = True
        program.suggest(suggestion)
        solved = program.solve()
        order = start.order
        if solved.recovered is not None:
            whole = np.flatnonzero(problem.recovered(problem.covered(np.flatnonzero(solved.recovered[0]))))
            if problem.value_of(whole) > value:
                order = _densest_first(problem, whole.tolist())
                value = problem.value_of(order)
        bound = max(float(value), min(solved.bound, float(problem.total_priority)))
        proven = bound < value + 1 - 1e-7
        return Selection(
            order=order,
            covered=problem.covered(order),
            bound=float(value) if proven else bound,
            proven=proven,
            note="proven optimal"
            if proven
            else f"solver: {solved.status}; nothing above {bound:g} is possible",
        )


def _densest_first(problem: RecoveryProblem, queries: list[int]) -> tuple[int, ...]:
    """An order in which the explanation reads like a plan."""
    density = problem.priorities / np.maximum(problem.query_weight, 1e-9)
    return tuple(sorted(queries, key=lambda i: (-density[i], i)))
