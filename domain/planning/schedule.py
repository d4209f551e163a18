"""Several waves over time: the queries recovered in each, and the resulting availability."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from domain.planning.arrivals import Arrival
from domain.planning.planner import Planner
from domain.planning.problem import (
    Flags,
    RecoveryProblem,
    capacity_grains,
    to_percent,
)


@dataclass(frozen=True, slots=True)
class Timeline:
    """Moments at which capacity grows: `starts[t]` seconds from now, `capacities[t]` grains in sum, and
    `lengths[t]` seconds until the next moment, or to the horizon for the last."""

    starts: tuple[float, ...]
    capacities: tuple[int, ...]
    lengths: tuple[float, ...]

    @property
    def horizon(self) -> float:
        return self.starts[-1] + self.lengths[-1]


@dataclass(frozen=True, slots=True, kw_only=True)
class ScheduledWave:
    """One wave: the queries it adds, the priority recovered by then, its cost so far in CPU percent."""

    at: float
    capacity: float
    cost: float
    queries: tuple[str, ...]
    value: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Schedule:
    """Waves in time. `area` is priority times seconds of recovered queries up to `horizon`; `share` the
    same relative to everything available from the start. `bound` limits the area of any schedule."""

    waves: tuple[ScheduledWave, ...]
    area: float
    share: float
    horizon: float
    method: str
    bound: float | None = None
    proven: bool = False


def timeline(problem: RecoveryProblem, arrivals: Iterable[Arrival], horizon: float | None = None) -> Timeline:
    """When how much capacity is there. Arrivals at the same moment, or past the horizon, are merged or left
    out. The default horizon is as long after the last arrival as the mean time between arrivals."""
    capacity = problem.capacity
    moments: dict[float, int] = {0.0: capacity}
    for arrival in sorted(arrivals):
        if horizon is not None and arrival.at >= horizon:
            continue
        capacity += capacity_grains(arrival.capacity)
        moments[max(0.0, arrival.at)] = capacity
    starts = list(moments)
    end = starts[-1] + (starts[-1] / (len(starts) - 1) if len(starts) > 1 else 1.0)
    end = end if horizon is None else horizon
    ends = [*starts[1:], end]
    lengths = tuple(stop - start for start, stop in zip(starts, ends, strict=True))
    return Timeline(tuple(starts), tuple(moments.values()), lengths)


def area_of(problem: RecoveryProblem, times: Timeline, recovered: Flags) -> float:
    """Priority times seconds of recovered[T, M]."""
    return float(np.asarray(times.lengths) @ (recovered @ problem.priorities.astype(np.float64)))


def schedule_of(
    problem: RecoveryProblem,
    times: Timeline,
    recovered: Flags,
    *,
    method: str,
    bound: float | None = None,
    proven: bool = False,
) -> Schedule:
    """Describe recovered[T, M], which must grow from wave to wave and respect the capacities."""
    waves: list[ScheduledWave] = []
    before = np.zeros(len(problem.queries), dtype=bool)
    for at, capacity, now in zip(times.starts, times.capacities, recovered, strict=True):
        added = np.flatnonzero(now & ~before)
        waves.append(
            ScheduledWave(
                at=at,
                capacity=to_percent(capacity),
                cost=to_percent(problem.cost_of(np.flatnonzero(now))),
                queries=tuple(problem.queries[i] for i in added),
                value=problem.value_of(np.flatnonzero(now)),
            )
        )
        before = now
    area = area_of(problem, times, recovered)
    whole = problem.total_priority * times.horizon
    return Schedule(
        waves=tuple(waves),
        area=area,
        share=area / whole if whole else 1.0,
        horizon=times.horizon,
        method=method,
        bound=bound,
        proven=proven,
    )


def extended(problem: RecoveryProblem, planner: Planner, *, keep: Flags, done: Flags, capacity: int) -> Flags:
    """Queries whole after `planner` has added to those `done` [M], choosing only from `keep` [M]."""
    covered = problem.covered(np.flatnonzero(done))
    left = capacity - int(problem.bundle_cost[covered].sum())
    smaller, rows = problem.narrowed(keep=keep, covered=covered, capacity=max(0, left))
    if smaller.queries:
        added = rows[list(planner.select(smaller).order)]
        covered |= problem.covered(added)
    return problem.recovered(covered)


def wave_by_wave(problem: RecoveryProblem, times: Timeline, planner: Planner) -> Flags:
    """Each wave planned by itself when its capacity is there: recovered[T, M]."""
    done = np.zeros(len(problem.queries), dtype=bool)
    everything = ~done
    waves = []
    for capacity in times.capacities:
        done = extended(problem, planner, keep=everything, done=done, capacity=capacity)
        waves.append(done)
    return np.array(waves)


def forecast(
    problem: RecoveryProblem,
    arrivals: Sequence[Arrival],
    planner: Planner | Callable[[tuple[Arrival, ...], float], Planner],
    *,
    horizon: float | None = None,
) -> Schedule:
    """What a planner would do if nodes arrive as given: a wave at each arrival, none before.

    planner: the same for every wave, or made for each wave from the arrivals then still to come (their
        times counted from that wave) and the time left to the horizon.
    Assumes that restored queries count from the moment of their wave, and capacity in sum.
    """
    times = timeline(problem, arrivals, horizon)
    if isinstance(planner, Planner):
        recovered = wave_by_wave(problem, times, planner)
        return schedule_of(problem, times, recovered, method=planner.name)
    done = np.zeros(len(problem.queries), dtype=bool)
    waves = []
    name = ""
    for start, capacity in zip(times.starts, times.capacities, strict=True):
        coming = tuple(
            Arrival(arrival.at - start, arrival.capacity)
            for arrival in sorted(arrivals)
            if start < arrival.at < times.horizon
        )
        current = planner(coming, times.horizon - start)
        done = extended(problem, current, keep=np.ones_like(done), done=done, capacity=capacity)
        name = current.name
        waves.append(done)
    return schedule_of(problem, times, np.array(waves), method=name)
