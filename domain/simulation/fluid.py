"""The data plane as a fluid: how far in the input every partition is, exactly, between two changes.

Each partition has a *position*: the moment of the input it has worked through to. In peace it equals the
time. A partition that does not run stands still, and so does everything it feeds. One that was put back to
a checkpoint advances by `speed` seconds of input in a second, and none gets ahead of what feeds it, nor of
the time. So positions are piecewise linear, and the moment at which a partition has caught up can be
computed, not searched:

    position(t) = max(position(t0), min(t, position(t0) + speed (t - t0), positions upstream at t))
    caught up   = max(t0 + (t0 - position(t0)) / (speed - 1), that of everything upstream)

The first formula holds because nothing moves faster than `speed`: one that waited for its input follows
it from then on. Positions are arrays over all partitions of all topologies, and one step over the graph
is one step per level.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from domain.topology import Topology

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]
Flags = NDArray[np.bool_]

NEVER = np.inf
INSTANT = 1e-9
"""Seconds below which two moments are the same."""


@dataclass(frozen=True, slots=True)
class _Level:
    """Partitions of one level that have inputs, and these inputs one after another."""

    targets: Integers
    sources: Integers
    offsets: Integers


class Fluid:
    """Positions of all partitions. Names are `topology/O3[2]`; `index` gives their place in the arrays."""

    def __init__(self, topologies: Sequence[Topology], *, speed: float, at: float) -> None:
        """Everything runs and is level with the time."""
        if speed <= 1.0:
            raise ValueError(f"a replay at {speed:g} times real time never catches up")
        self.speed = speed
        self.now = at
        self.names = [f"{t.name}/{partition}" for t in topologies for partition in t.partitions]
        self.index = {name: i for i, name in enumerate(self.names)}
        self.position: Floats = np.full(len(self.names), at)
        self.running: Flags = np.ones(len(self.names), dtype=bool)
        self.queries = [f"{t.name}/{query}" for t in topologies for query in t.queries]
        self.query_at: Integers = np.array([self.index[query] for query in self.queries], dtype=np.int64)
        self._levels = _levels(topologies, self.index)

    def indices(self, names: Iterable[str]) -> Integers:
        return np.array([self.index[name] for name in names], dtype=np.int64)

    def advance(self, to: float) -> None:
        """Let time pass. In how many steps makes no difference."""
        if to < self.now:
            raise ValueError(f"time goes on: {to} is before {self.now}")
        before = self.position
        after = np.where(self.running, np.minimum(before + self.speed * (to - self.now), to), before)
        for level in self._levels:
            # What does not run cannot replay for others either.
            given = np.where(self.running[level.sources], after[level.sources], -np.inf)
            limit = np.minimum.reduceat(given, level.offsets)
            own = after[level.targets]
            # Who is ahead of its input already waits there.
            after[level.targets] = np.maximum(before[level.targets], np.minimum(own, limit))
        self.position, self.now = after, to

    def stop(self, partitions: Integers) -> None:
        """These do not run from now on; they stay where they are."""
        self.running[partitions] = False

    def start(self, partitions: Integers, position: float) -> None:
        """These run from now on, beginning at `position`."""
        self.position[partitions] = min(position, self.now)
        self.running[partitions] = True

    def caught_up(self) -> Floats:
        """For each partition the moment at which it is level with the time, as things stand; `NEVER` where
        it or something upstream does not run. The present for what is level already."""
        lag = self.now - self.position
        lag[lag < INSTANT] = 0.0
        moments = np.where(self.running, self.now + lag / (self.speed - 1.0), NEVER)
        for level in self._levels:
            above = np.maximum.reduceat(moments[level.sources], level.offsets)
            moments[level.targets] = np.maximum(moments[level.targets], above)
        return moments

    def level(self) -> Flags:
        """For each partition whether it and everything upstream of it runs and is level with the time."""
        return self._through(self.running & (self.position >= self.now - INSTANT))

    def whole(self) -> Flags:
        """For each query whether all of it runs."""
        return self.supported(self.running)

    def touched(self, partitions: Integers) -> Flags:
        """For each query whether it needs one of these partitions."""
        kept = np.ones(len(self.names), dtype=bool)
        kept[partitions] = False
        return ~self.supported(kept)

    def supported(self, partitions: Flags) -> Flags:
        """For each query whether the flag holds for all its partitions."""
        return self._through(partitions)[self.query_at]

    def _through(self, flags: Flags) -> Flags:
        """Whether a flag holds of each partition and of everything upstream of it."""
        found = flags.copy()
        for level in self._levels:
            found[level.targets] &= np.logical_and.reduceat(found[level.sources], level.offsets)
        return found


def _levels(topologies: Sequence[Topology], index: dict[str, int]) -> list[_Level]:
    """The streams of all topologies, level by level. The partitions of a cycle are on one level, and each
    waits for all of them."""
    found: dict[int, list[tuple[int, list[int]]]] = {}
    for topology in topologies:
        level_of: dict[str, int] = {}
        for group in topology.groups:
            above = topology.above(group)
            level = 1 + max((level_of[source] for source in above), default=-1)
            level_of.update(dict.fromkeys(group, level))
            waited_for = above.union(group if len(group) > 1 else ())
            sources = sorted(index[f"{topology.name}/{source}"] for source in waited_for)
            for partition in group if sources else ():
                found.setdefault(level, []).append((index[f"{topology.name}/{partition}"], sources))
    levels = []
    for _, members in sorted(found.items()):
        lengths = np.array([len(sources) for _, sources in members], dtype=np.int64)
        levels.append(
            _Level(
                targets=np.array([target for target, _ in members], dtype=np.int64),
                sources=np.array([s for _, sources in members for s in sources], dtype=np.int64),
                offsets=np.concatenate(([0], np.cumsum(lengths)[:-1])),
            )
        )
    return levels
