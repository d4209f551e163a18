"""One or several waves as a mixed-integer program, solved by HiGHS.

    maximise  sum_t weight_t sum_i priority_i x_it
    where     x_it <= y_kt                  for every bundle k that query i needs
              y_kt <= y_k(t+1)              what is restored stays
              sum_k cost_k y_kt <= capacity_t
              sum_i priority_i x_i0 >= floor
              x binary, 0 <= y <= 1

The y need not be declared integer: for given x, the cheapest y is. With one wave of weight 1 this is the
recovery scheduling problem itself.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from domain.binary_program import EXACT, BinaryProgram
from domain.planning.problem import Flags, RecoveryProblem

# How often a solution that exceeds a capacity by less than the solver's tolerance is excluded.
MAX_CUTS = 20


@dataclass(frozen=True, slots=True)
class Solved:
    """recovered[T, M] per wave, or None if no feasible solution was found; an upper bound of the
    objective; and the solver's word for how it ended."""

    recovered: Flags | None
    bound: float
    status: str


class WaveProgram:
    """The program above. Columns: per wave the queries, then the bundles.

    capacities: grains, one per wave, not decreasing. weights: seconds each wave lasts, or 1.
    floor: least priority the first wave must recover.
    absolute_gap: solutions this close to the bound count as optimal.
    time_limit: seconds. node_limit: nodes of the search tree; unlike time, it gives the same answer anywhere.
    """

    def __init__(
        self,
        problem: RecoveryProblem,
        *,
        capacities: Sequence[int],
        weights: Sequence[float],
        time_limit: float,
        absolute_gap: float,
        floor: int = 0,
        node_limit: int | None = None,
    ) -> None:
        self.problem = problem
        self.capacities = list(capacities)
        self.queries, self.bundles = problem.needs.shape
        self.width = self.queries + self.bundles
        options = {**EXACT, "mip_abs_gap": absolute_gap, "time_limit": float(time_limit)}
        if node_limit is not None:
            options["mip_max_nodes"] = node_limit
        objective = np.zeros((len(self.capacities), self.width))
        objective[:, : self.queries] = np.asarray(weights)[:, None] * problem.priorities
        columns = np.arange(objective.size).reshape(objective.shape)
        binary = columns[:, : self.queries].reshape(-1)
        self.program = BinaryProgram(objective.reshape(-1), binary, options)
        self._pass_rows(floor)

    def _pass_rows(self, floor: int) -> None:
        query, bundle = np.nonzero(self.problem.needs)
        cost = self.problem.bundle_cost.astype(np.float64)
        bundles = np.arange(self.bundles)
        for wave, capacity in enumerate(self.capacities):
            first = wave * self.width
            self.program.at_most_each(first + query, first + self.queries + bundle)
            if wave:
                earlier = first - self.width + self.queries + bundles
                self.program.at_most_each(earlier, first + self.queries + bundles)
            unit = float(max(1, capacity))
            self.program.row(first + self.queries + bundles, cost / unit, upper=capacity / unit)
        if floor > 0:
            priority = self.problem.priorities.astype(np.float64)
            self.program.row(np.arange(self.queries), priority, lower=float(floor))

    def suggest(self, recovered: Flags) -> None:
        """A first solution: the queries whole in each wave [T, M]."""
        values = np.zeros((len(self.capacities), self.width))
        values[:, : self.queries] = recovered
        for wave, row in enumerate(recovered):
            values[wave, self.queries :] = self.problem.covered(np.flatnonzero(row))
        self.program.suggest(values.reshape(-1))

    def solve(self) -> Solved:
        """Run the solver until its solution holds in exact arithmetic."""
        bound, status = float("inf"), "not started"
        for _ in range(MAX_CUTS):
            solved = self.program.solve()
            bound, status = solved.bound, solved.status
            if solved.values is None:
                break
            chosen = solved.values.reshape(len(self.capacities), self.width)[:, : self.queries] > 0.5
            chosen = np.logical_or.accumulate(chosen, axis=0)
            too_much = [wave for wave, plan in enumerate(chosen) if self._exceeds(wave, plan)]
            if not too_much:
                return Solved(chosen, bound, status)
            # Over by less than the tolerance: exclude these sets, and so every larger one.
            for wave in too_much:
                members = np.flatnonzero(chosen[wave])
                self.program.row(wave * self.width + members, np.ones(len(members)), upper=len(members) - 1.0)
        return Solved(None, bound, status)

    def _exceeds(self, wave: int, plan: Flags) -> bool:
        return self.problem.cost_of(np.flatnonzero(plan)) > self.capacities[wave]
