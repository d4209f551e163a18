"""The availability of a topology's queries over time, as a drawing that needs nothing else."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise

WIDTH, HEIGHT = 760, 190
LEFT, RIGHT, TOP, BOTTOM = 44, 12, 26, 26
MOST_POINTS = 1_500
STEPS = (1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 1800, 3600, 7200, 21_600, 43_200, 86_400)


@dataclass(frozen=True, slots=True)
class Point:
    """`at` in seconds after detection; `share` of the priorities that is available, 0 to 1."""

    at: float
    share: float


@dataclass(frozen=True, slots=True)
class Mark:
    at: float
    text: str


@dataclass(frozen=True, slots=True)
class Tick:
    at: float
    text: str


@dataclass(frozen=True, slots=True)
class Curve:
    """Coordinates of the drawing; the template puts them into SVG."""

    line: str
    area: str
    marks: list[Tick]
    across: list[Tick]
    up: list[Tick]
    width: int = WIDTH
    height: int = HEIGHT
    left: int = LEFT
    right: int = WIDTH - RIGHT
    top: int = TOP
    bottom: int = HEIGHT - BOTTOM


def curve_draw(points: Sequence[Point], marks: Iterable[Mark]) -> Curve | None:
    """The curve as steps; None where nothing was measured."""
    if len(points) < 2:
        return None
    start, end = points[0].at, max(points[-1].at, points[0].at + 1.0)

    def x(at: float) -> float:
        return round(LEFT + (min(max(at, start), end) - start) / (end - start) * (WIDTH - LEFT - RIGHT), 1)

    def y(share: float) -> float:
        return round(TOP + (1 - min(max(share, 0.0), 1.0)) * (HEIGHT - TOP - BOTTOM), 1)

    kept = _thinned(points)
    path = [f"M{x(kept[0].at)},{y(kept[0].share)}"]
    for point in kept[1:]:
        path.append(f"H{x(point.at)}V{y(point.share)}")
    line = "".join(path)
    step = next((step for step in STEPS if (end - start) / step <= 10), STEPS[-1])
    first = math.ceil(start / step) * step
    return Curve(
        line=line,
        area=f"{line}V{y(0)}H{x(kept[0].at)}Z",
        marks=[Tick(x(mark.at), mark.text) for mark in marks if start <= mark.at <= end],
        across=[Tick(x(at), _seconds(at)) for at in range(first, math.floor(end) + 1, step)],
        up=[Tick(y(share), f"{share:.0%}") for share in (0.0, 0.5, 1.0)],
    )


def _thinned(points: Sequence[Point]) -> list[Point]:
    """Only where something changes, and at most `MOST_POINTS`: more could not be seen."""
    kept = [points[0]]
    kept += [point for previous, point in pairwise(points) if point.share != previous.share]
    every = math.ceil(len(kept) / MOST_POINTS)
    return [*kept[::every], points[-1]]


def _seconds(at: int) -> str:
    if at % 3600 == 0 and at:
        return f"{at // 3600} h"
    if at % 60 == 0 and at:
        return f"{at // 60} min"
    return f"{at} s"
