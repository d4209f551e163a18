"""Which queries give tentative output in a simulated recovery, and when. Pure.

By the rules of `domain.execution.branches`: a partition that lacks an input goes on beside its exact state,
if it has run since it was last level with the time, until it has caught up by exact replay. How much of a
query's output is left follows from what is level and what goes on so.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from domain.simulation.fluid import INSTANT, Flags, Fluid
from domain.simulation.scenario import SimulatedTopology


class Span(NamedTuple):
    """Tentative output of one query from `begin` to `end`, in seconds of simulated time; fidelity: share of
    its output that is left, 0 to 1."""

    begin: float
    end: float
    fidelity: float


class GoingOn:
    """Tell it of every change of the fluid after it is made, and when partitions may have caught up: what
    holds then is taken to hold until the next time."""

    def __init__(self, topologies: Sequence[SimulatedTopology], fluid: Fluid) -> None:
        self._fluid = fluid
        self._topologies = [one for one in topologies if one.tentative is not None]
        self._unbroken: Flags = np.ones(len(fluid.names), dtype=bool)
        """Partitions that have run since they were last level."""
        self._now: dict[str, tuple[float, float]] = {}
        self.spans: dict[str, list[Span]] = {}

    def changed(self) -> None:
        if not self._topologies:
            return
        fluid = self._fluid
        level = fluid.level()
        self._unbroken = fluid.running & (self._unbroken | level)
        beside = self._unbroken & ~level
        left: dict[str, float] = {}
        for one in self._topologies:
            left.update(self._left(one, level, beside))
        for query, (begin, fidelity) in list(self._now.items()):
            if left.get(query) != fidelity:
                self._end(query, begin, fidelity)
        for query, fidelity in left.items():
            self._now.setdefault(query, (fluid.now, fidelity))

    def _left(self, one: SimulatedTopology, level: Flags, beside: Flags) -> Iterator[tuple[str, float]]:
        if one.tentative is None:
            return
        name, index = one.topology.name, self._fluid.index
        places = {partition: index[f"{name}/{partition}"] for partition in one.topology.partitions}
        if not any(beside[place] for place in places.values()):
            return
        running = [partition for partition, place in places.items() if level[place] or beside[place]]
        for query, fidelity in one.tentative.left(running).items():
            if beside[places[query]]:
                yield f"{name}/{query}", fidelity

    def _end(self, query: str, begin: float, fidelity: float) -> None:
        del self._now[query]
        if self._fluid.now > begin + INSTANT:
            self.spans.setdefault(query, []).append(Span(begin, self._fluid.now, fidelity))

    def finish(self) -> None:
        """No further change will come: what goes on does so for ever."""
        for query, (begin, fidelity) in self._now.items():
            self.spans.setdefault(query, []).append(Span(begin, float("inf"), fidelity))
        self._now = {}

    def within(self, query: str, gaps: Sequence[tuple[float, float]]) -> tuple[Span, ...]:
        """Its spans, as far as the query is not available."""
        return tuple(
            Span(max(begin, low), min(end, high), fidelity)
            for begin, end, fidelity in self.spans.get(query, ())
            for low, high in gaps
            if max(begin, low) < min(end, high)
        )
