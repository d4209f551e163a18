"""Availability of Flink's queries by the rules for Resurge's. Pure.

The latency of a query is the mean age of the tuples of a second when the query had taken in the last of them;
while it gets nowhere, the age of those that wait. The verdict is that of `domain.availability`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from benchmarks.flink.outputs import Reached
from benchmarks.recovery.course import Course, Observation
from domain.availability import AvailabilityTracker, Policy

# A query that has got nowhere for that many seconds has stalled; output once a second is normal.
STALL = 2.0
CAUGHT_UP = 3.0


def course_of(
    reached: Mapping[str, Sequence[Reached]],
    *,
    failed_at: float,
    end: float,
    priorities: Mapping[str, int],
    arrivals: Sequence[tuple[float, str]],
    policy: Policy | None = None,
) -> Course:
    """`reached`: of each query, from some time before the failure; all queries fail, as the job is one.
    `end`: until when it was watched (Unix seconds). `arrivals`: seconds after the failure, and node."""
    tracker = AvailabilityTracker(policy or Policy())
    observations: dict[str, list[Observation]] = {}
    baselines: dict[str, float] = {}

    def observe(query: str, at: float, latency: float, stalled: bool) -> None:
        caught_up = latency < CAUGHT_UP
        health = tracker.observe(query, at=at, latency=latency, stalled=stalled, caught_up=caught_up)
        observations.setdefault(query, []).append(Observation(at - failed_at, latency, health.available))

    for query, steps in reached.items():
        for at, latency, stalled in measured([one for one in steps if one.at < failed_at], failed_at):
            observe(query, at, latency, stalled)
        baseline = tracker.health(query).baseline
        if baseline is not None:
            baselines[query] = baseline
    tracker.incident_set(True)
    for query, steps in reached.items():
        tracker.query_failed(query, failed_at)
        for at, latency, stalled in measured(steps, end):
            if at >= failed_at:
                observe(query, at, latency, stalled)
    return Course(
        failed=tuple(reached),
        priorities=dict(priorities),
        baselines=baselines,
        observations=observations,
        arrivals=sorted(arrivals),
        waves=[],
    )


def measured(steps: Sequence[Reached], end: float) -> list[tuple[float, float, bool]]:
    """When what was measured of a query: (Unix seconds, latency, stalled)."""
    found: list[tuple[float, float, bool]] = []
    for step, until in zip(steps, [*(later.at for later in steps[1:]), end], strict=False):
        found.append((step.at, step.at - (step.second - 0.5), False))
        at = step.at + STALL
        while at < until:
            # The tuples of the second that follows wait.
            found.append((at, at - (step.second + 0.5), True))
            at += 1.0
    return found
