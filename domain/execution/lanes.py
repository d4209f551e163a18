"""Which epochs run next, and for whom, when partitions have come differently far. Pure.

After a correlated failure the partitions of a topology stand at different epochs: those the failure did not
touch go on, those restored start at the checkpoint. The *reach* of a partition is the least progress among
itself and everything upstream of it, because a partition cannot go on from more than that. Partitions of
equal reach advance together, in a *lane*: those furthest ahead in the lane of the present, those behind in
one that replays what they missed. The two are Spark jobs of their own, and neither waits for the other: no
partition advances in both, a fork starts from a manifest that stays, and the buffers that a replay reads were
written before it began.

A partition behind its inputs needs what they sent in epochs they have long passed. They still have it in
their buffers (adaptive buffering, incremental recovery section 4.2), or they compute it again in a *fork*:
their state is versioned, so they start from the manifest of an older epoch, in memory, and change nothing.
That is what replaces the paper's global rollback: only ancestors of failed partitions work twice, and no
partition waits for them.

What a feedback stream brings in an epoch was sent in the epoch before, and the sender's state after that one
holds it. So it takes neither a buffer nor a fork, but the state must be there before the lane begins: a lane
ends at the latest one epoch after the state of those that send back to it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace

from domain.execution.elsewhere import elsewhere_of
from domain.execution.reach import links_of, reaches
from domain.topology import Topology

Channel = tuple[str, str]
"""A source partition and one of its target partitions."""
Serving = tuple[int, int, list[str]]
"""Epochs first..last, both included, and the targets to which buffered outputs of these are sent."""


@dataclass(frozen=True, slots=True)
class Lane:
    """Run epochs `first..last` (both included).

    starts: partition -> epoch of the state it starts from. Epochs up to its progress are a fork: outputs
    without effects. ends: partition -> its last epoch, of those for which it is before `last`. serves: node
    -> partition -> which of its buffered outputs are sent from there. returns: partition that sends on
    feedback streams -> first and last epoch in which those of the lane read what its states before hold.
    """

    first: int
    last: int
    starts: dict[str, int]
    serves: dict[str, dict[str, list[Serving]]] = field(default_factory=dict)
    ends: dict[str, int] = field(default_factory=dict)
    returns: dict[str, tuple[int, int]] = field(default_factory=dict)

    @property
    def epochs(self) -> int:
        """That a partition runs, at most."""
        return max((self.end(partition) - start for partition, start in self.starts.items()), default=0)

    def end(self, partition: str) -> int:
        return self.ends.get(partition, self.last)

    def beside(self, other: Lane) -> Lane | None:
        """Both in one job; None if a partition runs in both."""
        if not self.starts.keys().isdisjoint(other.starts):
            return None
        last = max(self.last, other.last)
        serves: dict[str, dict[str, list[Serving]]] = {}
        for lane in (self, other):
            for node, sources in lane.serves.items():
                for partition, mine in sources.items():
                    serves.setdefault(node, {}).setdefault(partition, []).extend(mine)
        ends = {p: lane.end(p) for lane in (self, other) for p in lane.starts if lane.end(p) < last}
        starts = {**self.starts, **other.starts}
        returns = {**self.returns, **other.returns}
        for sender in self.returns.keys() & other.returns.keys():
            (low, high), (first, end) = self.returns[sender], other.returns[sender]
            returns[sender] = min(low, first), max(high, end)
        return Lane(min(self.first, other.first), last, starts, serves, ends, returns)


@dataclass(slots=True)
class Coverage:
    """Which epochs of which channels are buffered, and on which node: source -> target -> runs (first, last,
    node), in ascending order, of which no two have an epoch in common. The present fills one end while forks
    fill the other. What a partition buffered before it moved is on the node that it has left."""

    runs: dict[str, dict[str, list[tuple[int, int, str]]]] = field(default_factory=dict)

    def add(self, channel: Channel, first: int, last: int, node: str) -> None:
        """Epochs first..last are buffered on a node now."""
        if first > last:
            return
        source, target = channel
        targets = self.runs.setdefault(source, {})
        apart: list[tuple[int, int, str]] = []
        for low, high, place in targets.get(target, ()):
            if place == node and low <= last + 1 and first <= high + 1:
                first, last = min(first, low), max(last, high)
                continue
            # The newer of two copies counts.
            if low < first:
                apart.append((low, min(high, first - 1), place))
            if high > last:
                apart.append((max(low, last + 1), high, place))
        targets[target] = sorted([*apart, (first, last, node)])

    def pieces(self, channel: Channel, first: int, last: int) -> list[tuple[int, int, str]] | None:
        """Where epochs first..last are: runs in ascending order; None unless all of them are buffered."""
        found: list[tuple[int, int, str]] = []
        for low, high, node in self.runs.get(channel[0], {}).get(channel[1], ()):
            if low > first:
                return None
            if high >= first:
                found.append((first, min(high, last), node))
                if high >= last:
                    return found
                first = high + 1
        return None

    def covers(self, channel: Channel, first: int, last: int) -> bool:
        return self.pieces(channel, first, last) is not None

    def forget(self, partitions: Iterable[str]) -> None:
        """The buffers of these partitions are gone or void."""
        for partition in partitions:
            self.runs.pop(partition, None)

    def forget_except(self, nodes: Collection[str]) -> None:
        """Buffers on all other nodes cannot be reached."""
        for source, targets in list(self.runs.items()):
            for target, runs in list(targets.items()):
                targets[target] = [run for run in runs if run[2] in nodes]
                if not targets[target]:
                    del targets[target]
            if not targets:
                del self.runs[source]


def lane_between(
    topology: Topology,
    progress: Mapping[str, int],
    reach: Mapping[str, int],
    coverage: Coverage,
    *,
    levels: Collection[int],
    last: int,
) -> Lane:
    """The lane that brings all partitions whose reach is one of `levels` to epoch `last`, or as far as
    feedback streams allow.

    Goes against the streams: a partition that advances needs, of each input, every epoch from its start on.
    An input that has passed them serves them from its buffer where that holds all of them, else it starts
    there, too.
    """
    lane = _lane(topology, progress, reach, coverage, levels=levels, last=last)
    returns = _returns(topology, lane)
    while returns and (allowed := 1 + min(progress[sender] for sender in returns)) < lane.last:
        lane = _lane(topology, progress, reach, coverage, levels=levels, last=allowed)
        returns = _returns(topology, lane)
    return replace(lane, returns=returns) if returns else lane


def _returns(topology: Topology, lane: Lane) -> dict[str, tuple[int, int]]:
    """The senders of the feedback streams to those in a lane, and the epochs in which these read."""
    links = links_of(topology)
    found: dict[str, tuple[int, int]] = {}
    for operator, returns in links.returns.items():
        if not returns:
            continue
        begun = {i: lane.starts[p] for i, p in enumerate(links.partitions[operator]) if p in lane.starts}
        for link in returns if begun else ():
            senders = links.partitions[link.other]
            if link.ranges is None:
                first = min(begun.values()) + 1
                found |= {p: (min(first, found.get(p, (first, 0))[0]), lane.last) for p in senders}
                continue
            for index, start in begun.items():
                for other in link.ranges[index]:
                    first = found.get(senders[other], (start + 1, 0))[0]
                    found[senders[other]] = min(first, start + 1), lane.last
    return found


def _lane(
    topology: Topology,
    progress: Mapping[str, int],
    reach: Mapping[str, int],
    coverage: Coverage,
    *,
    levels: Collection[int],
    last: int,
) -> Lane:
    links = links_of(topology)
    starts: dict[str, int] = {}
    served: dict[str, dict[str, dict[tuple[int, int], list[str]]]] = {}
    started: dict[str, dict[int, int]] = {}
    least: dict[str, int] = {}
    for operator, partitions in reversed(links.partitions.items()):
        begun = started[operator] = {}
        for index, partition in enumerate(partitions):
            own = progress[partition]
            passed = min(own, last)
            start = own if reach.get(partition) in levels and own < last else None
            for link in links.outputs[operator]:
                if least[link.other] >= passed:
                    continue  # no target needs an epoch that this partition has passed
                if link.ranges is None and partition not in coverage.runs:
                    start = least[link.other] if start is None else min(start, least[link.other])
                    continue
                names, targets = links.partitions[link.other], started[link.other]
                for other in link.ranges[index] if link.ranges is not None else targets:
                    wanted = targets.get(other, passed)
                    if wanted >= passed:
                        continue
                    pieces = coverage.pieces((partition, names[other]), wanted + 1, passed)
                    if pieces is None:
                        start = wanted if start is None else min(start, wanted)
                        continue
                    for low, high, node in pieces:
                        mine = served.setdefault(node, {}).setdefault(partition, {})
                        mine.setdefault((low, high), []).append(names[other])
            if start is not None:
                starts[partition] = begun[index] = start
        least[operator] = min(begun.values(), default=last)
    first = min([*starts.values(), last - 1]) + 1
    serves = {
        node: {p: [(*epochs, targets) for epochs, targets in mine.items()] for p, mine in sources.items()}
        for node, sources in served.items()
    }
    return Lane(first, last, starts, serves)


def present_lane(
    topology: Topology,
    progress: Mapping[str, int],
    *,
    absent: Collection[str],
    coverage: Coverage,
    head: int,
    limit: int,
    join: int,
) -> Lane | None:
    """What brings the partitions furthest ahead up to `limit` epochs towards `head`; None if no epoch is due.

    Partitions that are at most `join` epochs behind them run in it, too, and are with them from then on.
    Where these are in a cycle, those furthest ahead wait until they are there, an epoch in each lane.
    """
    reach = reaches(topology, progress, absent)
    standing = sorted(set(reach.values()), reverse=True)
    if not standing or standing[0] >= head:
        return None
    front = standing[0]
    levels = [level for level in standing[:2] if level + join >= front]
    lane = lane_between(topology, progress, reach, coverage, levels=levels, last=min(head, front + limit))
    return lane if lane.starts else None


def replay_lane(
    topology: Topology,
    progress: Mapping[str, int],
    *,
    absent: Collection[str],
    coverage: Coverage,
    epochs: int,
    homes: Mapping[str, str] | None = None,
    beside: int = 0,
) -> Lane | None:
    """What brings the partitions next to those furthest ahead up to `epochs` nearer; None if none are behind.

    What has least left to do is finished first, since earlier waves are the more valuable ones. Partitions
    further behind come along where their nodes, by `homes`, would otherwise wait (`elsewhere_of`). Those that
    lack at most `beside` epochs more are with the first ones from then on; others come as many epochs nearer
    as the first ones do.
    """
    reach = reaches(topology, progress, absent)
    standing = sorted(set(reach.values()), reverse=True)
    if len(standing) < 2 or epochs < 1:
        return None
    front, level, *further = standing
    elsewhere = elsewhere_of(topology, reach, level, further, homes or {})
    near = [other for other in elsewhere if level - other <= beside]

    def between(levels: list[int], last: int) -> Lane:
        some = {p: one for p, one in reach.items() if one == level or p in elsewhere.get(one, ())}
        return lane_between(topology, progress, some, coverage, levels=levels, last=min(front, last))

    lane = between([level, *near], level + epochs)
    if near and lane.last <= level:  # those further behind are in a cycle, and cannot run so far at once
        near, lane = [], between([level], level + epochs)
    for other in elsewhere:
        if other not in near:
            lane = lane.beside(between([other], other + epochs)) or lane
    return lane if lane.starts else None
