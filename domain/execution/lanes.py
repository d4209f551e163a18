"""Which epochs run next, and for whom, when partitions have come differently far. Pure.

After a correlated failure the partitions of a topology stand at different epochs: those the failure did not
touch go on, those restored start at the checkpoint. The *reach* of a partition is the least progress among
itself and everything upstream of it, because nobody can go on from more than that. Partitions of equal reach
advance together, in a *lane*.

A partition behind its inputs needs what they sent in epochs they have long passed. They still have it in
their buffers (adaptive buffering, incremental recovery section 4.2), or they compute it again in a *fork*:
their state is versioned, so they start from the manifest of an older epoch, in memory, and change nothing.
That is what replaces the paper's global rollback: only ancestors of failed partitions work twice, and nobody
waits for them.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field

from domain.topology import Topology

Channel = tuple[str, str]
"""A source partition and one of its target partitions."""


@dataclass(frozen=True, slots=True)
class Lane:
    """Run epochs `first..last` (both included).

    starts: partition -> epoch of the state it starts from. Epochs up to its progress are a fork: outputs
    without effects. serves: partition -> targets to which it sends its buffered outputs of `first..last`.
    """

    first: int
    last: int
    starts: dict[str, int]
    serves: dict[str, list[str]] = field(default_factory=dict)

    @property
    def epochs(self) -> int:
        return self.last - self.first + 1


@dataclass(slots=True)
class Coverage:
    """Which epochs of which channels are buffered at the source partition, as runs in ascending order. The
    present fills one end while forks fill the other."""

    runs: dict[Channel, list[tuple[int, int]]] = field(default_factory=dict)

    def add(self, channel: Channel, first: int, last: int) -> None:
        """Epochs first..last are buffered now."""
        if first > last:
            return
        apart: list[tuple[int, int]] = []
        for low, high in self.runs.get(channel, ()):
            if high + 1 < first or last + 1 < low:
                apart.append((low, high))
            else:
                first, last = min(first, low), max(last, high)
        self.runs[channel] = sorted([*apart, (first, last)])

    def covers(self, channel: Channel, first: int, last: int) -> bool:
        return any(low <= first and last <= high for low, high in self.runs.get(channel, ()))

    def forget(self, partitions: Collection[str]) -> None:
        """The buffers of these partitions are gone or void."""
        gone = [channel for channel in self.runs if channel[0] in partitions]
        for channel in gone:
            del self.runs[channel]


def blocked_partitions(topology: Topology, absent: Collection[str]) -> set[str]:
    """Absent partitions and everything downstream of them: they cannot advance."""
    blocked = set(absent)
    for partition in topology.partitions:
        if any(source in blocked for source in topology.upstream(partition)):
            blocked.add(partition)
    return blocked


def reaches(topology: Topology, progress: Mapping[str, int], blocked: Collection[str]) -> dict[str, int]:
    """The reach of every partition that is not blocked."""
    reach: dict[str, int] = {}
    for partition in topology.partitions:
        if partition not in blocked:
            above = [reach[source] for source in topology.upstream(partition)]
            reach[partition] = min([progress[partition], *above])
    return reach


def lane_between(
    topology: Topology,
    progress: Mapping[str, int],
    reach: Mapping[str, int],
    coverage: Coverage,
    *,
    levels: Collection[int],
    last: int,
) -> Lane:
    """The lane that brings everybody whose reach is one of `levels` to epoch `last`.

    Goes against the streams: who advances needs, of each input, every epoch from its own start on. An input
    that has passed them serves them from its buffer where that holds all of them, else it starts there too.
    """
    starts: dict[str, int] = {}
    serves: dict[str, list[str]] = {}
    for partition in reversed(topology.partitions):
        own = progress[partition]
        start = own if reach.get(partition) in levels and own < last else None
        for target in topology.downstream(partition):
            wanted = starts.get(target)
            passed = min(own, last)
            if wanted is None or wanted >= passed:
                continue
            if coverage.covers((partition, target), wanted + 1, passed):
                serves.setdefault(partition, []).append(target)
            else:
                start = wanted if start is None else min(start, wanted)
        if start is not None:
            starts[partition] = start
    first = min([*starts.values(), last - 1]) + 1
    return Lane(first, last, starts, serves)


def next_lanes(
    topology: Topology,
    progress: Mapping[str, int],
    *,
    absent: Collection[str],
    coverage: Coverage,
    head: int,
    limit: int,
    replay: int,
) -> list[Lane]:
    """What the next job runs; empty if nobody can advance.

    The first lane is that of the partitions furthest ahead, up to `limit` epochs towards `head`. The second,
    if anybody is behind, brings those next to them up to `replay` epochs further: whoever has least left to
    do is finished first, and earlier waves are the more valuable ones. Where that reaches the first lane
    both become one, which is how those behind join it.
    """
    reach = reaches(topology, progress, blocked_partitions(topology, absent))
    standing = sorted(set(reach.values()), reverse=True)
    if not standing:
        return []
    front = standing[0]
    last = min(head, front + limit)
    behind = [level for level in standing if level < min(front, head)]
    if not behind:
        return _lanes(topology, progress, reach, coverage, [([front], last)])
    level = behind[0]
    if replay < 1:
        return _lanes(topology, progress, reach, coverage, [([front], last)])
    if level + replay >= front:
        return _lanes(topology, progress, reach, coverage, [([front, level], last)])
    return _lanes(topology, progress, reach, coverage, [([front], last), ([level], level + replay)])


def _lanes(
    topology: Topology,
    progress: Mapping[str, int],
    reach: Mapping[str, int],
    coverage: Coverage,
    wanted: Iterable[tuple[Collection[int], int]],
) -> list[Lane]:
    lanes = [
        lane_between(topology, progress, reach, coverage, levels=levels, last=last)
        for levels, last in wanted
        if last > min(levels)
    ]
    return [lane for lane in lanes if lane.starts]
