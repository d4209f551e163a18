"""The result of a planner: the partitions to restore, their nodes, and why each query is in or out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np

from domain.planning.cores import cores, cores_number
from domain.planning.placement import Placement
from domain.planning.problem import GRAIN, Flags, Integers, RecoveryProblem, to_percent


@dataclass(frozen=True, slots=True, kw_only=True)
class Selection:
    """The selection of an algorithm, before placement.

    order: queries in the order they were taken.
    covered: bundles restored completely. partitions: what to restore, where that is not just these bundles
        (an algorithm that thinks in partitions).
    candidates: plans that were compared. considered: the best of them, as (queries, value, cost in grains).
    bound: no plan within the capacity has a higher value. proven: this one is optimal.
    """

    order: tuple[int, ...]
    covered: Flags
    partitions: tuple[int, ...] | None = None
    candidates: int = 1
    considered: tuple[tuple[tuple[int, ...], int, int], ...] = ()
    bound: float | None = None
    proven: bool = False
    note: str = ""

    def restores(self, problem: RecoveryProblem) -> list[int]:
        """Indices of the partitions to restore."""
        return problem.partitions_of(self.covered) if self.partitions is None else list(self.partitions)

    def cost(self, problem: RecoveryProblem) -> int:
        """What they cost together, in grains."""
        return int(problem.costs[self.restores(problem)].sum())


@dataclass(frozen=True, slots=True, kw_only=True)
class QueryExplanation:
    """One failed query in one plan. Costs are CPU percent.

    cost: all its failed partitions; marginal_cost: those no query taken before it already restores.
    shared: its failed partitions that other failed queries need too, of `failed_partitions`.
    density: priority per cost, shared costs divided (Definition 3), when it was taken or passed over;
        None where everything it needs is already restored. rank: position in the plan, from 1.
    """

    query: str
    priority: int
    selected: bool
    rank: int | None
    cost: float
    marginal_cost: float
    failed_partitions: int
    shared: int
    density: float | None
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class RecoveryPlanProposal:
    """A plan for one wave. `value` of `total` priority is recovered, at `cost` of `capacity` CPU percent.

    bound: an upper bound of the best value possible, where the planner knows one; `gap` is the relative
    distance to it, and `proven` says that no plan is better.
    placement: node per partition, for problems that name nodes; its `placed` are the restored partitions.
    moves: running partitions that go to another node to make room, and that node; `move_price` is what that
        costs, in points of priority, and not taken off `value`. Only where the problem says what may move.
    """

    planner: str
    queries: tuple[str, ...]
    partitions: tuple[str, ...]
    value: int
    total: int
    cost: float
    capacity: float
    explanations: tuple[QueryExplanation, ...]
    placement: Placement | None = None
    moves: Mapping[str, str] = field(default_factory=dict)
    move_price: float = 0.0
    candidates: int = 1
    bound: float | None = None
    proven: bool = False
    note: str = ""
    alternatives: tuple[dict[str, Any], ...] = ()

    @property
    def gap(self) -> float | None:
        """0.0 is optimal; None if no bound is known."""
        if self.bound is None:
            return None
        return max(0.0, (self.bound - self.value) / self.bound) if self.bound > 0 else 0.0

    def to_data(self) -> dict[str, Any]:
        """Plain data for JSON, as an incident's story and the REST interface show it."""
        data = asdict(self)
        data["gap"] = self.gap
        return data


def explain(
    problem: RecoveryProblem, selection: Selection, dropped: dict[int, str]
) -> tuple[QueryExplanation, ...]:
    """Replay the selection query by query. `dropped` says why a chosen query was given up in placement."""
    covered = np.zeros(problem.needs.shape[1], dtype=bool)
    shared_bundles = problem.sharing > 1
    sizes = problem.bundle_size
    told: dict[int, QueryExplanation] = {}

    def tell(query: int, rank: int | None, reason: str) -> None:
        needed = problem.needs[query]
        missing = needed & ~covered
        marginal = int(problem.bundle_cost[missing].sum())
        weight = float(problem.bundle_weight[missing].sum())
        density = None
        if weight > 0:
            density = float(problem.priorities[query]) / (weight / problem.weight_scale * GRAIN)
        told[query] = QueryExplanation(
            query=problem.queries[query],
            priority=int(problem.priorities[query]),
            selected=rank is not None,
            rank=rank,
            cost=to_percent(int(problem.query_cost[query])),
            marginal_cost=to_percent(marginal),
            failed_partitions=int(sizes[needed].sum()),
            shared=int(sizes[needed & shared_bundles].sum()),
            density=density,
            reason=reason,
        )

    used = 0
    for rank, query in enumerate(selection.order, start=1):
        missing = problem.needs[query] & ~covered
        marginal = int(problem.bundle_cost[missing].sum())
        used += marginal
        tell(query, rank, _taken(marginal, problem.capacity - used))
        covered |= missing
    covered |= selection.covered
    left = problem.capacity - selection.cost(problem)
    by_parts = selection.partitions is not None
    for query in range(len(problem.queries)):
        if query not in told:
            missing = problem.needs[query] & ~covered
            tell(query, None, dropped.get(query) or _passed(problem.bundle_cost[missing], left, by_parts))
    ranked = sorted(told.items(), key=lambda item: (item[1].rank is None, item[1].rank or 0, item[0]))
    return tuple(explanation for _, explanation in ranked)


def _taken(marginal: int, left: int) -> str:
    if marginal == 0:
        return "in: costs nothing more, because queries before it need the same partitions"
    return f"in: takes {cores(to_percent(marginal))} and leaves {cores_number(to_percent(left))} free"


def _passed(missing: Integers, left: int, in_partitions: bool) -> str:
    lacking = int(missing.sum())
    wants = cores(to_percent(lacking))
    if left <= 0:
        return f"out: needs {wants} more, and nothing is left free"
    if lacking > left:
        return f"out: needs {wants} more, and only {cores_number(to_percent(left))} would be left free"
    if in_partitions:
        return f"out: there is room for its {wants}; this planner takes partitions in turn, not whole queries"
    return f"out: there is room for its {wants}; this planner stopped before it"


def describe_alternatives(
    problem: RecoveryProblem, considered: Sequence[tuple[tuple[int, ...], int, int]]
) -> tuple[dict[str, Any], ...]:
    """The best candidate plans, for the story of an incident."""
    return tuple(
        {"queries": [problem.queries[i] for i in queries], "value": value, "cost": to_percent(cost)}
        for queries, value, cost in considered
    )
