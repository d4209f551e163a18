"""How ranges follow from what earlier incidents showed."""

from __future__ import annotations

import random

from domain.forecast import PRIOR, Outlook, Spread, follow, overs
from domain.forecast.outlook import Expected
from domain.forecast.spread import KEPT, OF_ONE_INCIDENT

WAVE = Expected(kind="wave", subject="t/2", stage="replay", seconds=10.0)


def taught(*ratios: float) -> Spread:
    spread = Spread()
    for one in ratios:
        spread.learn([("wave", "replay", 10.0, 10.0 * one)])
    return spread


def test_at_first_the_prior_decides() -> None:
    found = Spread().range_of(WAVE)
    assert (found.low, found.high) == (10.0 * min(PRIOR), 10.0 * max(PRIOR))
    assert found.low < found.expected < found.high


def test_close_estimates_make_it_narrow_and_surprises_wide() -> None:
    close, wrong = taught(*[1.1] * 90), taught(*[1.1] * 45, *[4.0] * 45)
    narrow, wide = close.range_of(WAVE), wrong.range_of(WAVE)
    assert narrow.high - narrow.low < 0.1 * (wide.high - wide.low)
    assert narrow.expected == 11.0, "the median corrects what is always too short"


def test_kinds_and_stages_are_apart() -> None:
    spread = taught(*[3.0] * 50)
    other = Expected(kind="wave", subject="t/2", stage="start", seconds=10.0)
    assert spread.range_of(other) == Spread().range_of(other)


def test_one_incident_counts_for_a_few_cases() -> None:
    spread = Spread()
    spread.learn([("wave", "replay", 10.0, 10.0 + n) for n in range(1000)])
    assert spread.count("wave", "replay") == OF_ONE_INCIDENT
    for _ in range(2 * KEPT):
        spread.learn([("wave", "replay", 10.0, 10.0)])
    assert spread.count("wave", "replay") == KEPT


def test_the_range_holds_four_truths_of_five() -> None:
    draw, spread, held = random.Random(1), Spread(), 0
    for _ in range(1000):
        took = WAVE.seconds * draw.lognormvariate(0.4, 0.6)
        held += spread.range_of(WAVE).holds(took)
        spread.learn([("wave", "replay", WAVE.seconds, took)])
    assert 0.76 <= held / 1000 <= 0.86


def test_a_prediction_is_kept_when_a_stage_begins() -> None:
    outlook = Outlook(at=100.0, incident=None, waves=(WAVE,))
    (kept,) = follow(outlook, Spread(), {})
    assert (kept.made_at, kept.raw, kept.held) == (100.0, 10.0, None)
    assert [*follow(outlook, Spread(), {("wave", "t/2"): "replay"})] == []
    assert [*follow(outlook, Spread(), {("wave", "t/2"): "start"})] == [kept]
    assert overs([kept]) == []
