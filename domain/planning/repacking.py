"""Whether partitions fit on nodes at all: a complete search, bounded by steps.

Nodes are filled one after another, the smallest room first, each with every set of the partitions left that
does not waste too much: what the nodes offer beyond what the partitions need in sum is the waste that all
nodes together may have (bin completion). Where partitions are few and little is to spare, which is where
placing one partition after another fails, this leaves few sets to try.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate


@dataclass(frozen=True, slots=True)
class Repacked:
    """where[i]: node of each partition, or None: there is no way, which is `proven` unless steps ran out.
    steps: how many were taken."""

    where: list[int] | None
    proven: bool
    steps: int


def repack(costs: Sequence[int], rooms: Sequence[int], *, steps: int) -> Repacked:
    """Places all of these partitions, in whole grains, in rooms in whole grains."""
    search = _Search(costs, rooms, steps)
    found = search.node(0, (1 << len(search.items)) - 1, search.slack)
    if found:
        where = [0] * len(costs)
        for item, node in search.where.items():
            where[item] = node
        return Repacked(where, True, steps - search.left)
    return Repacked(None, search.left > 0, steps - search.left)


class _Search:
    """items: partitions, largest first; sets of them are the bits of an integer."""

    def __init__(self, costs: Sequence[int], rooms: Sequence[int], steps: int) -> None:
        self.left = steps
        self.items = sorted(range(len(costs)), key=lambda item: (-costs[item], item))
        self.costs = [costs[item] for item in self.items]
        smallest = self.costs[-1] if self.costs else 0
        self.nodes = sorted(
            (n for n, room in enumerate(rooms) if room >= smallest), key=lambda n: (rooms[n], n)
        )
        self.rooms = [rooms[node] for node in self.nodes]
        self.slack = sum(self.rooms) - sum(self.costs)
        self.where: dict[int, int] = {}
        self.hopeless: set[tuple[int, int]] = set()

    def node(self, number: int, remaining: int, slack: int) -> bool:
        """Fill this node and those after it with everything that remains."""
        if not remaining:
            return True
        if slack < 0 or number == len(self.nodes) or (number, remaining) in self.hopeless:
            return False
        open_items = [i for i in range(remaining.bit_length()) if remaining >> i & 1]
        behind = [*accumulate((self.costs[i] for i in reversed(open_items)), initial=0)][::-1]
        room = self.rooms[number]
        if self._fill(number, open_items, behind, 0, room, remaining, slack):
            return True
        if self.left > 0:
            self.hopeless.add((number, remaining))
        return False

    def _fill(
        self, number: int, items: list[int], behind: list[int], at: int, room: int, remaining: int, slack: int
    ) -> bool:
        """Decide which of `items[at:]` this node takes, of which `room` is still free."""
        self.left -= 1
        if self.left <= 0 or room - behind[at] > slack:
            return False
        while at < len(items) and self.costs[items[at]] > room:
            at += 1
        if room - behind[at] > slack:
            return False
        if at == len(items):
            return self.node(number + 1, remaining, slack - room)
        item = items[at]
        if self._fill(
            number, items, behind, at + 1, room - self.costs[item], remaining & ~(1 << item), slack
        ):
            self.where[self.items[item]] = self.nodes[number]
            return True
        # Without this one: also without those of the same cost, which would do the same.
        at += 1
        while at < len(items) and self.costs[items[at]] == self.costs[item]:
            at += 1
        return self._fill(number, items, behind, at, room, remaining, slack)
