"""Keeping the best of many candidate plans."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from domain.planning.greedy import Extended
from domain.planning.problem import Flags, Integers, RecoveryProblem
from domain.planning.proposal import Selection

# Entries of one array of a batch: small enough to stay in the processor's cache.
BATCH_ENTRIES = 1 << 16
# How many of the best plans are kept for the explanation.
CONSIDERED = 4


def in_batches(starts: Integers, queries: int) -> Iterator[Integers]:
    """The rows of `starts` in batches of bounded memory."""
    size = max(1, BATCH_ENTRIES // max(1, queries))
    for begin in range(0, len(starts), size):
        yield starts[begin : begin + size]


class Candidates:
    """The best plan of those offered. Of equal values the first offered wins, as in the paper's order."""

    def __init__(self, problem: RecoveryProblem) -> None:
        self.problem = problem
        self.count = 0
        self.value = -1
        self.chosen: Flags = np.zeros(len(problem.queries), dtype=bool)
        self._kept: list[tuple[int, Flags, int]] = []

    def offer(self, found: Extended) -> bool:
        """Compare a batch of finished plans; True if one of them is better than all before."""
        self.count += len(found.value)
        top = int(found.value.argmax())
        floor = min((value for value, _, _ in self._kept), default=-1)
        if len(self._kept) < CONSIDERED or int(found.value[top]) > floor:
            self._keep(found)
        if int(found.value[top]) <= self.value:
            return False
        self.value = int(found.value[top])
        self.chosen = found.chosen[top].copy()
        return True

    def _keep(self, found: Extended) -> None:
        """Remember the best few that differ."""
        for position in np.argsort(-found.value, kind="stable")[: 4 * CONSIDERED].tolist():
            plan = found.chosen[position]
            if not any(np.array_equal(plan, other) for _, other, _ in self._kept):
                self._kept.append((int(found.value[position]), plan.copy(), int(found.used[position])))
        self._kept.sort(key=lambda kept: -kept[0])
        del self._kept[CONSIDERED:]

    def selection(self, order: tuple[int, ...], note: str = "") -> Selection:
        """The best plan; `order` is how it was put together."""
        considered = tuple(
            (tuple(np.flatnonzero(plan).tolist()), value, used) for value, plan, used in self._kept
        )
        return Selection(
            order=order,
            covered=self.problem.covered(order),
            candidates=self.count,
            considered=considered,
            note=note,
        )
