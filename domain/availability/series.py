"""Availability of a topology over time: samples, milestones of an incident, area under the curve."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import ceil


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """`weighted`: share of the summed priorities that is available, 0 to 1."""

    at: float
    available: int
    total: int
    weighted: float


def sample(at: float, available: Mapping[str, bool], priorities: Mapping[str, int]) -> Sample:
    """Count the available queries; a query without a priority counts 1."""
    weight = {query: priorities.get(query, 1) for query in available}
    total = sum(weight.values())
    return Sample(
        at=at,
        available=sum(available.values()),
        total=len(available),
        weighted=sum(weight[query] for query, up in available.items() if up) / total if total else 1.0,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Milestones:
    """When the first, half (rounded up) and all of the failed queries were available again."""

    first: float | None = None
    half: float | None = None
    all: float | None = None


def milestones(failed: int, returned: Iterable[float]) -> Milestones:
    """failed: number of queries that failed. returned: for each that is back, since when."""
    times = sorted(returned)
    if failed <= 0:
        return Milestones()

    def nth(count: int) -> float | None:
        return times[count - 1] if len(times) >= count else None

    return Milestones(first=nth(1), half=nth(ceil(failed / 2)), all=nth(failed))


def area(samples: Sequence[Sample], start: float, end: float) -> float:
    """Mean weighted availability between `start` and `end`: the normalised area under the step curve.

    Before its first sample the curve has that sample's value. Raises ValueError for an empty interval.
    """
    if end <= start:
        raise ValueError(f"no time between {start} and {end}")
    if not samples:
        return 1.0
    ordered = sorted(samples, key=lambda one: one.at)
    level, at, total = ordered[0].weighted, start, 0.0
    for one in ordered:
        if one.at >= end:
            break
        if one.at > at:
            total += level * (one.at - at)
            at = one.at
        level = one.weighted
    return (total + level * (end - at)) / (end - start)
