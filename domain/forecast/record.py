"""The predictions of one incident that are kept, so that they can be compared with what came. Pure.

One is kept whenever something begins another stage (see `domain.forecast.outlook`): then it is known better
what is left. What is shown in between is computed anew each time and is not kept.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from domain.forecast.outlook import Expected, Kind, Outlook, Stage
from domain.forecast.spread import Spread


@dataclass(frozen=True, slots=True, kw_only=True)
class Prediction:
    """Moments in Unix seconds. raw: seconds before the ratios of earlier incidents were applied. over_at:
    when it came true, None before."""

    kind: Kind
    subject: str
    stage: Stage
    made_at: float
    raw: float
    expected_at: float
    low_at: float
    high_at: float
    over_at: float | None = None

    @property
    def held(self) -> bool | None:
        """Whether the range contained the truth; None while it is not known."""
        return None if self.over_at is None else self.low_at <= self.over_at <= self.high_at


def predict(expected: Expected, at: float, spread: Spread) -> Prediction:
    found = spread.range_of(expected)
    return Prediction(
        kind=expected.kind,
        subject=expected.subject,
        stage=expected.stage,
        made_at=at,
        raw=expected.seconds,
        expected_at=at + found.expected,
        low_at=at + found.low,
        high_at=at + found.high,
    )


def follow(outlook: Outlook, spread: Spread, last: Mapping[tuple[Kind, str], Stage]) -> Iterable[Prediction]:
    """Predictions to keep now. last: the stage of the newest one that is kept, by kind and subject."""
    everything = [*outlook.queries, *outlook.waves, *([outlook.incident] if outlook.incident else [])]
    for expected in everything:
        if last.get((expected.kind, expected.subject)) != expected.stage:
            yield predict(expected, outlook.at, spread)


def overs(predictions: Iterable[Prediction]) -> list[tuple[Kind, Stage, float, float]]:
    """Cases to learn from: those that came true."""
    return [
        (one.kind, one.stage, one.raw, one.over_at - one.made_at)
        for one in predictions
        if one.over_at is not None and one.over_at > one.made_at
    ]
