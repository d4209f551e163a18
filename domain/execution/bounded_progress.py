"""Where a topology with a bounded guarantee stands: nothing of it ever replays. Pure.

All partitions are at the same epoch. One that does not run, or fails in an epoch, does without what its
inputs send meanwhile, and so do those behind it: a row counts at most once. It goes on in the present with
the state that its node has, or with none where that was lost; the states of keys come back one by one, when
their first rows arrive (Apache S4, fault tolerance: lazy recovery). Only a source that cannot read is waited
for: its rows are still there.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from types import MappingProxyType

from domain.execution.lanes import Lane
from domain.execution.progress import ProgressTracker
from domain.messages import Plan
from domain.topology import split_partition

EMPTY = 0
"""As the epoch of a state: there is none."""


class BoundedProgress(ProgressTracker):
    """`progress` is the same for all partitions. `restore`: partition -> epoch of the state on its node with
    which it goes on, `EMPTY` for none."""

    def takes_back(self, plan: Plan) -> bool:
        return False

    def held(self, partition: str) -> int | None:
        return self.restore.get(partition, self.progress[partition]) or None

    def adopt(self, plan: Plan, *, refresh: bool = True, carried: Collection[str] = ()) -> None:
        if not refresh:
            return
        moved = {p for p, node in plan.assignment.items() if self.homes.get(p) != node}
        unassigned = {p for p in self.topology.partitions if p not in plan.assignment}
        self.homes = dict(plan.assignment)
        self.put_back(moved.difference(carried).union(unassigned), EMPTY)

    def put_back(self, partitions: Collection[str], checkpoint: int) -> None:
        """These begin without state."""
        self.restore |= dict.fromkeys(partitions, EMPTY)
        self._reached = None

    def lost_state(self, partitions: Collection[str]) -> None:
        self.put_back(partitions, EMPTY)

    def present(self, *, head: int, held: Collection[str], limit: int, join: int) -> Lane | None:
        """All that run, up to `limit` epochs towards `head`."""
        front = self.committed
        last = min(head, front + limit)
        if any(self._reads(partition) for partition in held):
            return None
        starts = {p: front for p in self.topology.partitions if p not in self.absent and p not in held}
        return Lane(front + 1, last, starts) if starts and last > front else None

    def replay(self, *, held: Collection[str], epochs: int, beside: int = 0) -> Lane | None:
        return None

    def whole(self, lane: Lane | None, epoch: int) -> bool:
        """There is no checkpoint of all partitions together."""
        return False

    def take(
        self,
        lane: Lane | None,
        reached: Mapping[str, int],
        *,
        told: Mapping[str, int],
        head: int,
        restored: Mapping[str, int] = MappingProxyType({}),
    ) -> None:
        """Those that did not come as far as the others are there as well, with the state that they have."""
        if lane is None:
            return
        front = max([self.committed, *reached.values()])
        read = [reached.get(p, before) for p, before in self.progress.items() if self._awaited(p, lane)]
        front = min([front, *read])
        for partition, before in self.progress.items():
            epoch = reached.get(partition, before)
            if epoch >= front and partition in reached:
                self.restore.pop(partition, None)
            elif epoch > before or (partition not in self.restore and epoch < front):
                self.restore[partition] = epoch
            self.progress[partition] = front
        self._reached = None
        self.caught_up = self.caught_up or front >= head - 1

    def _awaited(self, partition: str, lane: Lane) -> bool:
        return partition in lane.starts and self._reads(partition)

    def _reads(self, partition: str) -> bool:
        """Whether it is one of a source."""
        operator, _ = split_partition(partition)
        return not self.topology.by_name[operator].inputs

    def needed(self, latest: int) -> tuple[int, list[int]]:
        """Those from which partitions run, and those with which one that does not run will go on."""
        return self.committed, sorted(set(self.restore.values()) - {EMPTY})

    def _reach(self) -> dict[str, int]:
        return {p: epoch for p, epoch in self.progress.items() if p not in self.absent}
