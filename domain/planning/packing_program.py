"""One wave with placement as a mixed-integer program, solved by HiGHS.

    maximise  sum_i priority_i x_i
    where     x_i <= y_k                                   for every bundle k that query i needs
              sum_n z_pn >= y_k                            for every partition p of bundle k
              sum_p cost_p z_pn <= room_n                  for every node n
              x, z binary, 0 <= y <= 1

Without the z it is a relaxation that is solved much faster. Two rows for each of some sizes s make it tight:
partitions of at least s need nodes with room for one, and a node with room r takes floor(r / s) of them.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from domain.binary_program import EXACT, BinaryProgram
from domain.planning.packed_plan import Layout

# Sizes that get rows, spread evenly over those that occur.
SIZES = 40


@dataclass(frozen=True, slots=True)
class Placed:
    """queries, None if no solution was found; the node of each partition that was placed; an upper bound of
    the priority; and the solver's word for how it ended."""

    queries: list[int] | None
    where: dict[int, int]
    bound: float
    status: str


class PackingProgram:
    """Columns: the queries, the bundles and, with `placing`, each partition on each node with room for it."""

    def __init__(self, layout: Layout, *, placing: bool) -> None:
        self.layout = layout
        self.queries, self.bundles = len(layout.needed), len(layout.members)
        self.pairs = pairs_of(layout) if placing else []
        self.first_pair = self.queries + self.bundles
        objective = np.zeros(self.first_pair + len(self.pairs))
        objective[: self.queries] = layout.priorities
        columns = np.arange(len(objective))
        binary = np.concatenate((columns[: self.queries], columns[self.first_pair :]))
        # Priorities are whole numbers: a bound less than one above the value proves it.
        self.program = BinaryProgram(objective, binary, {**EXACT, "mip_abs_gap": 1.0 - 1e-6})
        for query, needed in enumerate(layout.needed):
            for bundle in needed:
                self.program.row([query, self.queries + bundle], [1.0, -1.0], upper=0.0)
        self._pass_sizes()
        if self.pairs:
            self._pass_placing()

    @property
    def seconds(self) -> float:
        """What all runs of the solver have taken so far; its limit is for one run."""
        return self.program.seconds

    def suggest(self, queries: Collection[int], where: Mapping[int, int]) -> None:
        """A first solution: queries, and the node of each of their partitions."""
        values = np.zeros(self.first_pair + len(self.pairs))
        for query in queries:
            values[query] = 1.0
            values[self.queries + np.array(self.layout.needed[query], dtype=np.int64)] = 1.0
        for column, (partition, node) in enumerate(self.pairs, start=self.first_pair):
            values[column] = where.get(partition) == node
        self.program.suggest(values)

    def exclude(self, queries: Sequence[int]) -> None:
        """These cannot all be placed together."""
        self.program.row(queries, [1.0] * len(queries), upper=len(queries) - 1.0)

    def solve(self, time_limit: float) -> Placed:
        """Run for at most so many seconds."""
        solved = self.program.solve(time_limit)
        if solved.values is None:
            return Placed(None, {}, solved.bound, solved.status)
        chosen = np.flatnonzero(solved.values > 0.5)
        where = dict(self.pairs[column - self.first_pair] for column in chosen[chosen >= self.first_pair])
        return Placed(chosen[chosen < self.queries].tolist(), where, solved.bound, solved.status)

    def _pass_sizes(self) -> None:
        layout = self.layout
        free = np.array(layout.free, dtype=np.int64)
        costs = [np.array([layout.costs[p] for p in members], dtype=np.int64) for members in layout.members]
        sizes = np.unique(np.concatenate([*costs, np.zeros(0, dtype=np.int64)]))
        sizes = sizes[sizes > 0]
        if len(sizes) > SIZES:
            sizes = sizes[np.unique(np.linspace(0, len(sizes) - 1, SIZES).astype(np.int64))]
        columns = list(range(self.queries, self.first_pair))
        for size in sizes.tolist():
            room = float(free[free >= size].sum())
            unit = max(1.0, room)
            self.program.row(columns, [float(c[c >= size].sum()) / unit for c in costs], upper=room / unit)
            self.program.row(
                columns, [float((c >= size).sum()) for c in costs], upper=float((free // size).sum())
            )

    def _pass_placing(self) -> None:
        layout = self.layout
        of_partition: dict[int, list[int]] = {}
        of_node: dict[int, list[int]] = {}
        for column, (partition, node) in enumerate(self.pairs, start=self.first_pair):
            of_partition.setdefault(partition, []).append(column)
            of_node.setdefault(node, []).append(column)
        for bundle, members in enumerate(layout.members):
            for partition in members:
                mine = of_partition.get(partition, [])
                self.program.row([*mine, self.queries + bundle], [*[1.0] * len(mine), -1.0], lower=0.0)
        for node, mine in of_node.items():
            unit = float(max(1, layout.free[node]))
            costs = [layout.costs[self.pairs[column - self.first_pair][0]] / unit for column in mine]
            self.program.row(mine, costs, upper=layout.free[node] / unit)


def pairs_of(layout: Layout) -> list[tuple[int, int]]:
    """Every partition that a query needs with every node that has room for it."""
    return [
        (partition, node)
        for members in layout.members
        for partition in members
        for node, room in enumerate(layout.free)
        if layout.costs[partition] <= room
    ]
