"""The CPU of a node, explained by the work that a topology does there.

The processes of one topology on one node (executor, Python workers) take

    fixed + per_task * tasks + per_cpu_second * operators + per_tuple * tuples      [cores]

where `tasks` are Spark tasks per second, `operators` the CPU seconds per second that operators measure of
themselves, and `tuples` those per second that go into partitions and come out of them. The four shares are
learned from windows of some seconds, of all nodes of the topology together: least squares with relative
weights, older windows counting less, shares that cannot be negative, and a prior that decides while little is
measured, or while what was measured cannot tell two shares apart.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import combinations

import msgspec
import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

PRIOR = (0.01, 0.004, 1.2, 0.0)
"""What the shares are taken to be before anything is measured: cores, CPU seconds per task, CPU seconds of
the node per CPU second of an operator, CPU seconds per tuple."""
PRIOR_DEVIATION = (0.03, 0.01, 0.5, 2e-6)
MEMORY = 45.0
"""Seconds after which a window counts e times less: virtual machines are slow while they are new, and what
they took then must not be planned with for long."""
NOISE = 0.003
RELATIVE_NOISE = 0.1
"""Standard deviation of a window's measurement: cores, and share of what is measured."""


LEAST = (0.0, 0.0, 1.0, 0.0)
"""The shares are at least this: what operators measure of themselves is part of what their node takes."""

_PRIOR: Floats = np.array(PRIOR)
_DEVIATION: Floats = np.array(PRIOR_DEVIATION)
_SUBSETS = [free for count in range(4, -1, -1) for free in combinations(range(4), count)]


@dataclass(frozen=True, slots=True)
class Work:
    """What one topology does on one node, per second: Spark tasks, CPU seconds that operators measure of
    themselves, tuples into partitions and out of them."""

    tasks: float = 0.0
    operators: float = 0.0
    tuples: float = 0.0


class CpuShares(msgspec.Struct, frozen=True):
    """What work costs: cores for being there, CPU seconds per task, per CPU second of an operator, and per
    tuple."""

    fixed: float = PRIOR[0]
    per_task: float = PRIOR[1]
    per_cpu_second: float = PRIOR[2]
    per_tuple: float = PRIOR[3]

    def node(self, tasks: float) -> float:
        """Cores that a topology takes on a node whatever partitions are there. tasks: per second."""
        return self.fixed + self.per_task * tasks

    def partitions(self, *, operators: float, tuples: float) -> float:
        """Cores that partitions take. operators: CPU seconds per second that they measure of themselves;
        tuples: per second, in and out."""
        return self.per_cpu_second * operators + self.per_tuple * tuples

    def of(self, work: Work) -> float:
        """Cores that this work takes on one node."""
        return self.node(work.tasks) + self.partitions(operators=work.operators, tuples=work.tuples)


class CpuModel(msgspec.Struct):
    """What is known of one topology. `shares`: as learned up to `at` (Unix seconds); `windows` counts what
    they were learned from. `tasks`: Spark tasks per second on one node at the normal pace. `normal` (4 x 4)
    and `moment` (4) are the weighted sums of the normal equations, in units of the prior's deviation."""

    shares: CpuShares = CpuShares()
    at: float = 0.0
    tasks: float = 0.0
    windows: int = 0
    normal: list[list[float]] = msgspec.field(default_factory=lambda: [[0.0] * 4 for _ in range(4)])
    moment: list[float] = msgspec.field(default_factory=lambda: [0.0] * 4)

    @property
    def readable(self) -> bool:
        """Whether the sums are 4 x 4 and 4 numbers, as those of a stored model may not be."""
        return len(self.moment) == 4 and [len(row) for row in self.normal] == [4] * 4

    @property
    def node(self) -> float:
        """Cores that the topology takes on a node at the normal pace, whatever partitions are there."""
        return self.shares.node(self.tasks)

    def learn(self, windows: Iterable[tuple[Work, float]], *, at: float) -> None:
        """Take in windows, in their order: the work of the topology on a node, and the cores that its
        processes took there."""
        kept = math.exp(-max(0.0, at - self.at) / MEMORY) if self.windows else 0.0
        normal, moment = kept * np.array(self.normal), kept * np.array(self.moment)
        for work, cores in windows:
            row = np.array([1.0, work.tasks, work.operators, work.tuples]) * _DEVIATION
            # As a difference to the prior, so that nothing learned means the prior.
            surplus = cores - float(row @ (_PRIOR / _DEVIATION))
            weight = 1.0 / (NOISE + RELATIVE_NOISE * max(cores, 0.0)) ** 2
            normal += weight * np.outer(row, row)
            moment += weight * surplus * row
            self.windows += 1
        self.at = max(at, self.at)
        self.normal, self.moment = normal.tolist(), moment.tolist()
        self.shares = _solved(normal + np.eye(4), moment)


def _solved(normal: Floats, moment: Floats) -> CpuShares:
    """The shares with the least squares, none of them below `LEAST`: the best over all sets of shares that
    are held there. In units of deviations, share = prior + solution."""
    least = (np.array(LEAST) - _PRIOR) / _DEVIATION
    best, lowest = least, np.inf
    for free in _SUBSETS:
        solution = least.copy()
        if free:
            held = [i for i in range(4) if i not in free]
            right = moment[list(free)] - normal[np.ix_(free, held)] @ least[held]
            solution[list(free)] = np.linalg.solve(normal[np.ix_(free, free)], right)
        if np.any(solution < least - 1e-12):
            continue
        loss = float(solution @ normal @ solution / 2 - moment @ solution)
        if loss < lowest:
            best, lowest = solution, loss
    values = np.maximum(_PRIOR + best * _DEVIATION, LEAST)
    return CpuShares(*(float(value) for value in values))


# Worked out with the module, before there are threads (docs/decisions/0013).
msgspec.convert({}, CpuModel)
