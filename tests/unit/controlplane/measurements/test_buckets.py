"""Merged figures are those of all values, and no bucket is shorter than what is kept."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controlplane.measurements.buckets import LEVELS, MOST_POINTS, Figure, begin_of, level_for, together

NOW = datetime(2026, 3, 1, 12, 0, 7, tzinfo=UTC)
VALUES = st.lists(st.floats(-1e6, 1e6), min_size=1, max_size=20)


@given(st.lists(VALUES, min_size=1, max_size=6))
def test_merged_figures_are_those_of_all_values(buckets: list[list[float]]) -> None:
    whole = Figure.of(value for bucket in buckets for value in bucket)
    merged = Figure.merged(Figure.read(Figure.of(bucket).stored()) for bucket in buckets)
    assert merged.count == whole.count
    assert (merged.low, merged.high) == pytest.approx((whole.low, whole.high), abs=1e-5)
    assert merged.mean == pytest.approx(whole.mean, rel=1e-6, abs=1e-5)


def test_nothing_has_no_figure() -> None:
    with pytest.raises(ValueError, match="no value"):
        Figure.of([])
    with pytest.raises(ValueError, match="no value"):
        Figure.merged([])


@given(st.integers(0, 4 * 10**9), st.sampled_from([level.seconds for level in LEVELS]))
def test_a_piece_contains_what_it_is_asked_for(second: int, seconds: int) -> None:
    at = datetime.fromtimestamp(second, tz=UTC)
    begin = begin_of(at, seconds)
    assert begin <= at < begin + timedelta(seconds=seconds)
    assert begin_of(begin, seconds) == begin


@given(st.floats(1, 40 * 86_400), st.floats(1, 40 * 86_400))
def test_the_finest_level_that_is_still_there_and_not_too_long(age: float, span: float) -> None:
    since = NOW - timedelta(seconds=age)
    level = level_for(since, since + timedelta(seconds=span), now=NOW)
    for finer in LEVELS[: LEVELS.index(level)]:
        assert finer.age is not None
        assert age > finer.age or span / finer.seconds > MOST_POINTS
    assert level.age is None or age <= level.age
    length = together(level, since, since + timedelta(seconds=span))
    assert length % level.seconds == 0
    assert span / length <= MOST_POINTS


@pytest.mark.parametrize(
    ("age", "seconds"), [(900, 10), (7_200, 10), (7_201, 60), (86_400, 60), (7 * 86_400, 600)]
)
def test_what_is_shown_of_the_usual_ranges(age: float, seconds: int) -> None:
    assert level_for(NOW - timedelta(seconds=age), NOW, now=NOW).seconds == seconds
