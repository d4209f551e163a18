"""What the benchmark of predicted CPU reports and demands."""

from __future__ import annotations

import argparse
from typing import Any

import pytest

from benchmarks.load import corrected
from benchmarks.prediction import CAPACITY, described, levels_parse, rates_parse, report_of


def level(percent: int, *predicted: float, load: float | None = None) -> dict[str, Any]:
    """A run whose nodes all took the load; predicted: relative to that, of each node-minute."""
    measured = (percent if load is None else load) / 100 * CAPACITY
    rows = [
        {"minute": 0, "node": "n", "predicted": one * measured, "measured": measured, "shown": measured}
        for one in predicted
    ]
    return {"level": percent, "quota": CAPACITY, "rate": 1000, "rows": rows}


def failing(levels: list[dict[str, Any]]) -> list[str]:
    return [criterion.name for criterion in report_of(levels).criteria if not criterion.holds]


def test_errors_are_relative_to_what_was_measured() -> None:
    found = described(level(50, 1.1, 0.9, 1.2, 1.0))
    assert (found["node_minutes"], found["near"]) == (4, 0.75)
    assert found["load"] == pytest.approx(50)
    assert found["bias"] == pytest.approx(0.05)
    assert found["p90"] == pytest.approx(0.2)
    assert found["shown_bias"] == pytest.approx(0.0)


def test_three_levels_with_small_errors_meet_all_criteria() -> None:
    assert failing([level(percent, *[1.1] * 9, 1.3) for percent in (80, 20, 50)]) == []


def test_large_errors_and_a_missed_load_fail() -> None:
    levels = [level(20, 1.0), level(50, 1.1, 1.2), level(80, 1.0, load=71)]
    assert failing(levels) == ["50 %: share within 15%", "80 %: points of load missed"]


def test_a_run_without_minutes_or_levels_fails() -> None:
    assert failing([]) == ["levels measured"]
    empty = [level(20), level(50, 1.0), level(80, 1.0)]
    assert "20 %: node-minutes" in failing(empty)


def test_the_next_rate_is_on_a_line() -> None:
    assert corrected([(1000, 30.0)], 50) == 2000
    assert corrected([(1000, 30.0), (2000, 40.0)], 50) == 3000
    assert corrected([(1000, 70.0), (800, 60.0)], 50) == 600
    assert corrected([(1000, 10.0)], 80) == 5000, "no more than five times as many at once"


def test_options_are_checked() -> None:
    assert levels_parse("20,80") == [20, 80]
    assert rates_parse("20:100,80:5000") == {20: 100, 80: 5000}
    for parse, wrong in ((levels_parse, "x"), (levels_parse, "0"), (rates_parse, "20"), (rates_parse, "a:b")):
        with pytest.raises(argparse.ArgumentTypeError):
            parse(wrong)
