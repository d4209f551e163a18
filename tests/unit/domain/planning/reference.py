"""Algorithms 3 and 4 and the optimum, transcribed as plainly as possible: sets, fractions and loops.

Only two things are added to the paper's text: ties break by name (the earliest candidate plan, the
earliest query), and a query whose failed partitions are all covered is infinitely dense.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction

from domain.planning import RecoveryProblem


@dataclass
class Instance:
    """The problem as sets of partition indices. Costs are whole numbers."""

    needs: list[frozenset[int]]
    priority: list[int]
    cost: list[int]
    capacity: int

    @classmethod
    def of(cls, problem: RecoveryProblem, unit: int = 1) -> Instance:
        """`unit` grains make one unit of cost; it must divide all costs and the capacity."""
        return cls(
            needs=[
                frozenset(p for p, bundle in enumerate(problem.bundle_of) if bundle >= 0 and row[bundle])
                for row in problem.needs
            ],
            priority=[int(p) for p in problem.priorities],
            cost=[int(c) // unit for c in problem.costs],
            capacity=problem.capacity // unit,
        )

    def frequency(self) -> dict[int, int]:
        return {p: sum(p in query for query in self.needs) for query in self.needs for p in query}

    def cost_of(self, plan: Sequence[int]) -> int:
        return sum(self.cost[p] for p in frozenset().union(*(self.needs[i] for i in plan)))

    def value_of(self, plan: Sequence[int]) -> int:
        return sum(self.priority[i] for i in plan)


def _density(instance: Instance, frequency: Mapping[int, int], query: int, covered: frozenset[int]) -> float:
    weight = sum(
        (Fraction(instance.cost[p], frequency[p]) for p in instance.needs[query] - covered), Fraction(0)
    )
    return float(Fraction(instance.priority[query]) / weight) if weight else float("inf")


def _extend(instance: Instance, frequency: Mapping[int, int], plan: list[int]) -> list[int]:
    plan = list(plan)
    while True:
        covered = frozenset().union(*(instance.needs[i] for i in plan))
        best, best_density = -1, -1.0
        for query in range(len(instance.needs)):
            if query in plan or instance.cost_of([*plan, query]) > instance.capacity:
                continue
            density = _density(instance, frequency, query, covered)
            if density > best_density:
                best, best_density = query, density
        if best < 0:
            return plan
        plan.append(best)


def best_density(instance: Instance, *, singles: bool = False) -> list[int]:
    """Algorithm 3. `singles` also starts a candidate from every single query, after all others."""
    frequency = instance.frequency()
    everything = range(len(instance.needs))
    fitting = [i for i in everything if instance.cost_of([i]) <= instance.capacity]
    starts: list[list[int]] = [[]]
    if fitting:
        densest = max(fitting, key=lambda i: (_density(instance, frequency, i, frozenset()), -i))
        starts = [[densest]]
    starts += [
        [m, n]
        for m, n in itertools.combinations(everything, 2)
        if instance.cost_of([m, n]) <= instance.capacity
    ]
    if singles:
        starts += [[i] for i in fitting]
    plans = [_extend(instance, frequency, start) for start in starts]
    return max(plans, key=instance.value_of)


def profit_density(instance: Instance) -> list[int]:
    """The greedy of the first paper."""
    return _extend(instance, instance.frequency(), [])


def optimum(instance: Instance) -> int:
    """The best value over all sets of queries."""
    best = 0
    for size in range(1, len(instance.needs) + 1):
        for plan in itertools.combinations(range(len(instance.needs)), size):
            if instance.cost_of(plan) <= instance.capacity:
                best = max(best, instance.value_of(plan))
    return best


def placed_optimum(instance: Instance, rooms: Sequence[int]) -> int:
    """The best value of any set of queries whose partitions fit on nodes with these rooms."""
    best = 0
    for size in range(1, len(instance.needs) + 1):
        for plan in itertools.combinations(range(len(instance.needs)), size):
            value = instance.value_of(plan)
            if value > best:
                wanted = frozenset[int]().union(*(instance.needs[i] for i in plan))
                if fits([instance.cost[p] for p in wanted], rooms):
                    best = value
    return best


def fits(costs: Sequence[int], rooms: Sequence[int]) -> bool:
    """Whether each of these can have a node: the largest on every node with room, then the others."""
    if not costs:
        return True
    first, *others = sorted(costs, reverse=True)
    for node in {room: i for i, room in enumerate(rooms)}.values():
        if rooms[node] >= first:
            left = [room - first if i == node else room for i, room in enumerate(rooms)]
            if fits(others, left):
                return True
    return False


def dynamic_programming(instance: Instance) -> int:
    """Algorithm 4, unit by unit of resource; the value counts every query that the plan makes whole."""
    candidates = [frozenset[int]()]
    best = _recovered_value(instance, frozenset())
    for usage in range(1, instance.capacity + 1):
        for covered in list(candidates):
            remaining = usage - sum(instance.cost[p] for p in covered)
            for needs in instance.needs:
                grown = covered | needs
                added = sum(instance.cost[p] for p in needs - covered)
                if added == remaining and added > 0 and grown not in candidates:
                    candidates.append(grown)
                    best = max(best, _recovered_value(instance, grown))
    return best


def _recovered_value(instance: Instance, covered: frozenset[int]) -> int:
    free = {p for query in instance.needs for p in query if instance.cost[p] == 0}
    return sum(
        priority
        for priority, needs in zip(instance.priority, instance.needs, strict=True)
        if needs <= covered | free
    )
