"""From a selection to nodes: a selection that fits in sum may not fit on single nodes.

Also restores the failed partitions that no query needs, once every query is in the plan: an incident ends
only when nothing is missing any more.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import numpy as np

from domain.planning.moving import Moves
from domain.planning.packed_plan import PackedPlan, placer_for
from domain.planning.placement import Placement, Placer, natural_key
from domain.planning.problem import Flags, Integers, RecoveryProblem
from domain.planning.proposal import Selection
from domain.planning.settling import settled


@dataclass(frozen=True, slots=True)
class Fitted:
    """A selection as it can be carried out. `given_up` tells of queries that were chosen but not placed;
    `moves` are running partitions and where they go, for `price` points of priority."""

    selection: Selection
    partitions: list[int]
    placement: Placement | None = None
    given_up: dict[int, str] = field(default_factory=dict)
    moves: Mapping[str, str] = field(default_factory=dict)
    price: float = 0.0


def fit_on_nodes(problem: RecoveryProblem, selection: Selection) -> Fitted:
    """Place the selection. While a partition finds no node, the query that needs it and is worth least for
    its cost is given up; the room that is left in the end is offered to all that are not in the plan."""
    partitions = selection.restores(problem)
    if not problem.nodes:
        return _with_unneeded(problem, Fitted(selection, partitions), None)
    placer = placer_for(problem)
    unplaced = placer.add(problem.partitions[i] for i in partitions)
    given_up: dict[int, str] = {}
    if unplaced and selection.partitions is not None:
        selection, partitions = _without_unplaced(problem, selection, partitions, unplaced, given_up)
    elif unplaced:
        order = list(selection.order)
        _give_up(problem, placer, order, unplaced, given_up)
        covered = _refill(problem, placer, order, given_up)
        proven = selection.proven and not given_up
        selection = replace(selection, order=tuple(order), covered=covered, proven=proven)
        partitions = problem.partitions_of(covered)
    fitted = Fitted(selection, partitions, placer.placement(), given_up)
    return _with_unneeded(problem, fitted, placer)


def fit_packed(moves: Moves, selection: Selection) -> Fitted:
    """A plan that has its nodes already. What `selection` says beyond queries and bundles is kept, and so is
    its order if the queries are the same."""
    plan = moves.plan
    problem = plan.layout.problem
    order = selection.order if set(selection.order) == set(plan.order) else tuple(plan.order)
    covered = problem.covered(order)
    placer = settled(plan, moves.nodes)
    no_room = {
        query: _no_room(tuple(problem.partitions[i] for i in lacking))
        for query in range(len(problem.queries))
        if query not in plan.order and (lacking := _lacking(plan, query))
    }
    note = selection.note
    in_sum = problem.value_of(selection.order)
    if plan.value < in_sum:
        note = f"{note}; {in_sum} would fit in total, {plan.value} can be placed".removeprefix("; ")
    if moves.nodes:
        names = ", ".join(sorted(moves.nodes, key=natural_key))
        note = f"{note}; room is made by moving {names}, for {moves.price:g} points".removeprefix("; ")
    chosen = replace(selection, order=order, covered=covered, partitions=None, note=note)
    partitions = problem.partitions_of(covered)
    fitted = Fitted(chosen, partitions, placer.placement(), no_room, moves.nodes, moves.price)
    return _with_unneeded(problem, fitted, placer)


def _lacking(plan: PackedPlan, query: int) -> list[int]:
    """Partitions of this query for which no node has room; none if the sum is too little, too."""
    layout = plan.layout
    missing = plan.missing(query)
    partitions = sorted(
        (p for bundle in missing for p in layout.members[bundle]), key=layout.rank.__getitem__
    )
    roomiest = max(layout.free, default=0)
    too_large = [partition for partition in partitions if layout.costs[partition] > roomiest]
    if too_large or sum(layout.bundle_cost[bundle] for bundle in missing) > plan.left:
        return too_large
    # The search has found no room for all together; if each has some, the largest tells what is lacking.
    return plan.rooms.lacking(partitions) or partitions[:1]


def _give_up(
    problem: RecoveryProblem,
    placer: Placer,
    order: list[int],
    unplaced: tuple[str, ...],
    given_up: dict[int, str],
) -> None:
    """Remove queries from `order` until all partitions the others need are placed."""
    holders = problem.needed.counts(np.array(order, dtype=np.int64), problem.needs.shape[1])
    while unplaced:
        stuck = {int(problem.bundle_of[problem.partition_index[name]]) for name in unplaced}
        blocked = [i for i in order if not stuck.isdisjoint(problem.needed.row(i).tolist())]
        loser = min(blocked, key=lambda i: (_worth(problem, holders, i), -i))
        given_up[loser] = _no_room(unplaced)
        order.remove(loser)
        bundles = problem.needed.row(loser)
        holders[bundles] -= 1
        freed = np.zeros(len(holders), dtype=bool)
        freed[bundles[holders[bundles] == 0]] = True
        gone = {problem.partitions[i] for i in problem.partitions_of(freed)}
        placer.remove(gone.difference(unplaced))
        unplaced = placer.add(name for name in unplaced if name not in gone)


def _worth(problem: RecoveryProblem, holders: Integers, query: int) -> float:
    """Priority lost per cost freed by giving up this query."""
    bundles = problem.needed.row(query)
    freed = int(problem.bundle_cost[bundles[holders[bundles] == 1]].sum())
    return float(problem.priorities[query]) / freed if freed else float("inf")


def _no_room(unplaced: tuple[str, ...]) -> str:
    more = f" and {len(unplaced) - 3} more" if len(unplaced) > 3 else ""
    return f"out: enough is free in total, but no single node has room for {', '.join(unplaced[:3])}{more}"


def _without_unplaced(
    problem: RecoveryProblem,
    selection: Selection,
    partitions: list[int],
    unplaced: tuple[str, ...],
    given_up: dict[int, str],
) -> tuple[Selection, list[int]]:
    """For plans made of partitions: what has no node is left out, and with it the queries that need it."""
    without_node = {problem.partition_index[name] for name in unplaced}
    kept = [i for i in partitions if i not in without_node]
    complete = selection.covered.copy()
    for partition in without_node:
        if problem.bundle_of[partition] >= 0:
            complete[problem.bundle_of[partition]] = False
    whole = problem.recovered(complete)
    given_up.update({i: _no_room(unplaced) for i in selection.order if not whole[i]})
    order = tuple(i for i in selection.order if whole[i])
    return replace(selection, order=order, covered=complete, partitions=tuple(kept), proven=False), kept


def _refill(problem: RecoveryProblem, placer: Placer, order: list[int], given_up: dict[int, str]) -> Flags:
    """Add queries that can be placed in the room that is left, densest first; returns what is covered."""
    covered = problem.covered(order)
    chosen = set(order)
    waiting = [i for i in range(len(problem.queries)) if i not in chosen]
    weight = problem.needed.sums(problem.bundle_weight * ~covered)
    waiting.sort(key=lambda i: (-problem.priorities[i] / weight[i] if weight[i] else -np.inf, i))
    left = problem.capacity - int(problem.bundle_cost[covered].sum())
    for query in waiting:
        missing = problem.needs[query] & ~covered
        cost = int(problem.bundle_cost[missing].sum())
        if cost > left:
            continue
        names = [problem.partitions[i] for i in problem.partitions_of(missing)]
        unplaced = placer.add(names)
        if unplaced:
            placer.remove(set(names).difference(unplaced))
            given_up[query] = _no_room(unplaced)
            continue
        order.append(query)
        given_up.pop(query, None)
        covered |= missing
        left -= cost
    return covered


def _with_unneeded(problem: RecoveryProblem, fitted: Fitted, placer: Placer | None) -> Fitted:
    """Add partitions that no query needs, as far as they fit, if the plan recovers every query."""
    already = set(fitted.partitions)
    unneeded = [i for i in np.flatnonzero(problem.bundle_of < 0).tolist() if i not in already]
    if not unneeded or len(fitted.selection.order) < len(problem.queries):
        return fitted
    left = problem.capacity - (int(problem.costs[fitted.partitions].sum()) if already else 0)
    added = []
    for partition in unneeded:
        cost = int(problem.costs[partition])
        if cost > left or (placer is not None and placer.add([problem.partitions[partition]])):
            continue
        left -= cost
        added.append(partition)
    placement = None if placer is None else placer.placement()
    return replace(fitted, partitions=sorted([*fitted.partitions, *added]), placement=placement)
