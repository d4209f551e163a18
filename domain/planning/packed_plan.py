"""A plan that is placed while it grows: its queries, what they need, and on which node that is."""

from __future__ import annotations

import heapq
import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

from domain.planning.placement import Placer
from domain.planning.problem import RecoveryProblem, capacity_grains
from domain.planning.rooms import Effort, Rooms

NO_MOVES: Mapping[str, str] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class Layout:
    """A problem as plain lists, for searches that take one query at a time.

    nodes: those that take partitions, by name; free, excess: what each of them can take, and has above its
        bound, in grains.
    costs[P]: grains; rank[P]: position of each partition when the largest comes first; bundle_of[P].
    members[K], bundle_cost[K], needing[K]: partitions of each bundle, their cost, and queries that need it.
    needed[M], priorities[M]: the bundles of each query and its priority.
    """

    problem: RecoveryProblem
    nodes: tuple[str, ...]
    free: tuple[int, ...]
    excess: tuple[int, ...]
    costs: list[int]
    rank: list[int]
    bundle_of: list[int]
    members: list[list[int]]
    bundle_cost: list[int]
    needing: list[list[int]]
    needed: list[list[int]]
    priorities: list[int]

    @classmethod
    def of(cls, problem: RecoveryProblem) -> Layout:
        placer = placer_for(problem)
        rooms = [capacity_grains(room) for room in placer.free.tolist()]
        costs = problem.costs.tolist()
        rank = [0] * len(costs)
        for position, partition in enumerate(sorted(range(len(costs)), key=lambda p: -costs[p])):
            rank[partition] = position
        members: list[list[int]] = [[] for _ in range(problem.needs.shape[1])]
        for partition, bundle in enumerate(problem.bundle_of.tolist()):
            if bundle >= 0:
                members[bundle].append(partition)
        return cls(
            problem=problem,
            nodes=tuple(node.name for node in placer.nodes),
            free=tuple(max(0, room) for room in rooms),
            excess=tuple(max(0, -room) for room in rooms),
            costs=costs,
            rank=rank,
            bundle_of=problem.bundle_of.tolist(),
            members=members,
            bundle_cost=problem.bundle_cost.tolist(),
            needing=[problem.needing.row(k).tolist() for k in range(len(members))],
            needed=[problem.needed.row(i).tolist() for i in range(len(problem.queries))],
            priorities=problem.priorities.tolist(),
        )


def placer_for(problem: RecoveryProblem, moved: Mapping[str, str] = NO_MOVES) -> Placer:
    """The problem's nodes with what runs on them, some of it moved, before anything of a plan is placed."""
    return Placer(
        nodes=problem.nodes,
        costs=problem.placed_costs,
        assigned={**problem.assigned, **moved},
        max_utilisation=problem.max_utilisation,
        affinity=problem.affinity,
        levels=problem.levels,
    )


class PackedPlan:
    """order: the queries, as they were taken. holders[K]: how many of them need each bundle. value: their
    priorities; left: grains that are free in sum."""

    def __init__(self, layout: Layout, effort: Effort) -> None:
        self.layout = layout
        self.rooms = Rooms(layout.free, layout.costs, effort)
        self.holders = [0] * len(layout.members)
        self.order: dict[int, None] = {}
        self.value = 0
        self.left = layout.problem.capacity

    def copy(self) -> PackedPlan:
        twin = PackedPlan.__new__(PackedPlan)
        twin.layout, twin.rooms = self.layout, self.rooms.copy()
        twin.holders, twin.order = self.holders.copy(), self.order.copy()
        twin.value, twin.left = self.value, self.left
        return twin

    def before_arrivals(self, nodes: int, effort: Effort) -> PackedPlan:
        """The same plan, with so many nodes more that have no room yet."""
        twin = self.copy()
        twin.rooms = self.rooms.before_arrivals(nodes, effort)
        return twin

    def arrive(self, node: int, grains: int) -> None:
        """This node has so much room from now on."""
        self.rooms.open(node, grains)
        self.left += grains

    def missing(self, query: int) -> list[int]:
        """Bundles that this query needs and the plan does not restore yet."""
        return [bundle for bundle in self.layout.needed[query] if not self.holders[bundle]]

    def add(self, query: int) -> bool:
        """Take this query, if everything that it still needs can be placed."""
        layout = self.layout
        missing = self.missing(query)
        cost = sum(layout.bundle_cost[bundle] for bundle in missing)
        if cost > self.left:
            return False
        partitions = [partition for bundle in missing for partition in layout.members[bundle]]
        partitions.sort(key=layout.rank.__getitem__)
        if not self.rooms.add(partitions):
            return False
        self._count(query, cost)
        return True

    def _count(self, query: int, cost: int) -> None:
        layout = self.layout
        for bundle in layout.needed[query]:
            self.holders[bundle] += 1
        self.order[query] = None
        self.value += layout.priorities[query]
        self.left -= cost

    def take_at(self, queries: Sequence[int], where: Mapping[int, int]) -> bool:
        """Take these, each of their partitions on the node given; False if one has no room there."""
        layout = self.layout
        for query in queries:
            missing = self.missing(query)
            cost = sum(layout.bundle_cost[bundle] for bundle in missing)
            partitions = [partition for bundle in missing for partition in layout.members[bundle]]
            if cost > self.left or not all(self.rooms.add_at(p, where[p]) for p in partitions):
                return False
            self._count(query, cost)
        return True

    def drop(self, query: int) -> None:
        """Give this query up, and what only it needs."""
        layout = self.layout
        del self.order[query]
        self.value -= layout.priorities[query]
        for bundle in layout.needed[query]:
            self.holders[bundle] -= 1
            if not self.holders[bundle]:
                self.rooms.remove(layout.members[bundle])
                self.left += layout.bundle_cost[bundle]

    def take_together(self, queries: Sequence[int]) -> None:
        """Into an empty plan: place all that these need, the largest first, and while something has no room,
        give up the query that needs it and is worth least for what it frees. The queries must fit in sum."""
        layout = self.layout
        for query in queries:
            self._count(query, sum(layout.bundle_cost[bundle] for bundle in self.missing(query)))
        wanted = [p for k, holders in enumerate(self.holders) if holders for p in layout.members[k]]
        lacking = self._placed_as_possible(wanted)
        while lacking:
            blocked = {query for p in lacking for query in layout.needing[layout.bundle_of[p]]}
            self.drop(min(blocked.intersection(self.order), key=lambda query: (self._worth(query), -query)))
            lacking = self._placed_as_possible(p for p in lacking if self.holders[layout.bundle_of[p]])

    def _placed_as_possible(self, partitions: Iterable[int]) -> list[int]:
        """Place these one by one, the largest first; returns those that find no room."""
        return [p for p in sorted(partitions, key=self.layout.rank.__getitem__) if not self.rooms.add([p])]

    def _worth(self, query: int) -> float:
        """Priority lost for each grain that is freed by giving this query up."""
        layout = self.layout
        freed = sum(layout.bundle_cost[k] for k in layout.needed[query] if self.holders[k] == 1)
        return _density(layout.priorities[query], freed)

    def fill(self, weight: Sequence[float], barred: Collection[int] = ()) -> None:
        """Take the densest query that can be placed, again and again. weight: what each bundle counts in a
        density [K]. Bundles that are covered count nothing, so densities only grow while the plan does."""
        layout = self.layout
        lacking = [0.0] * len(layout.needed)
        heap: list[tuple[float, int]] = []
        for query, needed in enumerate(layout.needed):
            if query not in self.order and query not in barred:
                lacking[query] = sum(weight[bundle] for bundle in needed if not self.holders[bundle])
                heap.append((-_density(layout.priorities[query], lacking[query]), query))
        heapq.heapify(heap)
        self.rooms.effort.left -= len(heap)
        while heap:
            density, query = heapq.heappop(heap)
            if query in self.order or density != -_density(layout.priorities[query], lacking[query]):
                continue
            missing = self.missing(query)
            if not self.add(query):
                continue
            # Also those that found no room: what they lacked may have been placed with this one.
            changed: set[int] = set()
            for bundle in missing:
                for other in layout.needing[bundle]:
                    if other not in self.order and other not in barred:
                        lacking[other] -= weight[bundle]
                        changed.add(other)
            for other in changed:
                heapq.heappush(heap, (-_density(layout.priorities[other], lacking[other]), other))


def _density(priority: int, weight: float) -> float:
    return priority / weight if weight > 0 else math.inf
