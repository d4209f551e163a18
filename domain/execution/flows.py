"""How many rows go from which partition to which, where a stream lets them choose, as averages. Pure.

Executors count what each partition routes; the driver smooths it and tells it now and then. The fidelity of
tentative output (`domain.execution.branches`) and plans for replicas go by it.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache

from domain.execution.job import TaskReport
from domain.execution.lanes import Lane
from domain.topology import Topology, split_partition
from domain.topology.copies import BRANCH, SHADOW, is_copy

MOST_PAIRS = 4_096
"""Pairs of partitions that are counted in a topology: what is told of them stays below some 30 kB."""

WINDOW = 60.0
"""Seconds of the input's time after which a count weighs a third of a new one."""

TOLD_EVERY = 10.0
"""Seconds of the input's time between two reports."""

DIGITS = 3


@lru_cache(maxsize=8)
def counted_streams(topology: Topology) -> frozenset[tuple[str, str]]:
    """Streams, as source and target operator, whose sources feed several targets, the first of the topology
    as far as `MOST_PAIRS` go. Streams of copies are none."""
    found: set[tuple[str, str]] = set()
    room = MOST_PAIRS
    for target in topology.operators:
        if target.name.endswith((SHADOW, BRANCH)):
            continue
        for stream in target.inputs:
            sources = topology.by_name[stream.source].parallelism
            width = len(topology.targets(stream, target, 0))
            if stream.feedback or width < 2 or sources * width > room:
                continue
            room -= sources * width
            found.add((stream.source, target.name))
    return frozenset(found)


@dataclass(slots=True)
class Mean:
    """Rows per second of the input's time, as means that forget what is older than about `WINDOW`."""

    weight: float
    sums: list[float]

    def take(self, counts: Sequence[int], seconds: float) -> None:
        kept = math.exp(-seconds / WINDOW)
        new = (1 - kept) / seconds
        self.weight = kept * self.weight + 1 - kept
        self.sums = [kept * earlier + new * count for earlier, count in zip(self.sums, counts, strict=True)]

    def values(self) -> list[float]:
        return [total / self.weight for total in self.sums]


class Flows:
    """What partitions give, and what of it goes to each target, by partition and operator that reads from it.
    Its memory is bounded by the number of partitions and by `MOST_PAIRS`."""

    def __init__(self, topology: Topology) -> None:
        self._interval = topology.spec.epoch_interval
        self._streams = counted_streams(topology)
        self._given: dict[str, Mean] = {}
        self._pairs: dict[tuple[str, str], Mean] = {}
        self._untold = TOLD_EVERY
        """The first counts are told at once."""

    def observe(self, lane: Lane, reports: Iterable[TaskReport], before: Mapping[str, int]) -> None:
        """What a job of the present says. What is computed again, and what copies give, is no rate. before:
        the last epoch of each partition before it."""
        for name, report in (item for task in reports for item in task.partitions.items()):
            if is_copy(name) or lane.starts.get(name) != before[name] or report.epoch != lane.last:
                continue
            self.take(name, report.rows_out, report.routed, (lane.last - before[name]) * self._interval)

    def take(self, partition: str, rows: int, routed: Mapping[str, Sequence[int]], seconds: float) -> None:
        """What a partition gave in `seconds` of the input; what it cannot have routed is left out."""
        if seconds <= 0:
            return
        self._given.setdefault(partition, Mean(0.0, [0.0])).take([rows], seconds)
        for target, counts in routed.items():
            if (split_partition(partition)[0], target) not in self._streams:
                continue
            mean = self._pairs.setdefault((partition, target), Mean(0.0, [0.0] * len(counts)))
            if len(mean.sums) == len(counts):
                mean.take(counts, seconds)

    def rates(self) -> dict[str, float]:
        """Rows per second that partitions give, of those that have been measured."""
        return {partition: mean.values()[0] for partition, mean in self._given.items()}

    def pairs(self) -> dict[str, dict[str, list[float]]]:
        """By partition and operator that reads from it, rows per second to each of its targets there."""
        found: dict[str, dict[str, list[float]]] = {}
        for (partition, target), mean in self._pairs.items():
            found.setdefault(partition, {})[target] = [_rounded(one) for one in mean.values()]
        return found

    def told(self, seconds: float) -> tuple[dict[str, float], dict[str, dict[str, list[float]]]]:
        """`rates` and `pairs`, if that is due after so many further seconds of the input; nothing otherwise.
        No rates where there are more than `MOST_PAIRS` partitions."""
        self._untold += seconds
        if self._untold < TOLD_EVERY or not self._given:
            return {}, {}
        self._untold = 0.0
        rates = {one: _rounded(rate) for one, rate in self.rates().items()}
        return (rates if len(rates) <= MOST_PAIRS else {}), self.pairs()


def _rounded(value: float) -> float:
    return float(f"{value:.{DIGITS}g}")
