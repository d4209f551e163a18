"""Moving what runs, where that makes room for a query that is worth more than the moves.

A failed partition can need a room that no node has, while a smaller partition that runs could as well run
elsewhere. Each running partition that may be moved has a price in points of priority: what it is worth not to
interrupt the queries behind it. What runs of a chain on one node moves as one. For every query that is out,
the most valuable first, the cheapest way to place it is looked for: one or two moves and, if need be, one
query of the plan given up. It is taken if moves and query cost less together than is gained.

Nothing moves unless the problem names what may (`RecoveryProblem.movable`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import combinations, product

from domain.planning.packed_plan import PackedPlan
from domain.planning.placement import natural_key
from domain.planning.problem import RecoveryProblem, capacity_grains, to_grains
from domain.planning.rooms import Effort

EFFORT = 100_000
MOST_MOVERS, MOST_GIVEN_UP = 40, 20
"""How many of what may move, and of the queries that may be given up, are tried for a query: the cheapest."""


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
    """A running partition, or what runs of a chain on one node, as an item of `Rooms`. frees, takes: grains
    at home and elsewhere, rounded down and up. price: of moving it."""

    names: tuple[str, ...]
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
        if grown.rooms.effort.left <= 0:
            break
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
    away = [mover for item, mover in moved.items() if grown.rooms.where[item] != mover.home]
    return Moves(
        plan=grown,
        nodes={
            name: plan.layout.nodes[grown.rooms.where[mover.item]] for mover in away for name in mover.names
        },
        price=sum(mover.price for mover in away),
    )


def _movers(plan: PackedPlan) -> list[_Mover]:
    """The cheapest first, of equal price the one that frees most."""
    problem = plan.layout.problem
    index = {node: i for i, node in enumerate(plan.layout.nodes)}
    units = [
        (
            sum(problem.movable[name] for name in names),
            sum(problem.placed_costs[name] for name in names),
            names,
        )
        for names in _units(problem)
        if problem.assigned[names[0]] in index
    ]
    units.sort(key=lambda unit: (unit[0], -unit[1], natural_key(unit[2][0])))
    return [
        _Mover(
            names=names,
            item=len(plan.layout.costs) + number,
            home=index[problem.assigned[names[0]]],
            frees=capacity_grains(cost),
            takes=to_grains(cost),
            price=price,
        )
        for number, (price, cost, names) in enumerate(units)
    ]


def _units(problem: RecoveryProblem) -> list[tuple[str, ...]]:
    """What moves as one: what runs of a chain on one node, if all of it may; else single partitions."""
    alone = set(problem.movable)
    units: list[tuple[str, ...]] = []
    for chain in problem.affinity:
        together: dict[str, list[str]] = {}
        for name in chain:
            if name in problem.assigned:
                together.setdefault(problem.assigned[name], []).append(name)
        for names in together.values():
            alone.difference_update(names)
            if all(name in problem.movable for name in names):
                units.append(tuple(names))
    return units + [(name,) for name in sorted(alone, key=natural_key)]


def _room_for(
    plan: PackedPlan, query: int, movers: Sequence[_Mover], excess: tuple[int, ...]
) -> tuple[PackedPlan, tuple[_Mover, ...], tuple[int, ...]] | None:
    """The plan with this query, the moves it takes, and what each node is above its bound after them; None if
    no way costs less than the query is worth. excess: before them."""
    for given_up, few in _ways(plan, query, movers):
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
    plan: PackedPlan, query: int, movers: Sequence[_Mover]
) -> list[tuple[tuple[int, ...], tuple[_Mover, ...]]]:
    """Queries to give up, none or one, with one or two moves, for less than this query is worth; the cheapest
    first. Left out is what cannot make room for it."""
    priorities, worth = plan.layout.priorities, plan.layout.priorities[query]
    cheaper = sorted((q for q in plan.order if priorities[q] < worth), key=lambda q: (priorities[q], q))
    losers: list[tuple[int, ...]] = [(q,) for q in cheaper[:MOST_GIVEN_UP]]
    if sum(plan.layout.bundle_cost[bundle] for bundle in plan.missing(query)) <= plan.left:
        losers.insert(0, ())
    opening, others = _opening(plan, query, [mover for mover in movers if mover.price < worth])
    moves = [(mover,) for mover in opening] + [*combinations(opening, 2), *product(opening, others)]
    ways = [
        (price, given_up, few)
        for given_up in losers
        for few in moves
        if (price := sum(priorities[q] for q in given_up) + sum(m.price for m in few)) < worth
    ]
    ways.sort(key=lambda way: (way[0], len(way[1]), len(way[2])))
    return [(given_up, few) for _, given_up, few in ways]


def _opening(plan: PackedPlan, query: int, movers: Sequence[_Mover]) -> tuple[list[_Mover], list[_Mover]]:
    """The cheapest of those that open a room for the smallest partition that this query needs, alone or with
    one more from the same node; and of the others, for which only those can make way."""
    layout = plan.layout
    plan.rooms.effort.left -= len(movers)
    smallest = min((layout.costs[p] for k in plan.missing(query) for p in layout.members[k]), default=0)
    most: dict[int, list[int]] = {}
    for mover in movers:
        most[mover.home] = sorted([*most.get(mover.home, ()), mover.frees])[-2:]
    opening: list[_Mover] = []
    others: list[_Mover] = []
    for mover in movers:
        beside = most[mover.home].copy()
        if mover.frees in beside:
            beside.remove(mover.frees)
        room = plan.rooms.free[mover.home] + mover.frees + max(beside, default=0)
        (opening if mover.frees > 0 and room >= smallest else others).append(mover)
    return opening[:MOST_MOVERS], others[:MOST_MOVERS]
