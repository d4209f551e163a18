"""Mixed-integer programs over columns from 0 to 1, solved by HiGHS. The same program has the same solution on
every machine, unless a time limit ends the search."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import highspy
import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Integers = NDArray[np.integer[Any]]

INFINITY: float = highspy.kHighsInf
TOLERANCE = 1e-9
EXACT = {
    "mip_rel_gap": 0.0,
    "mip_feasibility_tolerance": TOLERANCE,
    "primal_feasibility_tolerance": TOLERANCE,
}
"""Options for a solution that is proven up to `mip_abs_gap`."""


@dataclass(frozen=True, slots=True)
class Solution:
    """values: of the columns, None if no feasible ones were found. value: what they are worth. bound: nothing
    is worth more. status: the solver's word for how it ended."""

    values: Floats | None
    value: float
    bound: float
    status: str


class BinaryProgram:
    """Maximises the sum of `objective` (by column) times the columns, within the rows that are added.

    binary: the columns that are 0 or 1; the others may be anything between. options: of HiGHS, by name.
    """

    def __init__(self, objective: Floats, binary: Integers, options: Mapping[str, float]) -> None:
        self.solver = highspy.Highs()  # type: ignore[no-untyped-call]
        for option, value in {"output_flag": False, "threads": 1, "random_seed": 0, **options}.items():
            self.solver.setOptionValue(option, value)
        total, whole = len(objective), np.ascontiguousarray(binary, dtype=np.int32)
        self.solver.addVars(total, np.zeros(total), np.ones(total))
        kinds = np.full(len(whole), highspy.HighsVarType.kInteger)
        self.solver.changeColsIntegrality(len(whole), whole, kinds)
        self.solver.changeColsCost(total, np.arange(total, dtype=np.int32), objective)
        self.solver.changeObjectiveSense(highspy.ObjSense.kMaximize)

    @property
    def seconds(self) -> float:
        """What all runs of the solver have taken so far; a time limit is for one run."""
        return float(self.solver.getRunTime())

    def row(
        self,
        columns: Sequence[int] | Integers,
        values: Sequence[float] | Floats,
        *,
        lower: float = -INFINITY,
        upper: float = INFINITY,
    ) -> None:
        """The sum of `values` times these columns is to be from `lower` to `upper`."""
        indices, shares = np.asarray(columns, dtype=np.int32), np.asarray(values, dtype=np.float64)
        self.solver.addRow(lower, upper, len(indices), indices, shares)

    def at_most_each(self, left: Integers, right: Integers) -> None:
        """A row for every j: column left[j] <= column right[j]."""
        rows = len(left)
        columns = np.stack([left, right], axis=1).reshape(-1).astype(np.int32)
        begins = np.arange(0, 2 * rows, 2, dtype=np.int32)
        signs = np.tile([1.0, -1.0], rows)
        infinite = np.full(rows, -INFINITY)
        self.solver.addRows(rows, infinite, np.zeros(rows), 2 * rows, begins, columns, signs)

    def suggest(self, values: Floats) -> None:
        """A first solution, by column."""
        solution = highspy.HighsSolution()
        solution.col_value = values.tolist()
        self.solver.setSolution(solution)

    def solve(self, time_limit: float | None = None) -> Solution:
        """Run for at most so many seconds; None: as long as the options permit."""
        if time_limit is not None:
            self.solver.setOptionValue("time_limit", time_limit)
        self.solver.run()
        info = self.solver.getInfo()
        status = str(self.solver.modelStatusToString(self.solver.getModelStatus()))
        values = np.asarray(self.solver.getSolution().col_value)
        feasible = info.primal_solution_status == highspy.kSolutionStatusFeasible and values.size
        return Solution(
            values=values if feasible else None,
            value=float(info.objective_function_value),
            bound=float(info.mip_dual_bound),
            status=status,
        )
