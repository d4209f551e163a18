"""The room that nodes have left while a plan is put together.

A partition goes to the node on which least room remains (best fit): large rooms stay whole for large
partitions. Where no node has room, two things are tried before the partition is refused:

- *A chain.* The partition takes the place of a smaller one, which goes elsewhere in the same way.
- *Repacking.* What the plan has put on the nodes with most room is taken off and placed anew with the
  partition, by a complete search (`repacking`). In a small problem these are all nodes.

Rooms and costs are whole grains. Searches are bounded by steps, not by time: the same input gives the same
placement on every machine.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Iterable, Sequence

from domain.planning.repacking import repack

# Partitions that make way for each other in one chain; nodes tried for each, those with most room; and places
# tried in all for one partition.
CHAIN = 3
BREADTH = 6
CHAIN_STEPS = 60
# Nodes, partitions, and steps of the search, that one repacking may take.
REPACKED_NODES = 12
REPACKED = 60
REPACK_STEPS = 1_000


class Effort:
    """Steps that a search may still take. One is about a microsecond of work on the reference machine."""

    def __init__(self, steps: int) -> None:
        self.left = steps


class Rooms:
    """free[n]: grains that node n can take. where: node of each partition of the plan.

    costs: grains of each partition, by index. effort: while it lasts, room is made; after that a partition
    goes where there is room, or nowhere.
    """

    def __init__(self, free: Sequence[int], costs: Sequence[int], effort: Effort) -> None:
        self.free = list(free)
        self.costs = costs
        self.effort = effort
        self.where: dict[int, int] = {}
        self._held: list[list[int]] = [[] for _ in free]
        self._largest = max(free, default=0)
        # Rooms in order, as room * nodes + node: equal rooms are in the order of nodes.
        self._nodes = max(1, len(self.free))
        self._ranked = sorted(room * self._nodes + node for node, room in enumerate(self.free))
        # What was changed by the present `add`: partition and where it was, -1 for nowhere.
        self._changes: list[tuple[int, int]] = []
        self._tries = 0

    def copy(self) -> Rooms:
        twin = Rooms.__new__(Rooms)
        twin.free, twin.costs, twin.effort = self.free.copy(), self.costs, self.effort
        twin.where = self.where.copy()
        twin._held = [held.copy() for held in self._held]
        twin._largest = self._largest
        twin._nodes, twin._ranked = self._nodes, self._ranked.copy()
        twin._changes, twin._tries = [], 0
        self.effort.left -= (len(self.where) + self._nodes) // 4
        return twin

    def before_arrivals(self, nodes: int, effort: Effort) -> Rooms:
        """The same with so many nodes more, which have no room yet."""
        twin = Rooms([*self.free, *[0] * nodes], self.costs, effort)
        twin.where = self.where.copy()
        twin._held = [*(held.copy() for held in self._held), *([] for _ in range(nodes))]
        twin._largest = self._largest
        return twin

    def open(self, node: int, grains: int) -> None:
        """This node has so much more room from now on."""
        self._change(node, grains)
        held = sum(self.costs[partition] for partition in self._held[node])
        self._largest = max(self._largest, self.free[node] + held)

    def add(self, partitions: Iterable[int]) -> bool:
        """Place all of these in this order, which should be the largest first, or none of them."""
        self._changes.clear()
        for partition in partitions:
            self._tries = CHAIN_STEPS
            if self._insert(partition, CHAIN) or self._repack(partition):
                continue
            self._undo(0)
            return False
        return True

    def add_at(self, partition: int, node: int) -> bool:
        """Place this one on that node, if it has room."""
        if self.free[node] < self.costs[partition]:
            return False
        self._changes.clear()
        self._put(partition, node)
        return True

    def lacking(self, partitions: Iterable[int]) -> list[int]:
        """Those of these for which no node has room, if all others are placed first come, first served."""
        self._changes.clear()
        refused = [partition for partition in partitions if not self._insert(partition, 0)]
        self._undo(0)
        return refused

    def remove(self, partitions: Iterable[int]) -> None:
        """Take those of these that are placed off their nodes."""
        for partition in partitions:
            if partition in self.where:
                self._take(partition)

    def _insert(self, partition: int, chain: int) -> bool:
        """Place this one; up to `chain` smaller ones may make way."""
        cost = self.costs[partition]
        self.effort.left -= 3
        at = bisect_left(self._ranked, cost * self._nodes)
        if at < len(self._ranked):
            self._put(partition, self._ranked[at] % self._nodes)
            return True
        if not chain or self.effort.left <= 0:
            return False
        mark = len(self._changes)
        for ranked in self._ranked[: -BREADTH - 1 : -1]:
            node = ranked % self._nodes
            lacking = cost - self.free[node]
            for smaller in self._held[node].copy():
                if not lacking <= self.costs[smaller] < cost:
                    continue
                self._tries -= 1
                if self._tries < 0:
                    return False
                self._take(smaller)
                self._put(partition, node)
                if self._insert(smaller, chain - 1):
                    return True
                self._undo(mark)
        return False

    def _repack(self, partition: int) -> bool:
        """Place anew what is on the nodes with most room, and this one with it."""
        if self.effort.left <= 0 or self.costs[partition] > self._largest:
            return False
        nodes: list[int] = []
        moved = [partition]
        for ranked in self._ranked[: -REPACKED_NODES - 1 : -1]:
            node = ranked % self._nodes
            if len(moved) + len(self._held[node]) > REPACKED:
                break
            nodes.append(node)
            moved += self._held[node]
        rooms = [self.free[node] + sum(self.costs[p] for p in self._held[node]) for node in nodes]
        found = repack([self.costs[p] for p in moved], rooms, steps=REPACK_STEPS)
        self.effort.left -= found.steps + len(moved)
        if found.where is None:
            return False
        for smaller in moved[1:]:
            self._take(smaller)
        for name, at in zip(moved, found.where, strict=True):
            self._put(name, nodes[at])
        return True

    def _put(self, partition: int, node: int) -> None:
        self._change(node, -self.costs[partition])
        insort(self._held[node], partition, key=self.costs.__getitem__)
        self.where[partition] = node
        self._changes.append((partition, -1))

    def _take(self, partition: int) -> None:
        node = self.where.pop(partition)
        self._change(node, self.costs[partition])
        self._held[node].remove(partition)
        self._changes.append((partition, node))

    def _change(self, node: int, grains: int) -> None:
        """This node has so much more room."""
        room = self.free[node]
        del self._ranked[bisect_left(self._ranked, room * self._nodes + node)]
        self.free[node] = room + grains
        insort(self._ranked, self.free[node] * self._nodes + node)

    def _undo(self, mark: int) -> None:
        """Back to when there were so many changes."""
        while len(self._changes) > mark:
            partition, before = self._changes.pop()
            if before < 0:
                self._take(partition)
            else:
                self._put(partition, before)
            self._changes.pop()
