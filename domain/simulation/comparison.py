"""Several ways to recover from the same failure, side by side, with the best that was possible."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from domain.planning import PLANNERS
from domain.simulation.outcome import Outcome
from domain.simulation.reference import Reference, best_course
from domain.simulation.scenario import Scenario
from domain.simulation.world import World

BLOCKING = "blocking"
ALGORITHMS = (BLOCKING, *sorted(PLANNERS))

MOST_QUERIES_IN_TIME = 300
"""Failed queries up to which the best course is computed when time is limited."""


class TookTooLongError(RuntimeError):
    """The simulation did not end within the seconds of real time it was given."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """outcomes: by algorithm, in the order they were asked for. horizon: seconds after the first failure
    over which all areas are taken. reference: None where none can be given (see `best_course`), or not in
    time."""

    outcomes: Mapping[str, Outcome]
    horizon: float
    reference: Reference | None

    def area(self, algorithm: str) -> float:
        return self.outcomes[algorithm].area(self.horizon)


def scenario_for(scenario: Scenario, algorithm: str) -> Scenario:
    """The scenario recovered by a planner of this name, or by `blocking`."""
    if algorithm == BLOCKING:
        return replace(scenario, method="blocking")
    return replace(scenario, method="incremental", planner=algorithm)


def compare(
    scenario: Scenario,
    algorithms: Sequence[str],
    *,
    seconds: float = math.inf,
    clock: Callable[[], float] = time.monotonic,
) -> Comparison:
    """Simulate the same failure once for each algorithm; all see the same arrivals.

    seconds: real time for everything; raises `TookTooLongError` when it is over.
    Raises ScenarioError for an unknown algorithm, and what planners raise (`TooManyPlansError`).
    """
    deadline = clock() + seconds
    outcomes: dict[str, Outcome] = {}
    for algorithm in algorithms:
        world = World(scenario_for(scenario, algorithm))

        def in_time(algorithm: str = algorithm) -> None:
            if clock() > deadline:
                raise TookTooLongError(f"{algorithm} did not end within the {seconds:g} s there were for all")

        outcomes[algorithm] = world.run(each_step=in_time)
    horizon = common_horizon(scenario, outcomes.values())
    most = max(outcomes.values(), key=lambda outcome: len(outcome.arrivals), default=None)
    left = deadline - clock()
    if left <= 0:
        raise TookTooLongError(f"nothing is left of the {seconds:g} s for the best possible course")
    reference = None
    hasty = math.isfinite(seconds) and most is not None and len(most.failed) > MOST_QUERIES_IN_TIME
    if most is not None and not hasty:
        fullest = max(outcome.bound for outcome in outcomes.values())
        reference = best_course(scenario, most.arrivals, horizon=horizon, bound=fullest, time_limit=left)
    return Comparison(outcomes=outcomes, horizon=horizon, reference=reference)


def common_horizon(scenario: Scenario, outcomes: Iterable[Outcome]) -> float:
    """Seconds until no outcome changes any more, and at least until the last node came."""
    ends = [1.0]
    for outcome in outcomes:
        ends.append(outcome.settled_at)
        ends += [coming.at - scenario.first_failure for coming in outcome.arrivals]
    return max(ends)
