"""Look-ahead planning: choose this wave so that the next ones can recover more.

A plan for one wave can be the best now and still be a poor start: of two queries worth the same, one may
share its partitions with many that fit when the next node comes. Given the expected arrivals, this planner
maximises the area under the priority-weighted availability curve over all waves, and proposes the first.

Two promises:

- whatever really comes, the first wave recovers at least as much priority as `base` (BestDensity) would, in
  sum and, for problems with nodes, after placement;
- if nodes come as expected, the area of the schedule is at least that of planning wave by wave with `base`.

Candidate schedules are made forwards (wave by wave) and backwards (the last wave first, every earlier one
chosen from the queries of the later), and up to `program_limit` variables the mixed-integer program over all
waves decides. Schedules count capacity in sum. For problems with nodes, the first wave of the best one is
placed and compared with the plans that can be placed and are worth as much as that of `base`: for each, the
waves behind it are played on the nodes that are expected (`rollout`). docs/planning.md says what is assumed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import ClassVar

import numpy as np

from domain.planning.arrivals import Arrival
from domain.planning.best_density import AdaptiveDensity, BestDensity
from domain.planning.fitting import Fitted, fit_packed
from domain.planning.moving import with_moves
from domain.planning.packing import packed_ties, take_over
from domain.planning.planner import PackingPlanner, Planner, starts_of
from domain.planning.problem import Flags, RecoveryProblem
from domain.planning.proposal import Selection
from domain.planning.rollout import Rollout
from domain.planning.schedule import (
    Schedule,
    Timeline,
    area_of,
    extended,
    schedule_of,
    timeline,
    wave_by_wave,
)
from domain.planning.wave_program import WaveProgram

# Relative to the area: two schedules this close are the same.
AREA_TOLERANCE = 1e-6


@dataclass(frozen=True)
class LookAhead(Planner):
    """arrivals: expected, from now. horizon: seconds from now that count; default see `timeline`.

    base: the planner whose first wave is never undercut, in sum or placed.
    node_limit: size of the program's search. time_limit: seconds for it, the emergency brake: only where it
        strikes does the plan depend on the machine. Simulations set it to infinity.
    program_limit: waves x (queries + bundles) above which only the heuristic schedules are compared.
    """

    arrivals: Sequence[Arrival] = ()
    horizon: float | None = None
    base: PackingPlanner = field(default_factory=BestDensity)
    node_limit: int = 50
    time_limit: float = 5.0
    program_limit: int = 2_000
    name: ClassVar[str] = "look_ahead"

    def select(self, problem: RecoveryProblem) -> Selection:
        times = timeline(problem, self.arrivals, self.horizon)
        own = self.base.select(problem)
        if len(times.starts) == 1 or len(own.order) == len(problem.queries):
            return own
        best = self._best(problem, times, _flags(problem, own.order), guarded=True)
        if not (best.recovered[0] & ~_flags(problem, own.order)).any():
            return own
        order = _by_density(problem, best.recovered[0])
        gain = (best.area / best.myopic - 1) * 100 if best.myopic else 100.0
        return Selection(
            order=order,
            covered=problem.covered(order),
            candidates=own.candidates,
            considered=((own.order, problem.value_of(own.order), problem.cost_of(own.order)),),
            note=f"{gain:.1f} % more availability until all {len(times.starts)} waves are done than "
            f"{self.base.name.replace('_', ' ')}, wave by wave",
        )

    def fit(self, problem: RecoveryProblem) -> Fitted:
        times = timeline(problem, self.arrivals, self.horizon)
        own = self.base.select(problem)
        if len(times.starts) == 1 or len(own.order) == len(problem.queries):
            return self.base.fit(problem)
        plans = packed_ties(problem, starts_of(own))
        ahead = take_over(plans[0].layout, self.select(problem).order)
        if ahead.value >= plans[0].value:
            plans.insert(1, ahead)
        best, relative = Rollout(plans[0].layout, self.arrivals, times.horizon).best(plans)
        moves, own_moves = with_moves(best), with_moves(plans[0])
        if best is plans[0] or moves.worth < own_moves.worth:
            return fit_packed(own_moves, own)
        note = (
            f"of plans worth the same now, this leads to {(relative - 1) * 100:.1f} % more availability "
            f"until all {len(times.starts)} waves are done"
        )
        return fit_packed(moves, replace(own, note=note))

    def schedule(self, problem: RecoveryProblem) -> Schedule:
        """All waves as expected now; the first is what `select` proposes."""
        times = timeline(problem, self.arrivals, self.horizon)
        own = self.base.select(problem)
        best = self._best(problem, times, _flags(problem, own.order), guarded=True)
        return best.schedule(problem, times, method=self.name)

    def clairvoyant(self, problem: RecoveryProblem) -> Schedule:
        """The best schedule for exactly these arrivals, not held to `base` in the first wave: what an
        incident's real course is measured against."""
        times = timeline(problem, self.arrivals, self.horizon)
        nothing = np.zeros(len(problem.queries), dtype=bool)
        return self._best(problem, times, nothing, guarded=False).schedule(
            problem, times, method="clairvoyant"
        )

    def _best(self, problem: RecoveryProblem, times: Timeline, own: Flags, *, guarded: bool) -> _Ahead:
        floor = problem.value_of(np.flatnonzero(own)) if guarded else 0
        candidates = [wave_by_wave(problem, times, self.base)]
        for planner in (self.base, AdaptiveDensity()):
            free = _backwards(problem, times, planner, np.zeros_like(own))
            if problem.value_of(np.flatnonzero(free[0])) >= floor:
                candidates.append(free)
            candidates.append(_backwards(problem, times, planner, own))
        areas = [area_of(problem, times, candidate) for candidate in candidates]
        best = candidates[int(np.argmax(areas))]
        area, myopic = max(areas), areas[0]
        if len(times.starts) * sum(problem.needs.shape) > self.program_limit or not problem.queries:
            return _Ahead(best, area, myopic)
        program = WaveProgram(
            problem,
            capacities=times.capacities,
            weights=times.lengths,
            time_limit=self.time_limit,
            absolute_gap=AREA_TOLERANCE * max(area, 1e-9),
            floor=floor,
            node_limit=self.node_limit,
        )
        program.suggest(best)
        solved = program.solve()
        if solved.recovered is not None:
            whole = np.array(
                [problem.recovered(problem.covered(np.flatnonzero(row))) for row in solved.recovered]
            )
            found = area_of(problem, times, whole)
            enough = problem.value_of(np.flatnonzero(whole[0])) >= floor
            if enough and found > area * (1 + AREA_TOLERANCE):
                best, area = whole, found
        proven = solved.bound <= area * (1 + 2 * AREA_TOLERANCE) + 1e-9
        return _Ahead(best, area, myopic, max(area, solved.bound), proven)


@dataclass(frozen=True, slots=True)
class _Ahead:
    """The best waves that were found. recovered[T, M]. area: theirs. myopic: that of waves planned one by
    one. bound: of the area, where the program ran; proven: whether that proves them the best."""

    recovered: Flags
    area: float
    myopic: float
    bound: float | None = None
    proven: bool = False

    def schedule(self, problem: RecoveryProblem, times: Timeline, *, method: str) -> Schedule:
        return schedule_of(
            problem, times, self.recovered, method=method, bound=self.bound, proven=self.proven
        )


def _backwards(problem: RecoveryProblem, times: Timeline, planner: Planner, done: Flags) -> Flags:
    """Plan the last wave first and choose every earlier wave from the queries of the next: recovered[T, M].

    done: queries every wave contains; they must fit the first.
    """
    waves: list[Flags] = []
    keep = np.ones(len(problem.queries), dtype=bool)
    for capacity in reversed(times.capacities):
        keep = extended(problem, planner, keep=keep, done=done, capacity=capacity) & keep
        waves.append(keep | done)
    return np.array(waves[::-1])


def _flags(problem: RecoveryProblem, queries: Sequence[int]) -> Flags:
    flags = np.zeros(len(problem.queries), dtype=bool)
    flags[list(queries)] = True
    return flags


def _by_density(problem: RecoveryProblem, chosen: Flags) -> tuple[int, ...]:
    density = problem.priorities / np.maximum(problem.query_weight, 1e-9)
    return tuple(sorted(np.flatnonzero(chosen).tolist(), key=lambda i: (-density[i], i)))
