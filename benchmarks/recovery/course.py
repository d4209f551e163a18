"""The course of one incident, read from the control plane's numbered events. Pure.

Times are seconds since the failure (negative before it). A failed query counts as unavailable from the
failure on, although the control plane only notices some seconds later, until it is reported available after
having been reported unavailable. The others are what they are reported to be.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from statistics import fmean
from typing import Any

from domain.availability import Milestones, Sample, milestones, sample

# Latencies below this many seconds count as this much: a ratio of two tiny numbers says nothing.
FLOOR = 0.05


@dataclass(frozen=True, slots=True)
class Observation:
    """What one event says of a query: mean latency of the tuples just applied (of a stalled query the age of
    what waits longest), and whether it counts as available."""

    at: float
    latency: float
    available: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class WaveRecord:
    """One plan of the incident and when it got how far; None for what did not happen."""

    topology: str
    generation: int
    wave: int
    method: str
    rollback: bool
    created: float
    published: float | None
    applied: float | None
    caught_up: float | None
    restored: tuple[str, ...]
    queries: tuple[str, ...]


@dataclass(slots=True)
class Course:
    """baselines: seconds of latency before the failure. arrivals: when nodes joined after it, in order."""

    failed: tuple[str, ...]
    priorities: dict[str, int]
    baselines: dict[str, float]
    observations: dict[str, list[Observation]]
    arrivals: list[tuple[float, str]]
    waves: list[WaveRecord]
    returned: dict[str, float] = field(init=False)

    def __post_init__(self) -> None:
        self.returned = {}
        for query in self.failed:
            back = _returned(self.observations.get(query, ()))
            if back is not None:
                self.returned[query] = back

    @property
    def milestones(self) -> Milestones:
        return milestones(len(self.failed), self.returned.values())

    @property
    def untouched(self) -> tuple[str, ...]:
        return tuple(query for query in self.observations if query not in self.failed)

    def up(self, query: str, at: float) -> bool:
        """Whether a query counts as available at a moment."""
        if query in self.failed and 0 <= at < self.returned.get(query, at + 1):
            return False
        seen = self._last(query, at)
        return seen is not None and seen.available

    def availability(self, queries: Collection[str] | None = None) -> list[Sample]:
        """The step curve of availability of the failed queries (or those given), from the failure on."""
        chosen = self.failed if queries is None else tuple(queries)
        moments = {0.0}
        for query in chosen:
            moments.update(seen.at for seen in self.observations.get(query, ()) if seen.at > 0)
        return [
            sample(at, {query: self.up(query, at) for query in chosen}, self.priorities)
            for at in sorted(moments)
        ]

    def relative(self, queries: Iterable[str], at: float) -> float | None:
        """Mean relative latency of these queries at a moment; None where nothing is known."""
        ratios: list[float] = []
        for query in queries:
            seen, before = self._last(query, at), self.baselines.get(query)
            if seen is not None and before is not None:
                # Of a query that waits, what waits grows older until the next report.
                ratios.append(max(seen.latency, FLOOR) / max(before, FLOOR))
        return fmean(ratios) if ratios else None

    def latencies(self, queries: Iterable[str], start: float, end: float) -> list[float]:
        """Every latency observed of these queries within the interval."""
        return [
            seen.latency
            for query in queries
            for seen in self.observations.get(query, ())
            if start <= seen.at <= end
        ]

    def _last(self, query: str, at: float) -> Observation | None:
        seen = self.observations.get(query, [])
        index = bisect_right(seen, at, key=lambda one: one.at)
        return seen[index - 1] if index else None


def _returned(seen: Iterable[Observation]) -> float | None:
    noticed = False
    for one in seen:
        if one.at <= 0:
            continue
        if not one.available:
            noticed = True
        elif noticed:
            return one.at
    return None


def course_of(
    events: Iterable[Mapping[str, Any]],
    plans: Iterable[Mapping[str, Any]],
    *,
    topology: str,
    failed_at: float,
    failed: Sequence[str],
    priorities: Mapping[str, int],
    baselines: Mapping[str, float],
) -> Course:
    """Put together what the numbered events and the plans of an incident say. `failed_at`: Unix seconds. The
    events begin while every query is available."""
    up: dict[str, bool] = {}
    observations: dict[str, list[Observation]] = {}
    arrivals: list[tuple[float, str]] = []
    for event in events:
        at = unix(event["at"]) - failed_at
        if event["kind"] == "node.joined" and at > 0:
            arrivals.append((at, str(event["node"])))
        for change in event["changes"]:
            fields, (owner, _, query) = change["fields"], change["key"].partition("/")
            if change["entity"] != "query" or fields is None or owner != topology:
                continue
            # Where nothing but numbers changed, there is nothing else; and an event may tell of health alone.
            up[query] = bool(fields.get("available", up.get(query, True)))
            if fields.get("latency") is not None:
                seen = Observation(at, float(fields["latency"]), up[query])
                observations.setdefault(query, []).append(seen)
    return Course(
        failed=tuple(failed),
        priorities=dict(priorities),
        baselines=dict(baselines),
        observations=observations,
        arrivals=sorted(arrivals),
        waves=sorted((_wave(plan, failed_at) for plan in plans), key=lambda wave: wave.generation),
    )


def _wave(plan: Mapping[str, Any], failed_at: float) -> WaveRecord:
    def since(instant: str | None) -> float | None:
        return None if instant is None else round(unix(instant) - failed_at, 3)

    created = since(plan["created_at"])
    return WaveRecord(
        topology=plan["topology"],
        generation=plan["generation"],
        wave=plan["wave"],
        method=plan["method"],
        rollback=plan["rollback"],
        created=created if created is not None else 0.0,
        published=since(plan["published_at"]),
        applied=since(plan["applied_at"]),
        caught_up=since(plan["caught_up_at"]),
        restored=tuple(plan["restore"]),
        queries=tuple(plan["explanation"].get("queries", ())),
    )


def unix(instant: str) -> float:
    """An ISO 8601 time as Unix seconds."""
    return datetime.fromisoformat(instant).timestamp()


def percentile(values: Sequence[float], share: float) -> float | None:
    """The smallest value that at least this share of the values does not exceed."""
    if not values:
        return None
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, max(0, -int(-share * len(ordered) // 1) - 1))]
