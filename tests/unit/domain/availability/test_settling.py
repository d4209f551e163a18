"""A placement that is slower for good: the present latency becomes the usual one, by rule or by hand."""

from __future__ import annotations

from domain.availability import AvailabilityTracker, Policy

POLICY = Policy(settle=60.0)


def lost() -> AvailabilityTracker:
    """A query with a usual latency of 1 s that an incident has taken down."""
    tracker = AvailabilityTracker(POLICY, baselines={"Q[0]": 1.0})
    tracker.incident_set(True)
    tracker.query_failed("Q[0]", 0.0)
    return tracker


def feed(
    tracker: AvailabilityTracker, latencies: list[float], *, start: float = 0.0, pace: bool = True
) -> float:
    """One result a second; returns when the last one came."""
    at = start
    for latency in latencies:
        at += 1.0
        tracker.observe("Q[0]", at=at, latency=latency, stalled=False, caught_up=pace)
    return at


def test_a_steady_latency_becomes_the_usual_one() -> None:
    tracker = lost()
    feed(tracker, [2.0] * 58)
    assert not tracker.health("Q[0]").available
    feed(tracker, [2.0] * 6, start=58.0)
    health = tracker.health("Q[0]")
    assert (health.available, health.baseline) == (True, 2.0)
    assert health.relative is not None
    assert 0.99 < health.relative < 1.01
    assert tracker.settled() == {"Q[0]": 2.0}
    assert tracker.settled() == {}


def test_it_does_not_while_the_latency_falls() -> None:
    tracker = lost()
    feed(tracker, [30.0 - 0.1 * step for step in range(150)])
    assert not tracker.health("Q[0]").available


def test_it_does_not_while_input_waits() -> None:
    tracker = lost()
    feed(tracker, [2.0] * 200, pace=False)
    assert not tracker.health("Q[0]").available


def test_it_counts_anew_after_a_stall() -> None:
    tracker = lost()
    at = feed(tracker, [2.0] * 50)
    tracker.observe("Q[0]", at=at + 1, latency=2.0, stalled=True)
    feed(tracker, [2.0] * 50, start=at + 1)
    assert not tracker.health("Q[0]").available


def test_it_counts_anew_where_the_clock_was_put_back() -> None:
    tracker = lost()
    feed(tracker, [2.0] * 30, start=5_000.0)
    feed(tracker, [2.0] * 55, start=1_000.0)
    assert not tracker.health("Q[0]").available
    feed(tracker, [2.0] * 10, start=1_055.0)
    assert tracker.health("Q[0]").available


def test_an_operator_accepts_it_at_once() -> None:
    tracker = lost()
    assert tracker.baseline_accept("Q[0]") is None, "no result has been measured"
    at = feed(tracker, [2.0] * 3)
    assert tracker.baseline_accept("Q[0]") == 2.0
    assert tracker.health("Q[0]").available
    feed(tracker, [2.1] * 10, start=at)
    assert tracker.health("Q[0]").available
    tracker.incident_set(False)
    feed(tracker, [2.0] * 10, start=at + 10)
    assert tracker.health("Q[0]").available
