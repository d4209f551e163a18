"""The best plan that nodes have room for, by trying every set of queries: independent of all planners.

Sets are tried in the order of their value. Whether a set can be placed is decided by a complete search: the
partitions, largest first, each on every node with room. The first set that can be placed is the optimum.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

from domain.planning import RecoveryProblem

MOST_QUERIES = 12
MOST_STEPS = 2_000_000
"""Of all searches for one problem; beyond it the optimum counts as unknown."""


class TooLargeError(RuntimeError):
    """The optimum was not found within the steps that are allowed."""


@dataclass(frozen=True, slots=True)
class Optima:
    """Most priority that can be placed, most that fits in sum, and all that failed."""

    placed: int
    in_sum: int
    total: int


def rooms_of(problem: RecoveryProblem) -> list[int]:
    """What each node can take, in hundredths of a percent."""
    rooms = []
    for node in problem.nodes:
        used = Fraction(str(node.load)) + sum(
            Fraction(str(problem.placed_costs[name]))
            for name, where in problem.assigned.items()
            if where == node.name
        )
        room = Fraction(str(node.capacity)) * Fraction(str(problem.max_utilisation)) - used
        rooms.append(max(0, int(room * 100)))
    return rooms


def optima(problem: RecoveryProblem) -> Optima:
    """Both optima; raises `TooLargeError` where that takes too long."""
    count = len(problem.queries)
    if count > MOST_QUERIES:
        raise TooLargeError(f"{count} queries")
    cost = [int(Fraction(str(problem.placed_costs[name])) * 100) for name in problem.partitions]
    needs = [
        frozenset(i for i, bundle in enumerate(problem.bundle_of.tolist()) if bundle >= 0 and row[bundle])
        for row in problem.needs
    ]
    priority = problem.priorities.tolist()
    rooms = rooms_of(problem)
    values = [0] * (1 << count)
    for plan in range(1, 1 << count):
        low = plan & -plan
        values[plan] = values[plan ^ low] + priority[low.bit_length() - 1]
    search = _Search()
    in_sum: int | None = None
    for plan in sorted(range(1 << count), key=lambda one: -values[one]):
        wanted = frozenset[int]().union(*(needs[i] for i in range(count) if plan >> i & 1))
        items = sorted((cost[i] for i in wanted), reverse=True)
        if sum(items) > sum(rooms):
            continue
        in_sum = values[plan] if in_sum is None else in_sum
        if search.fits(items, rooms):
            return Optima(values[plan], in_sum, sum(priority))
    raise AssertionError("the empty plan can always be placed")


class _Search:
    def __init__(self) -> None:
        self.steps = 0
        self.failed: set[tuple[int, tuple[int, ...]]] = set()
        self.items: list[int] = []
        self.left: list[int] = []

    def fits(self, items: list[int], rooms: list[int]) -> bool:
        """Whether the items (largest first) can be put into the rooms."""
        self.failed = set()
        self.items = items
        self.left = [sum(items[i:]) for i in range(len(items) + 1)]
        return self._from(0, tuple(sorted(rooms)))

    def _from(self, position: int, rooms: tuple[int, ...]) -> bool:
        if position == len(self.items):
            return True
        smallest = self.items[-1]
        if sum(room for room in rooms if room >= smallest) < self.left[position]:
            return False
        if (position, rooms) in self.failed:
            return False
        self.steps += 1
        if self.steps > MOST_STEPS:
            raise TooLargeError(f"{MOST_STEPS} steps")
        item = self.items[position]
        for number, room in enumerate(rooms):
            if room < item or (number and rooms[number - 1] == room):
                continue
            rest = tuple(sorted((*rooms[:number], room - item, *rooms[number + 1 :])))
            if self._from(position + 1, rest):
                return True
        self.failed.add((position, rooms))
        return False
