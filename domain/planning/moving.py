"""Moving what runs, where that makes room for a query that is worth more than the moves.

A failed partition can need a room that no node has, while a smaller partition that runs could as well run
elsewhere. Each running partition that may be moved has a price in points of priority: what it is worth not to
interrupt the queries behind it. For every query that is out, the most valuable first, the cheapest way to
place it is looked for: one or two moves and, if need be, one query of the plan given up. It is taken if moves
and query cost less together than is gained.

Nothing moves unless the problem names what may (`RecoveryProblem.movable`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import combinations

from domain.planning.packed_plan import PackedPlan
from domain.planning.placement import natural_key
from domain.planning.problem import capacity_grains, to_grains
from domain.planning.rooms import Effort

EFFORT = 100_000


@dataclass(frozen=True, slots=True)
class Moves:
    """plan: with the queries that moves make room for. nodes: where the running partitions go that are moved.
    price: of all moves, in points of priority."""

    plan: PackedPlan
    nodes: Mapping[str, str] = field(default_factory=dict)
    price: float = 0.0

    @property
    def worth(self) -> float:
        """Priority recovered, less the price of the moves."""
        return self.plan.value - self.price


@dataclass(frozen=True, slots=True)
class _Mover:
    """A running partition as an item of `Rooms`. frees, takes: grains at home and elsewhere, rounded down and
    up. price: of moving it."""

    name: str
    item: int
    home: int
    frees: int
    takes: int
    price: float


def with_moves(plan: PackedPlan) -> Moves:
    """The plan, and more of it where running partitions can make way."""
    problem = plan.layout.problem
    movers = _movers(plan)
    if not movers or len(plan.order) == len(problem.queries):
        return Moves(plan)
    grown = plan.copy()
    grown.rooms.effort = Effort(EFFORT)
    grown.rooms.costs = [*plan.layout.costs, *(mover.takes for mover in movers)]
    moved: dict[int, _Mover] = {}
    excess = plan.layout.excess
    shares = problem.bundle_weight.tolist()
    everything = range(len(problem.queries))
    for query in sorted(everything, key=lambda q: (-problem.priorities[q], q)):
        if query in grown.order:
            continue
        staying = [mover for mover in movers if mover.item not in moved]
        found = _room_for(grown, query, staying, excess)
        if found is not None:
            grown, few, excess = found
            grown.fill(shares)
            moved.update((mover.item, mover) for mover in few)
    if not moved:
        return Moves(plan)
    nodes = {mover.name: plan.layout.nodes[grown.rooms.where[item]] for item, mover in moved.items()}
    away = [mover for item, mover in moved.items() if grown.rooms.where[item] != mover.home]
    return Moves(
        plan=grown,
        nodes={mover.name: nodes[mover.name] for mover in away},
        price=sum(mover.price for mover in away),
    )


def _movers(plan: PackedPlan) -> list[_Mover]:
    """The cheapest first, of equal price the one that frees most."""
    problem = plan.layout.problem
    index = {node: i for i, node in enumerate(plan.layout.nodes)}
    priced = sorted(
        (name for name in problem.movable if problem.assigned[name] in index),
        key=lambda name: (problem.movable[name], -problem.placed_costs[name], natural_key(name)),
    )
    return [
        _Mover(
            name=name,
            item=len(plan.layout.costs) + number,
            home=index[problem.assigned[name]],
            frees=capacity_grains(problem.placed_costs[name]),
            takes=to_grains(problem.placed_costs[name]),
            price=problem.movable[name],
        )
        for number, name in enumerate(priced)
    ]


def _room_for(
    plan: PackedPlan, query: int, movers: Sequence[_Mover], excess: tuple[int, ...]
) -> tuple[PackedPlan, tuple[_Mover, ...], tuple[int, ...]] | None:
    """The plan with this query, the moves it takes, and what each node is above its bound after them; None if
    no way costs less than the query is worth. excess: before them."""
    for given_up, few in _ways(plan, movers, plan.layout.priorities[query]):
        if plan.rooms.effort.left <= 0:
            return None
        trial = plan.copy()
        for other in given_up:
            trial.drop(other)
        above = list(excess)
        for mover in few:
            trial.rooms.open(mover.home, max(0, mover.frees - above[mover.home]))
            above[mover.home] = max(0, above[mover.home] - mover.frees)
        if trial.add(query) and trial.rooms.add(m.item for m in sorted(few, key=lambda m: -m.takes)):
            return trial, few, tuple(above)
    return None


def _ways(
    plan: PackedPlan, movers: Sequence[_Mover], below: float
) -> list[tuple[tuple[int, ...], tuple[_Mover, ...]]]:
    """Queries to give up, none or one, with one or two moves, for less than this; the cheapest first."""
    priorities = plan.layout.priorities
    losers: list[tuple[int, ...]] = [(), *((q,) for q in sorted(plan.order) if priorities[q] < below)]
    moves = [(mover,) for mover in movers] + list(combinations(movers, 2))
    ways = [
        (price, given_up, few)
        for given_up in losers
        for few in moves
        if (price := sum(priorities[q] for q in given_up) + sum(m.price for m in few)) < below
    ]
    ways.sort(key=lambda way: (way[0], len(way[1]), len(way[2])))
    return [(given_up, few) for _, given_up, few in ways]
