"""The interface of all planners, and what they share: placing a plan and explaining it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import ClassVar

from domain.planning.fitting import Fitted, fit_on_nodes, fit_packed
from domain.planning.moving import with_moves
from domain.planning.packed_plan import PackedPlan
from domain.planning.packing import packed
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
        """Select, place on the problem's nodes (if it names any) and explain."""
        if not problem.queries:
            nothing = Selection(order=(), covered=problem.covered(()), bound=0.0, proven=True)
            return _proposal(self.name, problem, fit_on_nodes(problem, nothing))
        if not problem.nodes:
            return _proposal(self.name, problem, fit_on_nodes(problem, self.select(problem)))
        return _proposal(self.name, problem, self.fit(problem))

    def fit(self, problem: RecoveryProblem) -> Fitted:
        """Select and place on the problem's nodes.

        Free capacity in sum can be more than any node has room for. Here a selection that cannot be placed
        gives up its least valuable queries that need an unplaced partition until the rest can be: the
        algorithms of the papers as they are, followed by placement.
        """
        return fit_on_nodes(problem, self.select(problem))


class PackingPlanner(Planner):
    """Places while it chooses: the plan of the algorithm is where the search for one that has room on nodes
    begins (`packing`)."""

    def fit(self, problem: RecoveryProblem) -> Fitted:
        selection = self.select(problem)
        if len(selection.order) == len(problem.queries):
            fitted = fit_on_nodes(problem, selection)
            if not fitted.given_up:
                return fitted
        return fit_packed(with_moves(self.pack(problem, selection)), selection)

    def pack(self, problem: RecoveryProblem, selection: Selection) -> PackedPlan:
        """The best plan found with a node for everything, begun from what was selected in sum."""
        return packed(problem, starts_of(selection))


def starts_of(selection: Selection) -> list[tuple[int, ...]]:
    """The plan of an algorithm and the best of those it has considered."""
    return [selection.order, *(queries for queries, _, _ in selection.considered)]


def _proposal(name: str, problem: RecoveryProblem, fitted: Fitted) -> RecoveryPlanProposal:
    final = fitted.selection
    bound = None if final.bound is None else min(final.bound, float(problem.total_priority))
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
        moves=fitted.moves,
        move_price=fitted.price,
        candidates=final.candidates,
        bound=bound,
        proven=final.proven,
        note=final.note,
        alternatives=describe_alternatives(problem, final.considered),
    )
