"""One failure on a running stack: warm up, kill, wait until all is back, read what happened, verify."""

from __future__ import annotations

import os
import statistics
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from benchmarks.horizons import horizons_of
from benchmarks.recovery.course import Course, course_of, percentile
from benchmarks.recovery.optimum import clairvoyant, counted_costs, planned_curve, reached_share
from benchmarks.stack import TOPOLOGY, BenchmarkStack, StackError, Verdict, seconds_of
from domain.availability import area, sample
from domain.planning.schedule import Schedule
from domain.topology import Topology

# Operators of this pipeline take some tenths of a percent of a core each. A bound of one percent lets whole
# numbers express capacities that such loads fill.
MAX_UTILISATION = 0.01
# The share of the plannable CPU that is planned.
PLANNED = 0.5
# The share of the failed load that fits on the survivors: that of two survivors of ten equal, half busy
# nodes.
ROOM = float(os.environ.get("ROOM", "0.25"))
LARGEST_CAPACITY = 10_000
LAST = 10.0
PERCENT = 100.0
RECOVERY_TIMEOUT = 900.0
# After the last query is back, what follows is recorded for this many seconds.
AFTERWARDS = 6.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Trial:
    """What is done to a stack. victims: chooses the nodes to kill from node -> partitions. `policy`: fields
    of the recovery policy. settle: seconds of peace before, in which latencies are learnt."""

    label: str
    policy: Mapping[str, Any]
    victims: Callable[[Mapping[str, Sequence[str]]], list[str]]
    settle: float


@dataclass(slots=True, kw_only=True)
class Outcome:
    """What a trial found. Times in seconds since the failure; costs and capacities in CPU percent.
    `horizon` is when the last failed query was back."""

    label: str
    victims: list[str]
    failed_partitions: list[str]
    homes: dict[str, str]
    measured: dict[str, float]
    capacities: dict[str, float]
    arrivals: list[tuple[float, float]]
    course: Course
    detected: float
    closed: float | None
    verdict: Verdict
    before: float
    costs: dict[str, float] = field(default_factory=dict)

    @property
    def horizon(self) -> float:
        return max(self.course.returned.values())

    @property
    def recovering_since(self) -> float:
        """When the first plan was made."""
        return self.course.waves[0].created if self.course.waves else self.detected


def node_loads(stack: BenchmarkStack, *, seconds: float) -> dict[str, list[float]]:
    """Load of every alive node over time as the planner expects it, in CPU percent. Only the last seconds
    count, since young processes are slow."""
    loads: dict[str, list[float]] = {}
    time.sleep(max(0.0, seconds - LAST))
    deadline = time.monotonic() + min(seconds, LAST)
    while time.monotonic() < deadline:
        for node, row in stack.nodes("alive").items():
            if row["predicted_percent"] is not None:
                loads.setdefault(node, []).append(row["predicted_percent"])
        time.sleep(1.0)
    if not loads:
        raise StackError("the nodes' CPU was not predicted within the warm-up")
    return loads


def node_shares(nodes: Mapping[str, Mapping[str, Any]]) -> dict[str, float]:
    """CPU percent that nodes take whatever partitions are there. nodes: name -> row."""
    return {
        name: max(0.0, (row["predicted_percent"] or row["planned_percent"]) - row["planned_percent"])
        for name, row in nodes.items()
    }


def capacity_that_binds(loads: Mapping[str, Sequence[float]]) -> int:
    """The capacity at which the nodes' planned load is `PLANNED` of what may be planned on them."""
    means = [sum(values) / len(values) for values in loads.values() if values]
    return max(1, round(sum(means) / len(means) / PLANNED / MAX_UTILISATION))


def capacity_with_room(
    loads: Mapping[str, Sequence[float]], victims: Collection[str], shares: Mapping[str, float]
) -> int:
    """The least capacity of a node, in CPU percent, at which the survivors have room for `ROOM` of the
    partitions on the victims. shares: what each node takes whatever partitions are there."""
    means = {node: sum(values) / len(values) for node, values in loads.items() if values}
    wanted = ROOM * sum(max(0.0, load - shares[node]) for node, load in means.items() if node in victims)
    survivors = [load for node, load in means.items() if node not in victims]
    for capacity in range(1, LARGEST_CAPACITY):
        if sum(max(0.0, capacity * MAX_UTILISATION - load) for load in survivors) >= wanted:
            return capacity
    raise StackError(f"no capacity below {LARGEST_CAPACITY} % gives the survivors that room: {means}")


def trial_run(
    stack: BenchmarkStack, topology: Topology, trial: Trial, *, note: Callable[[str], None]
) -> Outcome:
    """Carry out one trial on a healthy stack. Raises `StackError` when it does not recover."""
    stack.healthy()
    if trial.policy:
        stack.policy_set(**trial.policy)
    settled_from = time.time()
    sequence = stack.last_sequence()
    time.sleep(trial.settle)
    stack.healthy()
    incidents = len(stack.incidents())
    by_node = stack.homes()
    nodes = stack.nodes("alive")
    # What every node takes anyway is not there for partitions, neither now nor on a node that comes.
    shares = {node: share / MAX_UTILISATION for node, share in node_shares(nodes).items()}
    rows, queries = stack.partitions(), stack.queries()
    victims = trial.victims(by_node)
    failed = [p for p in topology.partitions if rows[p]["node"] in victims]
    note(f"{trial.label}: killing {', '.join(victims)} ({len(failed)} partitions)")
    at = stack.kill_nodes(*victims)
    stack.expect(lambda: len(stack.incidents()) > incidents, "an incident", timeout=60)
    stack.expect(
        lambda: stack.is_healthy() and stack.incidents()[-1]["all_queries_at"],
        f"{trial.label}: every failed query back",
        timeout=RECOVERY_TIMEOUT,
    )
    time.sleep(AFTERWARDS)
    incident = stack.incidents()[-1]
    course = course_of(
        stack.events(after=sequence),
        stack.plans(incident["number"]),
        topology=TOPOLOGY,
        failed_at=at,
        failed=topology.failed_queries(failed),
        priorities={query: row["priority"] for query, row in queries.items()},
        baselines={q: row["baseline_latency"] for q, row in queries.items() if row["baseline_latency"]},
    )
    homes = {partition: str(row["node"]) for partition, row in rows.items()}
    measured = {partition: float(row["cpu"]) * PERCENT for partition, row in rows.items()}
    capacities = {name: float(row["capacity"]) - shares.get(name, 0.0) for name, row in nodes.items()}
    taken = sum(shares.values()) / len(shares)
    outcome = Outcome(
        label=trial.label,
        victims=victims,
        failed_partitions=failed,
        homes=homes,
        measured=measured,
        capacities=capacities,
        arrivals=_arrivals(stack.node_requests(incident["number"]), at, taken),
        course=course,
        detected=seconds_of(incident["detected_at"]) - at,
        closed=seconds_of(incident["closed_at"]) - at if incident["closed_at"] else None,
        verdict=stack.verify(),
        before=at - settled_from,
        # A blocking recovery of one node may have kept none.
        costs=stack.incident_costs(incident["number"])
        or counted_costs(
            topology,
            homes=homes,
            measured=measured,
            capacities=capacities,
            max_utilisation=MAX_UTILISATION,
        ),
    )
    reached = outcome.course.milestones
    note(
        f"{trial.label}: first query after {reached.first or 0:.0f} s, half {reached.half or 0:.0f} s, all "
        f"{reached.all or 0:.0f} s, {len(course.waves)} waves, "
        f"{'verified' if outcome.verdict.clean else f'WRONG ROWS: {outcome.verdict.faults}'}"
    )
    return outcome


def _arrivals(requests: Sequence[Mapping[str, Any]], at: float, taken: float) -> list[tuple[float, float]]:
    return sorted(
        (seconds_of(row["joined_at"]) - at, float(row["capacity"]) - taken)
        for row in requests
        if row["joined_at"]
    )


def shortest_lag(outcome: Outcome) -> float:
    """The shortest time any wave took from the newest arrival before it (or the failure) until its first
    query counted as available: detection, start, restore, replay and the window that proves it."""
    course = outcome.course
    lags: list[float] = []
    for wave in course.waves:
        back = [course.returned[query] for query in wave.queries if query in course.returned]
        since = max((at for at, _ in outcome.arrivals if at <= wave.created), default=0.0)
        lags += [min(back) - since] if back else []
    return min(lags, default=0.0)


# ---- what is reported of an outcome


def best_schedule(topology: Topology, outcome: Outcome, horizon: float) -> Schedule:
    """The best that could have been done with the same nodes until then."""
    victims = set(outcome.victims)
    return clairvoyant(
        topology,
        failed=outcome.failed_partitions,
        homes=outcome.homes,
        costs=outcome.costs,
        survivors={name: c for name, c in outcome.capacities.items() if name not in victims},
        arrivals=[arrival for arrival in outcome.arrivals if arrival[0] < horizon],
        priorities=outcome.course.priorities,
        max_utilisation=MAX_UTILISATION,
        horizon=horizon,
    )


def areas(topology: Topology, outcome: Outcome, horizons: Mapping[str, float]) -> dict[str, Any]:
    """By horizon: the area under availability, and that of the best schedule. share: of the second; None if
    nothing could be done until then."""
    curve = outcome.course.availability()
    found: dict[str, Any] = {}
    for name, at in horizons.items():
        best, reached = best_schedule(topology, outcome, at), area(curve, 0.0, at)
        found[name] = {
            "seconds": round(at, 2),
            "availability": round(reached, 5),
            "optimum": round(best.share, 5),
            "optimum_proven": best.proven,
            "share": round(reached / best.share, 5) if best.share else None,
        }
    return found


def described(
    topology: Topology, outcome: Outcome, *, horizon: float, blocking: float | None = None
) -> dict[str, Any]:
    """An outcome as plain data, with its areas up to a horizon common to what it is compared with, and to
    others. blocking: when the blocking method had recovered, if it was run."""
    course = outcome.course
    schedule = best_schedule(topology, outcome, horizon)
    lag = shortest_lag(outcome)
    delayed = best_schedule(topology, outcome, max(1.0, horizon - lag))
    horizons = horizons_of(
        recovered=outcome.horizon,
        arrivals=[at for at, _ in outcome.arrivals],
        blocking=blocking,
        slowest=horizon,
    )
    curve = course.availability()
    planned = planned_curve(
        topology, failed=outcome.failed_partitions, waves=course.waves, priorities=course.priorities
    )
    reached = course.milestones
    room = sum(capacity for _, capacity in outcome.arrivals) * MAX_UTILISATION
    return {
        "victims": outcome.victims,
        "failed_partitions": outcome.failed_partitions,
        "failed_queries": list(course.failed),
        "priorities": course.priorities,
        "baseline_seconds": round(statistics.median(course.baselines.values()), 3),
        "failed_percent": round(sum(outcome.costs[name] for name in outcome.failed_partitions), 4),
        "replacement_percent": round(room, 4),
        "detected": round(outcome.detected, 2),
        "closed": None if outcome.closed is None else round(outcome.closed, 2),
        "arrivals": [round(at, 2) for at, _ in outcome.arrivals],
        "first": reached.first,
        "half": reached.half,
        "all": reached.all,
        "waves": [
            {
                "wave": wave.wave,
                "rollback": wave.rollback,
                "planned": round(wave.created, 2),
                "published": wave.published,
                "applied": wave.applied,
                "caught_up": wave.caught_up,
                "restored": list(wave.restored),
                "queries": list(wave.queries),
            }
            for wave in course.waves
        ],
        "horizon": round(horizon, 2),
        "mean_weighted_availability": round(area(curve, 0.0, horizon), 5),
        "clairvoyant_mean": round(schedule.share, 5),
        "clairvoyant_proven": schedule.proven,
        "share_of_clairvoyant": round(reached_share(curve, schedule), 5),
        "areas": areas(topology, outcome, horizons),
        "planned_share_of_clairvoyant": round(reached_share(planned, schedule), 5),
        "shortest_lag": round(lag, 2),
        # The same optimum with every wave as late as the quickest wave of this run was.
        "share_of_delayed_clairvoyant": round(
            area(curve, 0.0, horizon) * horizon / (delayed.share * delayed.horizon), 5
        ),
        "verified": outcome.verdict.clean,
        "verified_rows": outcome.verdict.rows,
        "faults": outcome.verdict.faults,
        "curves": curves(outcome),
    }


def curves(outcome: Outcome, *, step: float = 1.0) -> dict[str, list[float | None]]:
    """Second by second from ten seconds before the failure: available queries, and the mean relative latency
    of the failed queries and of the untouched ones."""
    course = outcome.course
    # Events report about once a second; the curves hold the last report.
    end = outcome.horizon + AFTERWARDS
    moments = [round(-10.0 + step * number, 3) for number in range(int((end + 10.0) / step) + 1)]
    every = list(course.observations)
    levels = [
        sample(at, {query: course.up(query, at) for query in every}, course.priorities) for at in moments
    ]

    def rounded(value: float | None) -> float | None:
        return None if value is None else round(value, 3)

    return {
        "at": list(moments),
        "available": [level.available for level in levels],
        "failed_relative": [rounded(course.relative(course.failed, at)) for at in moments],
        "untouched_relative": [rounded(course.relative(course.untouched, at)) for at in moments],
    }


def latency_percentiles(latencies: Sequence[float]) -> dict[str, float | int | None]:
    shares = {"p50": 0.5, "p90": 0.9, "p99": 0.99}
    found: dict[str, float | int | None] = {"samples": len(latencies)}
    for name, share in shares.items():
        value = percentile(latencies, share)
        found[name] = None if value is None else round(value, 4)
    return found
