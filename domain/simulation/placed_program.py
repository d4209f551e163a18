"""The best schedule that can be placed: every partition on one node, no node above its bound, all waves at
once, as a mixed-integer program solved by HiGHS.

`LookAhead.clairvoyant` counts capacity in sum, which promises what no placement can keep where partitions
are large for their nodes. Here

    maximise  sum_t length_t sum_i priority_i y_it
    where     y_it <= sum of x_pn over nodes n that are there at t    for every partition p that query i needs
              sum_n x_pn <= 1,   sum_p cost_p x_pn <= room_n
              x binary, 0 <= y <= 1

A partition on a node is restored when the node comes: sooner is always better, so nothing else is to decide.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import highspy
import numpy as np

from domain.planning import RecoveryProblem
from domain.simulation.fluid import Floats, Integers


@dataclass(frozen=True, slots=True)
class Room:
    """A node: from `at` seconds on it can take partitions of `grains` in sum (see `GRAIN`)."""

    at: float
    grains: int


@dataclass(frozen=True, slots=True)
class PlacedSchedule:
    """restored_at[P]: seconds for each partition of the problem, infinite if it stays down. area: priority
    times seconds up to the horizon; bound: what no schedule exceeds."""

    restored_at: Floats
    area: float
    bound: float

    @property
    def proven(self) -> bool:
        return self.area >= self.bound * (1 - 1e-6)


def program_size(problem: RecoveryProblem, rooms: Sequence[Room]) -> int:
    """Number of columns, roughly what solving costs."""
    moments = len({room.at for room in rooms})
    return len(problem.partitions) * len(rooms) + len(problem.queries) * moments


def placed_schedule(
    problem: RecoveryProblem,
    rooms: Sequence[Room],
    *,
    horizon: float,
    node_limit: int,
    time_limit: float,
) -> PlacedSchedule | None:
    """Solve it; None if no solution was found within the limits.

    node_limit: of the search tree, the same everywhere; time_limit: seconds, the emergency brake.
    """
    if not rooms:
        return PlacedSchedule(np.full(len(problem.partitions), np.inf), area=0.0, bound=0.0)
    moments = np.array(sorted({room.at for room in rooms}))
    lengths = np.diff([*moments, max(horizon, float(moments[-1]))])
    partitions, queries = len(problem.partitions), len(problem.queries)
    placing = partitions * len(rooms)
    solver = highspy.Highs()  # type: ignore[no-untyped-call]
    for option, value in (
        ("output_flag", False),
        ("threads", 1),
        ("random_seed", 0),
        ("mip_rel_gap", 1e-6),
        ("mip_max_nodes", node_limit),
        ("time_limit", float(time_limit)),
    ):
        solver.setOptionValue(option, value)
    total = placing + queries * len(moments)
    solver.addVars(total, np.zeros(total), np.ones(total))
    binary = np.arange(placing, dtype=np.int32)
    solver.changeColsIntegrality(placing, binary, np.full(placing, highspy.HighsVarType.kInteger))
    weights = (problem.priorities.astype(np.float64)[:, None] * lengths).reshape(-1)
    columns = np.arange(placing, total, dtype=np.int32)
    solver.changeColsCost(len(columns), columns, weights)
    solver.changeObjectiveSense(highspy.ObjSense.kMaximize)

    def row(chosen: Integers, values: Floats, upper: float) -> None:
        solver.addRow(-highspy.kHighsInf, upper, len(chosen), chosen.astype(np.int32), values)

    for partition in range(partitions):
        row(partition * len(rooms) + np.arange(len(rooms)), np.ones(len(rooms)), 1.0)
    for node, room in enumerate(rooms):
        unit = float(max(1, room.grains))
        row(np.arange(partitions) * len(rooms) + node, problem.costs / unit, room.grains / unit)
    owned = problem.bundle_of >= 0
    needs = [np.flatnonzero(problem.needs[query][problem.bundle_of] & owned) for query in range(queries)]
    for moment, at in enumerate(moments):
        there = np.array([node for node, room in enumerate(rooms) if room.at <= at], dtype=np.int64)
        signs = np.concatenate(([1.0], -np.ones(len(there))))
        for query in range(queries):
            whole = placing + query * len(moments) + moment
            for needed in needs[query]:
                row(np.concatenate(([whole], needed * len(rooms) + there)), signs, 0.0)
    solver.run()
    info = solver.getInfo()
    values = np.asarray(solver.getSolution().col_value)
    if info.primal_solution_status != highspy.kSolutionStatusFeasible or not values.size:
        return None
    placed = values[:placing].reshape(partitions, len(rooms)) > 0.5
    arrivals = np.array([room.at for room in rooms])
    restored = np.where(placed, arrivals, np.inf).min(axis=1, initial=np.inf)
    return PlacedSchedule(restored, float(info.objective_function_value), float(info.mip_dual_bound))
