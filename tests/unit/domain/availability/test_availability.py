"""Relative latency, availability with hysteresis, and the series of an incident."""

from __future__ import annotations

import random
from functools import partial

import pytest

from domain.availability import AvailabilityTracker, Policy, Sample, area, milestones, sample

POLICY = Policy(theta=1.2, window=5.0)


def feed(
    tracker: AvailabilityTracker, latencies: list[float], start: float = 0.0, stalled: bool = False
) -> list[bool]:
    return [
        tracker.observe("O1[0]", at=start + i, latency=latency, stalled=stalled).available
        for i, latency in enumerate(latencies)
    ]


def test_noise_outside_of_an_incident_never_flips_a_query() -> None:
    rng = random.Random(4)
    tracker = AvailabilityTracker(POLICY)
    assert all(feed(tracker, [1.0 * rng.choice([0.5, 1, 1, 2, 8]) for _ in range(300)]))


def test_failed_query_returns_only_after_a_full_window_below_theta() -> None:
    tracker = AvailabilityTracker(POLICY)
    feed(tracker, [1.0] * 20)
    tracker.incident_set(True)
    tracker.query_failed("O1[0]", 20.0)
    verdicts = feed(tracker, [9.0, 6.0, 3.0, 1.1, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0], start=21.0)
    assert not any(verdicts[:8])
    assert verdicts[-1]
    health = tracker.health("O1[0]")
    assert health.baseline == 1.0
    assert health.relative == pytest.approx(1.0)


def test_hysteresis_within_an_incident() -> None:
    tracker = AvailabilityTracker(POLICY)
    feed(tracker, [1.0] * 20)
    tracker.incident_set(True)
    # A query the failure did not touch stays available at 1.4 (below theta x margin), not at 3.
    assert all(feed(tracker, [1.4] * 10, start=20.0))
    assert feed(tracker, [3.0] * 10, start=30.0)[-1] is False
    # After it was unavailable, it must come below theta itself.
    assert feed(tracker, [1.4] * 10, start=40.0)[-1] is False
    assert feed(tracker, [1.0] * 10, start=50.0)[-1] is True


def test_baseline_is_frozen_during_an_incident() -> None:
    tracker = AvailabilityTracker(POLICY)
    feed(tracker, [1.0] * 20)
    tracker.incident_set(True)
    feed(tracker, [30.0] * 200, start=20.0)
    assert tracker.health("O1[0]").baseline == 1.0
    tracker.incident_set(False)
    assert tracker.health("O1[0]").baseline == 1.0


def test_stall_outside_of_an_incident_counts_after_the_limit() -> None:
    tracker = AvailabilityTracker(POLICY)
    feed(tracker, [1.0] * 20)
    verdicts = feed(tracker, [5.0] * 10, start=20.0, stalled=True)
    assert verdicts[0] is True
    assert verdicts[-1] is False


def test_stored_baseline_serves_after_a_restart_within_an_incident() -> None:
    tracker = AvailabilityTracker(POLICY, baselines={"O1[0]": 1.0})
    tracker.incident_set(True)
    assert feed(tracker, [10.0] * 10)[-1] is False
    assert feed(tracker, [1.0] * 10, start=10.0)[-1] is True


def test_tiny_latencies_do_not_make_large_ratios() -> None:
    tracker = AvailabilityTracker(POLICY)
    feed(tracker, [0.001] * 20)
    tracker.incident_set(True)
    assert all(feed(tracker, [0.04] * 10, start=20.0))


def test_late_message_says_nothing_about_now() -> None:
    tracker = AvailabilityTracker(POLICY)
    feed(tracker, [1.0] * 20)
    tracker.observe("O1[0]", at=3.0, latency=50.0, stalled=False)
    assert tracker.health("O1[0]").latency == 1.0


@pytest.mark.parametrize("what", ["stalled", "behind"])
def test_a_query_is_lost_in_time_although_the_clock_was_put_back(what: str) -> None:
    tracker = AvailabilityTracker(POLICY)
    slow = partial(feed, stalled=True) if what == "stalled" else behind
    feed(tracker, [1.0] * 20, start=5_000.0)
    assert all(slow(tracker, [20.0] * 3, start=5_020.0))
    verdicts = slow(tracker, [20.0] * 10, start=1_000.0)
    assert (verdicts[0], verdicts[-1]) == (True, False)


def test_sample_weighs_by_priority() -> None:
    one = sample(1.0, {"a": True, "b": False}, {"a": 9})
    assert (one.available, one.total, one.weighted) == (1, 2, 0.9)


def test_milestones() -> None:
    assert milestones(3, [7.0, 5.0]) == milestones(3, [5.0, 7.0])
    reached = milestones(3, [5.0, 7.0])
    assert (reached.first, reached.half, reached.all) == (5.0, 7.0, None)
    assert milestones(3, [5.0, 7.0, 9.0]).all == 9.0
    assert milestones(0, []).all is None


def test_area_under_the_step_curve() -> None:
    curve = [
        Sample(at=0, available=4, total=4, weighted=1.0),
        Sample(at=2, available=0, total=4, weighted=0.0),
        Sample(at=6, available=2, total=4, weighted=0.5),
    ]
    assert area(curve, 0, 10) == pytest.approx((2 * 1 + 4 * 0 + 4 * 0.5) / 10)
    assert area(curve, 2, 6) == pytest.approx(0.0)
    assert area([], 0, 1) == 1.0
    with pytest.raises(ValueError, match="no time"):
        area(curve, 3, 3)


def test_a_baseline_is_learnt_after_a_failure_that_came_before_any() -> None:
    tracker = AvailabilityTracker(Policy())
    tracker.incident_set(True)
    tracker.query_failed("Q", 0.0)
    tracker.observe("Q", at=1.0, latency=9.0, stalled=True)
    assert tracker.observe("Q", at=2.0, latency=9.0, stalled=False).available, "nothing to compare with"
    tracker.incident_set(False)
    for second in range(3, 20):
        health = tracker.observe("Q", at=float(second), latency=1.0, stalled=False)
    assert health.baseline == 1.0


def behind(tracker: AvailabilityTracker, latencies: list[float], start: float = 0.0) -> list[bool]:
    """One measurement a second of a topology that is behind its input."""
    return [
        tracker.observe("O1[0]", at=start + i, latency=latency, stalled=False, caught_up=False).available
        for i, latency in enumerate(latencies)
    ]


def test_no_baseline_is_learnt_before_a_topology_has_caught_up() -> None:
    """Seen on nodes with little CPU: a relative latency of 1.0, learnt at 14.6 s."""
    tracker = AvailabilityTracker(Policy())
    assert not any(behind(tracker, [31.0 - second for second in range(20)]))
    assert tracker.health("O1[0]").baseline is None
    for second in range(10):
        health = tracker.observe("O1[0]", at=20.0 + second, latency=1.5, stalled=False)
    assert (health.available, health.baseline, health.relative) == (True, 1.5, 1.0)


def test_a_query_far_behind_its_input_is_not_available_in_peace() -> None:
    tracker = AvailabilityTracker(Policy())
    feed(tracker, [1.0] * 10)
    growing = [1.0 + second for second in range(30)]
    available = behind(tracker, growing, start=10.0)
    assert available[:7] == [True] * 7, "slower output is shown, not called a failure"
    assert available[-1] is False
    # It returns after a window of normal output, measured against what was normal before.
    returned = feed(tracker, [1.0] * 12, start=40.0)
    assert returned[-1]
    assert not returned[0]
    assert tracker.health("O1[0]").baseline == 1.0


def test_slow_output_that_keeps_pace_is_no_failure() -> None:
    tracker = AvailabilityTracker(Policy())
    feed(tracker, [1.0] * 10)
    assert all(feed(tracker, [9.0] * 30, start=10.0))
