"""What a simulated recovery came to: waves, queries, curves and the figures drawn from them.

Times are seconds of simulated time; `Outcome.started_at` is that of the first failure, and milestones,
areas and curves handed out are counted from it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from domain.availability import Milestones, Sample, area, milestones
from domain.simulation.going_on import Span
from domain.simulation.provider import Coming


@dataclass(frozen=True, slots=True, kw_only=True)
class WaveOutcome:
    """One decision of the coordinator, over all topologies it concerns.

    decided_at, restored_at: when it was planned, and when its partitions had loaded their checkpoint (None
        if it was superseded before).
    nodes: where it restores. queries: those that are whole by it, or will be once it is carried out.
    cost: CPU percent it restores, of the free `capacity` under the bound at that moment. highest: load of
        the fullest node relative to its bound by that plan, in planned costs; never above 1.
    bound: share of a node that could be planned; more than usual where that gained much
        (`domain.recovery.fuller`).
    planning_seconds: CPU time the coordinator took to decide; of no influence on the simulation.
    """

    number: int
    decided_at: float
    restored_at: float | None
    rollback: bool
    nodes: tuple[str, ...]
    partitions: int
    queries: tuple[str, ...]
    cost: float
    capacity: float
    highest: float
    bound: float
    planning_seconds: float = field(default=0.0, compare=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class QueryOutcome:
    """One query. failed: whether it lost partitions. restored_at: when it was whole again (for the last
    time). gaps: intervals in which it was unavailable; the end is infinite if it stayed so. tentative: when
    it gave tentative output in them."""

    name: str
    priority: int
    failed: bool
    restored_at: float | None
    gaps: tuple[tuple[float, float], ...]
    tentative: tuple[Span, ...] = ()

    @property
    def available_at(self) -> float | None:
        """Since when it is available for good; None if it is not, or was all the time."""
        if not self.gaps or self.gaps[-1][1] == float("inf"):
            return None
        return self.gaps[-1][1]


@dataclass(frozen=True, slots=True, kw_only=True)
class CurvePoint(Sample):
    """tentative: queries that are not available and give tentative output; weighted_tentative: their share of
    the summed priorities, 0 to 1."""

    tentative: int = 0
    weighted_tentative: float = 0.0


@dataclass(frozen=True, slots=True)
class LatencyPoint:
    """Mean relative latency at a moment: of all queries, of those that lost partitions, and of the others
    (1.0 where there are none)."""

    at: float
    everything: float
    failed: float
    others: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """`ended`: whether every incident was closed within the limit of the scenario."""

    method: str
    planner: str
    rollback: str
    started_at: float
    ended_at: float
    ended: bool
    incidents: int
    waves: tuple[WaveOutcome, ...]
    queries: tuple[QueryOutcome, ...]
    curve: tuple[CurvePoint, ...]
    latency: tuple[LatencyPoint, ...]
    arrivals: tuple[Coming, ...]
    planning_seconds: float = field(default=0.0, compare=False)

    @property
    def failed(self) -> list[QueryOutcome]:
        return [query for query in self.queries if query.failed]

    @property
    def milestones(self) -> Milestones:
        """When the first, half and all of the failed queries were available, from the first failure."""
        moments = (query.available_at for query in self.failed)
        returned = [moment - self.started_at for moment in moments if moment is not None]
        return milestones(len(self.failed), returned)

    @property
    def bound(self) -> float:
        """The largest share of a node that could be planned; 0 without a wave."""
        return max((wave.bound for wave in self.waves), default=0.0)

    @property
    def settled_at(self) -> float:
        """Seconds after which availability does not change any more."""
        return max((one.at for one in self.curve), default=self.started_at) - self.started_at

    def area(self, horizon: float) -> float:
        """Mean priority-weighted availability over this many seconds after the first failure."""
        return area(self.curve, self.started_at, self.started_at + horizon)

    def lost(self, horizon: float, *, failed: bool = True) -> float:
        """Priority times seconds of unavailability within the horizon, of the queries that lost partitions
        or (`failed=False`) of those that did not."""
        end = self.started_at + horizon
        return sum(
            query.priority * max(0.0, min(stop, end) - min(start, end))
            for query in self.queries
            if query.failed is failed
            for start, stop in query.gaps
        )


def availability_curve(queries: Sequence[QueryOutcome], start: float) -> tuple[CurvePoint, ...]:
    """The step curve of availability: a point wherever it changes, and one at `start`."""
    changes: dict[float, list[tuple[int, int, int, int]]] = {start: []}
    for query in queries:
        for begin, end in query.gaps:
            changes.setdefault(begin, []).append((-1, -query.priority, 0, 0))
            changes.setdefault(end, []).append((1, query.priority, 0, 0))
        for span in query.tentative:
            changes.setdefault(span.begin, []).append((0, 0, 1, query.priority))
            changes.setdefault(span.end, []).append((0, 0, -1, -query.priority))
    changes.pop(float("inf"), None)
    total, weight = len(queries), sum(query.priority for query in queries)
    state, curve = [total, weight, 0, 0], []
    for at in sorted(changes):
        for change in changes[at]:
            state = [before + by for before, by in zip(state, change, strict=True)]
        up, value, tentative, worth = state
        curve.append(
            CurvePoint(
                at=at,
                available=up,
                total=total,
                weighted=value / weight if weight else 1.0,
                tentative=tentative,
                weighted_tentative=worth / weight if weight else 0.0,
            )
        )
    return tuple(curve)


def thinned(curve: Sequence[CurvePoint], points: int) -> list[CurvePoint]:
    """At most this many points, the first and last among them; of each stretch left out its last."""
    if points < 2:
        raise ValueError("a curve needs at least two points")
    if len(curve) <= points:
        return list(curve)
    step = (len(curve) - 1) / (points - 1)
    return [curve[round(i * step)] for i in range(points)]


def curve_data(curve: Sequence[CurvePoint], start: float, points: int = 300) -> Iterator[dict[str, Any]]:
    """The curve as plain data, seconds from `start`."""
    for one in thinned(curve, points):
        yield {
            "at": round(one.at - start, 3),
            "available": one.available,
            "total": one.total,
            "weighted": round(one.weighted, 6),
            "tentative": one.tentative,
            "weighted_tentative": round(one.weighted_tentative, 6),
        }
