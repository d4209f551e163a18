"""The operator-centric baseline (OC in incremental recovery, section 7): partitions, not queries.

Always restores the cheapest failed partition whose failed upstream partitions are all restored, as long as
one fits. A query comes back when the last of its partitions happens to be among them.
"""

from __future__ import annotations

import heapq
from collections.abc import Collection

import numpy as np

from domain.planning.planner import Planner
from domain.planning.problem import RecoveryProblem
from domain.planning.proposal import Selection


class OperatorCentric(Planner):
    """Without `problem.predecessors` every partition counts as ready from the start."""

    name = "operator_centric"

    def select(self, problem: RecoveryProblem) -> Selection:
        restored = restore_in_topological_order(problem)
        return partition_selection(problem, restored, note=f"{len(restored)} partitions in topological order")


def restore_in_topological_order(problem: RecoveryProblem) -> list[int]:
    """Partitions in the order they are restored; ties break by name.

    One that does not fit is passed over for good: capacity only shrinks. So are those behind it.
    """
    waiting = [len(above) for above in problem.predecessors] or [0] * len(problem.partitions)
    below: list[list[int]] = [[] for _ in problem.partitions]
    for partition, above in enumerate(problem.predecessors):
        for source in above:
            below[source].append(partition)
    ready = [(int(problem.costs[i]), i) for i, count in enumerate(waiting) if count == 0]
    heapq.heapify(ready)
    left = problem.capacity
    restored: list[int] = []
    while ready:
        cost, partition = heapq.heappop(ready)
        if cost > left:
            continue
        left -= cost
        restored.append(partition)
        for target in below[partition]:
            waiting[target] -= 1
            if waiting[target] == 0:
                heapq.heappush(ready, (int(problem.costs[target]), target))
    return restored


def partition_selection(problem: RecoveryProblem, restored: Collection[int], note: str) -> Selection:
    """The queries that these partitions happen to complete, in the order they are completed."""
    position = {partition: i for i, partition in enumerate(restored)}
    width = problem.needs.shape[1]
    complete = np.ones(width, dtype=bool)
    finished = np.zeros(width, dtype=np.int64)
    for partition, bundle in enumerate(problem.bundle_of.tolist()):
        if bundle < 0:
            continue
        if partition in position:
            finished[bundle] = max(int(finished[bundle]), position[partition])
        else:
            complete[bundle] = False
    whole = np.flatnonzero(problem.recovered(complete)).tolist()
    order = sorted(whole, key=lambda i: (int(finished[problem.needed.row(i)].max(initial=0)), i))
    return Selection(order=tuple(order), covered=complete, partitions=tuple(sorted(position)), note=note)
