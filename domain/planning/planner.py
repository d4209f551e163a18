"""The interface of all planners, and what they share: placing a plan and explaining it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import ClassVar

from domain.planning.fitting import Fitted, fit_on_nodes
from domain.planning.problem import RecoveryProblem, to_percent
from domain.planning.proposal import (
    RecoveryPlanProposal,
    Selection,
    describe_alternatives,
    explain,
)


class Planner(ABC):
    """Chooses what to restore in one wave. Planners hold parameters only and can be shared.

    The same problem always gives the same proposal, except where a planner documents a time limit.
    """

    name: ClassVar[str]

    @abstractmethod
    def select(self, problem: RecoveryProblem) -> Selection:
        """The algorithm itself: within `problem.capacity` in sum, before partitions are placed on nodes."""

    def plan(self, problem: RecoveryProblem) -> RecoveryPlanProposal:
        """Select, place on the problem's nodes (if it names any) and explain.

        Free capacity in sum can be more than any node has room for. A plan that cannot be placed gives up
        its least valuable queries that need an unplaced partition until the rest can be.
        """
        if problem.queries:
            selection = self.select(problem)
        else:
            selection = Selection(order=(), covered=problem.covered(()), bound=0.0, proven=True)
        fitted = fit_on_nodes(problem, selection)
        return _proposal(self.name, problem, selection, fitted)


def _proposal(
    name: str, problem: RecoveryProblem, selection: Selection, fitted: Fitted
) -> RecoveryPlanProposal:
    final = fitted.selection
    bound = None if selection.bound is None else min(selection.bound, float(problem.total_priority))
    return RecoveryPlanProposal(
        planner=name,
        queries=tuple(problem.queries[i] for i in final.order),
        partitions=tuple(problem.partitions[i] for i in fitted.partitions),
        value=problem.value_of(final.order),
        total=problem.total_priority,
        cost=to_percent(int(problem.costs[fitted.partitions].sum())) if fitted.partitions else 0.0,
        capacity=to_percent(problem.capacity),
        explanations=explain(problem, final, fitted.given_up),
        placement=fitted.placement,
        candidates=selection.candidates,
        bound=bound,
        proven=selection.proven and not fitted.given_up,
        note=selection.note,
        alternatives=describe_alternatives(problem, selection.considered),
    )
