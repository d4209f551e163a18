"""What a stage of a job needs besides its work: records for slots, and a count of its tasks.

Spark's Python workers load the modules of all functions that they are sent. These are not in the driver's
modules, so that workers do not load the driver.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from pyspark import Accumulator


def token(slot: int) -> tuple[int, None]:
    """The record that pins a task to its slot."""
    return slot, None


def same_slot(slot: int) -> int:
    """The one partition function of every exchange; it must be this same object throughout."""
    return slot


class CountedStage:
    """A stage whose tasks count when they end."""

    def __init__(self, stage: Any, runs: Accumulator[int]) -> None:
        self.stage = stage
        self.runs = runs

    def __call__(self, position: int, records: Iterable[Any]) -> Iterator[Any]:
        yield from self.stage(position, records)
        self.runs.add(1)
