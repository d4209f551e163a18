"""Availability of the Flink job's queries, computed as for Resurge's."""

from __future__ import annotations

import pytest

from benchmarks.flink.measuring import course_of, measured
from benchmarks.flink.outputs import Reached
from benchmarks.outcome import longest_gap, on_time

START = 1_700_000_000
PEACE = [Reached(START + n + 0.25, START + n) for n in range(60)]
FAILED_AT = START + 60.0


def test_latency_is_the_mean_age_of_the_tuples_of_a_second() -> None:
    assert measured([Reached(100.25, 100)], end=101.0) == [(100.25, 0.75, False)]


def test_what_waits_grows_older_while_a_query_gets_nowhere() -> None:
    found = measured([Reached(100.0, 100), Reached(105.0, 101)], end=105.5)
    assert found == [
        (100.0, 0.5, False),
        (102.0, 1.5, True),
        (103.0, 2.5, True),
        (104.0, 3.5, True),
        (105.0, 4.5, False),
    ]


def test_nothing_is_measured_of_a_query_without_output() -> None:
    assert measured([], end=10.0) == []


def test_a_query_is_available_when_its_latency_has_been_normal_for_five_seconds() -> None:
    late = [Reached(START + 80 + n / 10, START + 60 + n) for n in range(20)]
    normal = [Reached(START + n + 0.25, START + n) for n in range(82, 100)]
    course = course_of(
        {"O0[0]": [*PEACE, *late, *normal]},
        failed_at=FAILED_AT,
        end=START + 100.0,
        priorities={"O0[0]": 3},
        arrivals=[(21.0, "node-6")],
    )
    assert course.baselines == {"O0[0]": pytest.approx(0.75)}
    # Five seconds of the mean after the last stall, and until the late output has left it.
    assert course.returned["O0[0]"] == pytest.approx(27.25, abs=1.01)
    assert on_time(course).all == pytest.approx(22.25)
    assert longest_gap(course.observations["O0[0]"]) == pytest.approx(20.75, abs=0.3)


def test_a_query_that_never_comes_back_is_unavailable() -> None:
    course = course_of({"O0[0]": PEACE}, failed_at=FAILED_AT, end=FAILED_AT + 30, priorities={}, arrivals=[])
    assert course.returned == {}
    assert on_time(course).all is None
    assert longest_gap(course.observations["O0[0]"]) == pytest.approx(30.0, abs=1.8)
