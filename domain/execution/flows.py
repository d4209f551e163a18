"""How many rows go from which partition to which, where a stream lets them choose, as averages. Pure.

Executors count what each partition routes; the driver smooths it and tells it now and then.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from functools import lru_cache

from domain.topology import Topology, split_partition
from domain.topology.shadows import MARK

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
    as far as `MOST_PAIRS` go. Streams of shadows are none."""
    found: set[tuple[str, str]] = set()
    room = MOST_PAIRS
    for target in topology.operators:
        if target.name.endswith(MARK):
            continue
        for stream in target.inputs:
            sources = topology.by_name[stream.source].parallelism
            width = len(topology.targets(stream, target, 0))
            if stream.feedback or width < 2 or sources * width > room:
                continue
            room -= sources * width
            found.add((stream.source, target.name))
    return frozenset(found)


class Flows:
    """Rows per second of the input's time that go to each target, by partition and operator that reads from
    it: means that forget what is older than about `WINDOW`. Its memory is bounded by `MOST_PAIRS`."""

    def __init__(self, topology: Topology) -> None:
        self._streams = counted_streams(topology)
        self._means: dict[tuple[str, str], tuple[float, list[float]]] = {}
        self._untold = TOLD_EVERY
        """The first counts are told at once."""

    def take(self, partition: str, routed: Mapping[str, Sequence[int]], seconds: float) -> None:
        """What a partition routed in `seconds` of the input; what it cannot have routed is left out."""
        for target, counts in routed.items():
            if (split_partition(partition)[0], target) not in self._streams or seconds <= 0:
                continue
            kept = math.exp(-seconds / WINDOW)
            weight, sums = self._means.get((partition, target), (0.0, [0.0] * len(counts)))
            if len(sums) != len(counts):
                continue
            new = (1 - kept) / seconds
            summed = [kept * earlier + new * count for earlier, count in zip(sums, counts, strict=True)]
            self._means[partition, target] = kept * weight + 1 - kept, summed

    def told(self, seconds: float) -> dict[str, dict[str, list[float]]]:
        """All of it, if it is due after so many further seconds of the input; nothing otherwise."""
        self._untold += seconds
        if self._untold < TOLD_EVERY or not self._means:
            return {}
        self._untold = 0.0
        told: dict[str, dict[str, list[float]]] = {}
        for (partition, target), (weight, sums) in self._means.items():
            told.setdefault(partition, {})[target] = [_rounded(one / weight) for one in sums]
        return told


def _rounded(value: float) -> float:
    return float(f"{value:.{DIGITS}g}")
