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
from typing import Any


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
    placed = search.run()
    if placed is None:
        return Repacked(None, search.left > 0, steps - search.left)
    where = [0] * len(costs)
    while placed:
        item, node, placed = placed
        where[search.items[item]] = search.nodes[node]
    return Repacked(where, True, steps - search.left)


# What is placed, last first: (partition, its node, what was placed before).
_Placed = tuple[int, int, Any] | tuple[()]
# What is still to try: (node, what remains, the waste that is left, what is placed, filling). The last says
# which of `items[at:]` the node is to take, of which `room` is still free: (items, what they cost in sum from
# each on, at, room); None where all of that was tried.
_Open = tuple[int, int, int, _Placed, tuple[list[int], list[int], int, int] | None]


class _Search:
    """items: partitions, largest first; sets of them are the bits of an integer. open: the last is tried
    first. Not a recursion, which would go as deep as there are nodes."""

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
        self.hopeless: set[tuple[int, int]] = set()
        self.open: list[_Open] = []

    def run(self) -> _Placed | None:
        everything = (1 << len(self.items)) - 1
        if not everything:
            return ()
        self._node(0, everything, self.slack, ())
        while self.open:
            number, remaining, slack, placed, filling = self.open.pop()
            if filling is None:
                if self.left > 0:
                    self.hopeless.add((number, remaining))
                continue
            items, behind, at, room = filling
            self.left -= 1
            if self.left <= 0 or room - behind[at] > slack:
                continue
            while at < len(items) and self.costs[items[at]] > room:
                at += 1
            if room - behind[at] > slack:
                continue
            if at == len(items):
                if not remaining:
                    return placed
                self._node(number + 1, remaining, slack - room, placed)
                continue
            item = items[at]
            cost = self.costs[item]
            # Without this one: also without those of the same cost, which would do the same.
            other = at + 1
            while other < len(items) and self.costs[items[other]] == cost:
                other += 1
            self.open.append((number, remaining, slack, placed, (items, behind, other, room)))
            more = (items, behind, at + 1, room - cost)
            self.open.append((number, remaining & ~(1 << item), slack, (item, number, placed), more))
        return None

    def _node(self, number: int, remaining: int, slack: int, placed: _Placed) -> None:
        """Fill this node and those after it with everything that remains: try that first."""
        if slack < 0 or number == len(self.nodes) or (number, remaining) in self.hopeless:
            return
        items = [i for i in range(remaining.bit_length()) if remaining >> i & 1]
        behind = [*accumulate((self.costs[i] for i in reversed(items)), initial=0)][::-1]
        self.open.append((number, remaining, slack, placed, None))
        self.open.append((number, remaining, slack, placed, (items, behind, 0, self.rooms[number])))
