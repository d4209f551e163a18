"""Times in which a source delivers more than its rate, as after an outage of what is upstream of it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

MOST = 100
LARGEST = 100.0
"""Times the rate."""
LONGEST = 10**9
"""Seconds."""

Surge = Sequence[float]
"""From and until how many seconds after the start, and how many times the rate arrives meanwhile."""


def delivered(seconds: float, surges: Sequence[Surge]) -> float:
    """How many seconds of input have arrived so long after the start."""
    more = sum((factor - 1.0) * max(0.0, min(seconds, end) - begin) for begin, end, factor in surges)
    return seconds + more


def surges_problems(surges: Any) -> list[str]:
    """What is wrong with the parameter `surges` of a source."""
    if surges is None:
        return []
    form = "a list of [from second, to second, times the rate], such as [[60, 180, 2.0]]"
    if not isinstance(surges, list) or not all(isinstance(one, list) and len(one) == 3 for one in surges):
        return [f"surges must be {form}, not {surges!r}"]
    if len(surges) > MOST:
        return [f"surges has {len(surges)} entries, more than {MOST}"]
    found: list[str] = []
    until = 0.0
    for one in surges:
        if not all(isinstance(value, int | float) and not isinstance(value, bool) for value in one):
            return [f"surges must be {form}, not {surges!r}"]
        begin, end, factor = one
        if not until <= begin < end <= LONGEST:
            found.append(f"surge {one} must begin before it ends, and after the one before it has ended")
        if not 0.0 < factor <= LARGEST:
            found.append(f"surge {one} must be of more than 0 and at most {LARGEST:g} times the rate")
        until = end
    return found
