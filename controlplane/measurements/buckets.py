"""Buckets of time: their means, lows and highs, and how long buckets are at which age.

Buckets begin at multiples of their length since 1970. Six buckets of 10 s give one of a minute, and ten of
these one of 10 minutes.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Final, Self

MOST_POINTS: Final = 2_000
"""Of one answer: buckets are merged where there would be more."""


@dataclass(frozen=True, slots=True)
class Level:
    """Buckets of `seconds`, kept for `age` seconds; None: as long as RESURGE_KEEP_MEASUREMENTS says."""

    seconds: int
    age: float | None


LEVELS: Final = (Level(10, 2 * 3_600.0), Level(60, 26 * 3_600.0), Level(600, None))
FINEST: Final = LEVELS[0].seconds


@dataclass(frozen=True, slots=True)
class Figure:
    """`count` values of one bucket, and their mean, lowest and highest."""

    count: int
    mean: float
    low: float
    high: float

    @classmethod
    def of(cls, values: Iterable[float]) -> Self:
        """Raises ValueError where there are none."""
        found = list(values)
        if not found:
            raise ValueError("there is no figure of no value")
        return cls(len(found), sum(found) / len(found), min(found), max(found))

    @classmethod
    def merged(cls, figures: Iterable[Self]) -> Self:
        """Of several buckets. Raises ValueError where there are none."""
        found = list(figures)
        count = sum(figure.count for figure in found)
        if not count:
            raise ValueError("there is no figure of no value")
        mean = sum(figure.mean * figure.count for figure in found) / count
        return cls(count, mean, min(one.low for one in found), max(one.high for one in found))

    def stored(self) -> list[float]:
        return [self.count, *(round(value, 6) for value in (self.mean, self.low, self.high))]

    @classmethod
    def read(cls, stored: list[float]) -> Self:
        return cls(int(stored[0]), stored[1], stored[2], stored[3])


def begin_of(at: datetime, seconds: int) -> datetime:
    """When the bucket began that contains `at`."""
    return datetime.fromtimestamp(at.timestamp() // seconds * seconds, tz=UTC)


def level_for(since: datetime, until: datetime, *, now: datetime) -> Level:
    """The finest one that reaches back to `since`, with at most `MOST_POINTS` buckets; else the last one."""
    for level in LEVELS:
        reaches = level.age is None or now - since <= timedelta(seconds=level.age)
        if reaches and together(level, since, until) == level.seconds:
            return level
    return LEVELS[-1]


def together(level: Level, since: datetime, until: datetime) -> int:
    """The length, in seconds, of buckets of this level, or of several merged, so that there are at most
    `MOST_POINTS`."""
    buckets = (until - since).total_seconds() / level.seconds
    return level.seconds * max(1, math.ceil(buckets / MOST_POINTS))
