"""How wrong estimates were, and the range that follows from it. Pure.

For each kind of thing (incident, wave, query) and each stage in which it was predicted, the ratios truth /
estimate of earlier incidents are kept, the newest first to count. The estimate that is shown is the raw one
times the median of these ratios, and the range of 80 % goes from their tenth to their ninetieth percentile.
Until there are ratios, and a little longer, a prior counts as so many incidents. So a run of estimates that
were close makes the range narrow, and surprises make it wide.

That is split conformal prediction: while incidents resemble those before, the range holds the truth in
80 % of the cases, whatever the estimates are worth.
"""

from __future__ import annotations

import math
from collections import defaultdict, deque
from collections.abc import Iterable
from dataclasses import dataclass

from domain.forecast.outlook import Expected, Kind, Stage

PRIOR = (0.4, 0.6, 0.75, 0.9, 1.0, 1.15, 1.4, 2.0)
"""Ratios truth / estimate that are assumed in the beginning."""
KEPT = 100
"""Ratios of one kind and stage: older ones are of another installation, practically."""
OF_ONE_INCIDENT = 4
"""Ratios of one kind and stage that one incident adds: its queries return together, and are no independent
cases."""
SHARE = 0.8
SHORTEST = 1.0
"""Seconds; shorter times are as good as none, and their ratio says nothing."""


@dataclass(frozen=True, slots=True)
class Range:
    """Seconds from now."""

    expected: float
    low: float
    high: float

    def holds(self, seconds: float) -> bool:
        return self.low <= seconds <= self.high


class Spread:
    """Ratios truth / estimate by kind and stage."""

    def __init__(self) -> None:
        self._kept: defaultdict[tuple[Kind, Stage], deque[float]] = defaultdict(lambda: deque(maxlen=KEPT))

    def learn(self, cases: Iterable[tuple[Kind, Stage, float, float]]) -> None:
        """What one incident showed: (kind, stage, seconds that were estimated, seconds that it took)."""
        shown: defaultdict[tuple[Kind, Stage], list[float]] = defaultdict(list)
        for kind, stage, estimated, took in cases:
            shown[kind, stage].append(ratio(estimated, took))
        for key, ratios in shown.items():
            self._kept[key].extend(_representatives(sorted(ratios)))

    def range_of(self, expected: Expected) -> Range:
        """Raw seconds to what is shown."""
        ratios = sorted((*PRIOR, *self._kept[expected.kind, expected.stage]))
        seconds = max(SHORTEST, expected.seconds)
        low, high = (1 - SHARE) / 2, (1 + SHARE) / 2
        return Range(
            expected=seconds * _middle(ratios),
            low=seconds * ratios[max(0, math.floor((len(ratios) + 1) * low) - 1)],
            high=seconds * ratios[min(len(ratios), math.ceil((len(ratios) + 1) * high)) - 1],
        )

    def count(self, kind: Kind, stage: Stage) -> int:
        """Ratios that were seen, without the prior."""
        return len(self._kept[kind, stage])


def ratio(estimated: float, took: float) -> float:
    return max(SHORTEST, took) / max(SHORTEST, estimated)


def _middle(ratios: list[float]) -> float:
    middle = len(ratios) // 2
    return ratios[middle] if len(ratios) % 2 else math.sqrt(ratios[middle - 1] * ratios[middle])


def _representatives(ratios: list[float]) -> list[float]:
    """A few that stand for all, evenly spread over their order."""
    if len(ratios) <= OF_ONE_INCIDENT:
        return ratios
    return [ratios[round((k + 0.5) * len(ratios) / OF_ONE_INCIDENT - 0.5)] for k in range(OF_ONE_INCIDENT)]
