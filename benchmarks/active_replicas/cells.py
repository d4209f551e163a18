"""What is measured: which failures, with which technique, in which order. Pure."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Literal

from benchmarks.active_replicas.pipeline import WINDOW

Failure = Literal["single", "correlated"]
RATES = (500, 1000)
"""Tuples per second of one source partition; the paper's are 1,000 and 2,000."""
INTERVALS = (5.0, 15.0, 30.0)
QUICK_INTERVAL = 15.0
FIGURES = (7, 8, 9, 10)
NOTHING, HALF, ALL = 0.0, 0.5, 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Cell:
    """One kill. share: of all partitions that have a replica. age: seconds of input since the newest
    checkpoint; None for as many as there are since the deployment, without any checkpoint."""

    failure: Failure
    share: float
    age: float | None

    @property
    def technique(self) -> str:
        if self.share:
            return f"PPA-{self.share:g}"
        return "source replay" if self.age is None else f"checkpoint, {self.age:g} s"

    def __str__(self) -> str:
        age = "" if self.age is None or not self.share else f", checkpoint, {self.age:g} s"
        return f"{self.failure}, {self.technique}{age}"


def stacks_of(figures: Collection[int], *, intervals: Sequence[float], replay: bool) -> list[list[Cell]]:
    """The kills of each stack for one rate, in order: a replay of everything is the first on its stack, and
    single nodes come last, since what is restored after them is in both racks."""
    first: list[Cell] = []
    alone: list[Cell] = []
    cells: list[Cell] = []
    if 8 in figures or 10 in figures:
        first = [Cell(failure="correlated", share=NOTHING, age=None)] if replay and 8 in figures else []
        cells += [Cell(failure="correlated", share=NOTHING, age=age) for age in intervals]
        cells += [Cell(failure="correlated", share=HALF, age=age) for age in intervals if 10 in figures]
        ages = intervals if 10 in figures else intervals[:1]
        cells += [Cell(failure="correlated", share=ALL, age=age) for age in ages]
    if 7 in figures:
        # All have replicas at the end of what is above, and give output with least delay of all.
        cells += [Cell(failure="single", share=ALL, age=intervals[0])]
        cells += [Cell(failure="single", share=NOTHING, age=age) for age in intervals]
        alone = [Cell(failure="single", share=NOTHING, age=None)] if replay else []
    return [stack for stack in ([*first, *cells], alone) if stack]


def replayed(cell: Cell) -> float:
    """Seconds of input that have to be there before the kill."""
    return WINDOW if cell.age is None else cell.age
