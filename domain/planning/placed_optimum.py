"""The best plan that nodes have room for, with a proof or a bound.

First the relaxation without placement (`packing_program`): its bound alone proves most plans of the search.
Where it promises more, its queries are placed by a complete search. If that shows that there is no way, as
few of them as cannot be placed together are excluded, and the relaxation is solved again. What stays open is
left to the program with placement, as far as that has a size that can be solved.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from domain.planning.packed_plan import Layout, PackedPlan
from domain.planning.packing_program import PackingProgram, pairs_of
from domain.planning.repacking import repack
from domain.planning.rooms import Effort

# Rounds of exclusions, steps of each complete search, and partitions it is tried for.
ROUNDS = 30
REPACK_STEPS = 20_000
REPACKED = 150
EFFORT = 50_000
# Partitions times nodes up to which placement is part of the program.
MOST_PAIRS = 20_000


@dataclass(frozen=True, slots=True)
class Optimum:
    """The best plan found; no plan with a place for everything is worth more than `bound`."""

    plan: PackedPlan
    bound: float
    status: str

    @property
    def proven(self) -> bool:
        return self.bound < self.plan.value + 1 - 1e-7


def placed_optimum(plan: PackedPlan, *, time_limit: float) -> Optimum:
    """Begin with this plan; time_limit: seconds for the solver."""
    layout = plan.layout
    best = Optimum(plan, float(layout.problem.total_priority), "not started")
    if best.proven:
        return best
    relaxed = PackingProgram(layout, placing=False)
    for _ in range(ROUNDS):
        relaxed.suggest(best.plan.order, {})
        left = time_limit / 2 - relaxed.seconds
        if left <= 0:
            break
        found = relaxed.solve(left)
        best = Optimum(best.plan, min(best.bound, found.bound), found.status)
        if best.proven or found.queries is None:
            break
        where, settled = _where(layout, found.queries)
        if where is not None:
            best = _better(best, found.queries, where)
        if where is not None or not settled:
            break
        relaxed.exclude(_fewest(layout, found.queries))
    if best.proven or len(pairs_of(layout)) > MOST_PAIRS:
        return best
    exact = PackingProgram(layout, placing=True)
    exact.suggest(best.plan.order, best.plan.rooms.where)
    found = exact.solve(max(0.0, time_limit - relaxed.seconds))
    best = Optimum(best.plan, min(best.bound, found.bound), found.status)
    return best if found.queries is None else _better(best, found.queries, found.where)


def _better(best: Optimum, queries: Sequence[int], where: dict[int, int]) -> Optimum:
    """With these queries, if they are worth more and really have room: the solver computes in floats."""
    plan = PackedPlan(best.plan.layout, Effort(EFFORT))
    if not plan.take_at(queries, where) or plan.value <= best.plan.value:
        return best
    return Optimum(plan, max(best.bound, float(plan.value)), best.status)


def _where(layout: Layout, queries: Sequence[int]) -> tuple[dict[int, int] | None, bool]:
    """A node for everything that these need, or None; and whether that answer is certain."""
    plan = PackedPlan(layout, Effort(EFFORT))
    plan.take_together(queries)
    if len(plan.order) == len(queries):
        return plan.rooms.where, True
    needed = _needed(layout, queries)
    if len(needed) > REPACKED:
        return None, False
    found = repack([layout.costs[p] for p in needed], layout.free, steps=REPACK_STEPS)
    return (None if found.where is None else dict(zip(needed, found.where, strict=True))), found.proven


def _fewest(layout: Layout, queries: Sequence[int]) -> list[int]:
    """As few of these as certainly cannot be placed together, in the order in which they can be left out."""
    kept = list(queries)
    for query in sorted(queries, key=lambda q: (layout.priorities[q], q)):
        fewer = [other for other in kept if other != query]
        found = repack(
            [layout.costs[p] for p in _needed(layout, fewer)], layout.free, steps=REPACK_STEPS // 10
        )
        if found.where is None and found.proven:
            kept = fewer
    return kept


def _needed(layout: Layout, queries: Sequence[int]) -> list[int]:
    bundles = sorted({bundle for query in queries for bundle in layout.needed[query]})
    return [partition for bundle in bundles for partition in layout.members[bundle]]
