"""What one recovery with scarce CPU showed, of Resurge or of another engine, and the figures that are
reported of it. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from typing import Any

from benchmarks.recovery.course import Course, Observation
from benchmarks.recovery.optimum import Failure
from benchmarks.stack import Verdict
from domain.availability import Milestones, Sample, area, milestones, sample

# Results that are no older than that are on time, whatever the normal latency: the bound is the same for all
# engines, also for one whose normal latency is lower.
ON_TIME = 3.0
HELD = 5.0


@dataclass(slots=True, kw_only=True)
class Outcome:
    """What one recovery showed. busy: share of the quotas that was used before the failure. throttled: the
    largest share of the quota's periods in which a node was stopped. unfinished: queries that were not back
    when patience ended. moved: partitions that plans moved with their state. checkpoints: completed before
    and after the failure, where they were counted. quotas: of each node and each replacement, in percent of a
    core, as the kernel says. failure: what the best schedule is computed from, where costs of partitions are
    known."""

    killed: list[str]
    arrived: list[float]
    busy: float
    throttled: float
    course: Course
    verdict: Verdict
    moved: int
    unfinished: int
    checkpoints: tuple[int, int] | None = None
    quotas: tuple[float, ...] = ()
    failure: Failure | None = None

    def horizon(self, patience: float) -> float:
        """When the last query that came back did; `patience` if none did."""
        return max(self.course.returned.values(), default=patience)


def described(outcome: Outcome, horizon: float, horizons: Mapping[str, float]) -> dict[str, Any]:
    """An outcome as plain data. horizon: a moment that all outcomes share. horizons: those of this outcome to
    which `areas` reach, as of `horizons_of`; each with the optimum, where the costs of partitions are known
    (other engines tell none)."""
    course, reached = outcome.course, outcome.course.milestones
    punctual, failure = on_time(course), outcome.failure
    curve, on_time_only = course.availability(), on_time_curve(course)
    gaps = {query: round(longest_gap(seen), 1) for query, seen in course.observations.items()}
    return {
        "killed": outcome.killed,
        "arrived": [round(moment, 1) for moment in outcome.arrived],
        "busy": round(outcome.busy, 3),
        "throttled": round(outcome.throttled, 3),
        "quotas": [round(quota, 1) for quota in outcome.quotas],
        "checkpoints": outcome.checkpoints,
        "failed_queries": len(course.failed),
        "baseline": _mean(list(course.baselines.values())),
        **_rounded(reached),
        "availability": round(area(curve, 0.0, horizon), 4),
        "areas": {
            name: {
                "seconds": round(at, 2),
                "availability": round(area(curve, 0.0, at), 4),
                "on_time": round(area(on_time_only, 0.0, at), 4),
                **_best(outcome, at, area(curve, 0.0, at)),
            }
            for name, at in horizons.items()
        },
        "on_time": {
            **_rounded(punctual),
            "for_good": for_good(on_time_only),
            "availability": round(area(on_time_only, 0.0, horizon), 4),
        },
        "longest_gap": max(gaps.values(), default=None),
        "gaps": gaps,
        "waves": len(course.waves),
        "moved": outcome.moved,
        "unfinished": outcome.unfinished,
        **({"partitions_percent": round(sum(failure.measured.values()), 1)} if failure else {}),
        "verified": outcome.verdict.clean,
        "verified_rows": outcome.verdict.rows,
        "faults": outcome.verdict.faults,
    }


def _best(outcome: Outcome, horizon: float, reached: float) -> dict[str, float | bool | None]:
    """The area under availability of the best schedule until then, and how much of it was reached."""
    if outcome.failure is None:
        return {}
    best = outcome.failure.best(outcome.arrived, horizon)
    return {
        "optimum": round(best.share, 4),
        "optimum_proven": best.proven,
        "share": round(reached / best.share, 4) if best.share else None,
    }


def longest_gap(seen: Sequence[Observation]) -> float:
    """The longest time in which a query took in nothing new, to within one report. What it has taken in is
    told by when it was due; what is replayed is nothing new. While the same tuples wait, reports say the same
    of them, and the query gets on with the last of these reports at the earliest."""
    longest, since = 0.0, seen[0].at if seen else 0.0
    newest = float("-inf")
    for one, later in zip_longest(seen, seen[1:]):
        due = one.at - one.latency
        waits = later is not None and abs(later.at - later.latency - due) < 0.01
        if due > newest + 0.01 and not waits:
            longest = max(longest, one.at - since)
            newest, since = due, one.at
    return max(longest, seen[-1].at - since) if seen else 0.0


def on_time(course: Course) -> Milestones:
    """When the failed queries were on time again, for at least `HELD` seconds."""
    back = [
        since for query in course.failed if (since := _on_time_since(course.observations[query])) is not None
    ]
    return milestones(len(course.failed), back)


def on_time_curve(course: Course) -> list[Sample]:
    """The step curve of failed queries that are on time, from the failure on."""
    moments = sorted({0.0, *(one.at for seen in course.observations.values() for one in seen if one.at > 0)})
    curve: list[Sample] = []
    state = dict.fromkeys(course.failed, True)
    position = dict.fromkeys(course.failed, 0)
    for at in moments:
        for query in course.failed:
            seen = course.observations.get(query, [])
            while position[query] < len(seen) and seen[position[query]].at <= at:
                state[query] = seen[position[query]].latency <= ON_TIME
                position[query] += 1
        curve.append(sample(at, state, course.priorities))
    return curve


def for_good(curve: Sequence[Sample]) -> float | None:
    """From when on nothing was missing any more; None if something was in the end."""
    since: float | None = 0.0
    for one in curve:
        if one.available < one.total:
            since = None
        elif since is None:
            since = round(one.at, 3)
    return since


def _on_time_since(seen: Sequence[Observation]) -> float | None:
    """When a query that was late was on time again and stayed so for a while; None if it never was. 0 for
    one that was never late."""
    since: float | None = None
    late = False
    for one in seen:
        if one.at <= 0:
            continue
        if one.latency > ON_TIME:
            late, since = True, None
        elif late:
            since = one.at if since is None else since
            if one.at - since >= HELD:
                return since
    return None if late else 0.0


def _rounded(reached: Milestones) -> dict[str, float | None]:
    named = {"first": reached.first, "half": reached.half, "all": reached.all}
    return {name: None if at is None else round(at, 3) for name, at in named.items()}


def _mean(values: Sequence[float]) -> float | None:
    return round(sum(values) / len(values), 3) if values else None
