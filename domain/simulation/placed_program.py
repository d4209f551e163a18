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

import numpy as np

from domain.binary_program import BinaryProgram
from domain.planning import RecoveryProblem
from domain.simulation.fluid import Floats


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
    weights = (problem.priorities.astype(np.float64)[:, None] * lengths).reshape(-1)
    program = BinaryProgram(
        np.concatenate((np.zeros(placing), weights)),
        np.arange(placing),
        {"mip_rel_gap": 1e-6, "mip_max_nodes": node_limit, "time_limit": float(time_limit)},
    )
    for partition in range(partitions):
        program.row(partition * len(rooms) + np.arange(len(rooms)), np.ones(len(rooms)), upper=1.0)
    for node, room in enumerate(rooms):
        unit = float(max(1, room.grains))
        mine = np.arange(partitions) * len(rooms) + node
        program.row(mine, problem.costs / unit, upper=room.grains / unit)
    owned = problem.bundle_of >= 0
    needs = [np.flatnonzero(problem.needs[query][problem.bundle_of] & owned) for query in range(queries)]
    for moment, at in enumerate(moments):
        there = np.array([node for node, room in enumerate(rooms) if room.at <= at], dtype=np.int64)
        signs = np.concatenate(([1.0], -np.ones(len(there))))
        for query in range(queries):
            whole = placing + query * len(moments) + moment
            for needed in needs[query]:
                program.row(np.concatenate(([whole], needed * len(rooms) + there)), signs, upper=0.0)
    solved = program.solve()
    if solved.values is None:
        return None
    placed = solved.values[:placing].reshape(partitions, len(rooms)) > 0.5
    arrivals = np.array([room.at for room in rooms])
    restored = np.where(placed, arrivals, np.inf).min(axis=1, initial=np.inf)
    return PlacedSchedule(restored, solved.value, solved.bound)
