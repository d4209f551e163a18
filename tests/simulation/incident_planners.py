"""The planners of the incident world. As in production, most looks at an incident find the problem of the
look before; here its plan is worked out once."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any

from domain.planning import (
    Arrival,
    LookAhead,
    Planner,
    RecoveryPlanProposal,
    RecoveryProblem,
    planner_named,
)
from domain.planning.proposal import Selection


def steady_planner(name: str, arrivals: tuple[Arrival, ...]) -> Planner:
    """Planners with limits in work, not in seconds, so that plans are the same on every machine."""
    if name == LookAhead.name:
        return LookAhead(arrivals=arrivals, time_limit=float("inf"), program_limit=0)
    return planner_named(name)


class Planners:
    """Of one world, as `Incremental` asks for them."""

    def __init__(self) -> None:
        self._known: dict[Hashable, RecoveryPlanProposal] = {}

    def __call__(self, name: str, arrivals: Any) -> Planner:
        known = tuple(arrivals)
        return _Remembering(steady_planner(name, known), (name, known), self._known)


class _Remembering(Planner):
    """Gives the proposal of another planner again where problem and arrivals are the same."""

    def __init__(
        self, planner: Planner, asked: Hashable, known: dict[Hashable, RecoveryPlanProposal]
    ) -> None:
        self._planner, self._asked, self._known = planner, asked, known

    def select(self, problem: RecoveryProblem) -> Selection:
        return self._planner.select(problem)

    def plan(self, problem: RecoveryProblem) -> RecoveryPlanProposal:
        key = self._asked, content(problem)
        if key not in self._known:
            self._known[key] = self._planner.plan(problem)
        return self._known[key]


def content(problem: RecoveryProblem) -> Hashable:
    """All that a problem says, in the order in which it says it."""
    arrays = (problem.priorities, problem.costs, problem.bundle_of, problem.needs)
    mappings = (problem.assigned, problem.placed_costs, problem.movable, problem.levels)
    return (
        tuple((array.shape, array.tobytes()) for array in arrays),
        tuple(tuple(mapping.items()) for mapping in mappings),
        (problem.queries, problem.partitions, problem.predecessors, problem.nodes, problem.affinity),
        (problem.capacity, problem.max_utilisation),
    )
