"""Figures of many measurements."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence


def percentile(values: Sequence[float], share: float) -> float:
    """The smallest measured value that `share` of all do not exceed (nearest rank)."""
    return sorted(values)[max(0, math.ceil(share * len(values)) - 1)]


def summary(values: Sequence[float]) -> dict[str, float]:
    """Median, p99 and the highest, rounded to tenths."""
    figures = {"median": statistics.median(values), "p99": percentile(values, 0.99), "highest": max(values)}
    return {name: round(value, 1) for name, value in figures.items()}
