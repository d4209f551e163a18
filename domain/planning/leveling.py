"""Where the partitions of a wave go, so that its epochs take little time.

Packing decides what returns; it fills one node after the other, and then all partitions of a level may be on
one node while the others wait for it in that stage of every epoch. The chosen partitions are therefore
placed again, each where it makes epochs least longer. Chains are kept together first of all: what one of its
members sends to the next would travel through the exchange, and for a source that is the whole input.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace

from domain.planning.epoch_time import EpochTime, Unit
from domain.planning.placement import PRECISION, NodeSpace, Placement, natural_key
from domain.planning.problem import RecoveryProblem
from domain.planning.whole_chains import torn_chains

_Found = tuple[int, float, dict[str, str]]
"""Torn chains, what epochs cost, and where partitions are."""

MOST_MOVES = 50
MOST_UNITS = 2_000
"""Larger waves are left as they were packed: many units on a node even each other out."""


def level_out(
    problem: RecoveryProblem,
    placement: Placement,
    fixed: Collection[str] = (),
    closed: Collection[str] = (),
) -> Placement:
    """The same partitions on the same nodes within the same bounds, with shorter epochs; the same placement
    if it is best. fixed: partitions that stay where the placement has them. closed: nodes to which the others
    go only if there is no room for all of them elsewhere, or chains would be torn."""
    nodes = _places(problem)
    free = {p: node for p, node in placement.placed.items() if p not in fixed}
    if len(nodes) < 2 or not free or len(free) > MOST_UNITS:
        return placement
    rows = _rows(problem)
    kept = {p: node for p, node in placement.assignment.items() if p not in free}
    units = [_unit(members, problem, rows) for members in _groups(free, problem, {})]

    def improved(state: EpochTime, among: Sequence[NodeSpace]) -> _Found:
        cost = _improve(state)
        placed = _placed_in(state, among)
        return torn_chains(problem, {**kept, **placed}), cost, placed

    def spread(among: Sequence[NodeSpace]) -> _Found | None:
        state = _staying(problem, among, kept.items(), rows)
        return improved(state, among) if _spread(state, units) else None

    index = {node.name: position for position, node in enumerate(nodes)}
    packed = _staying(problem, nodes, kept.items(), rows)
    for members in _groups(free, problem, free):
        packed.put(_unit(members, problem, rows), index[free[members[0]]])
    found = improved(packed, nodes), spread(nodes)
    torn, _, moved = min((one for one in found if one is not None), key=lambda one: one[:2])
    others = [node for node in nodes if node.name not in closed]
    # On these alone: beside nodes with much to do, any placement on them would be as good.
    apart = spread(others) if 0 < len(others) < len(nodes) else None
    if apart is not None and apart[0] <= torn:
        moved = apart[2]
    placed = {**placement.placed, **moved}
    assignment = {**placement.assignment, **moved}
    state = _staying(problem, nodes, assignment.items(), rows)
    return Placement(
        assignment=assignment,
        placed=placed,
        load={
            node.name: round(float(total), PRECISION)
            for node, total in zip(nodes, state.total * state.capacity, strict=True)
        },
        unplaced=placement.unplaced,
    )


def epoch_cost(problem: RecoveryProblem, placement: Placement) -> float:
    """How long epochs take under a placement, in what `EpochTime` counts."""
    nodes = _places(problem)
    return _staying(problem, nodes, placement.assignment.items(), _rows(problem)).cost() if nodes else 0.0


def _places(problem: RecoveryProblem) -> list[NodeSpace]:
    """The nodes that partitions may be placed on, by name."""
    return sorted((n for n in problem.nodes if not n.standby), key=lambda n: natural_key(n.name))


def _placed_in(state: EpochTime, nodes: Sequence[NodeSpace]) -> dict[str, str]:
    """Where the units that may move are now."""
    return {
        p: nodes[at].name for at, units in enumerate(state.movable) for unit in units for p in unit.members
    }


def _staying(
    problem: RecoveryProblem,
    nodes: Sequence[NodeSpace],
    staying: Collection[tuple[str, str]],
    rows: Mapping[str, int],
) -> EpochTime:
    """The nodes with what is not placed anew. What has no level is of a topology that has no part in this."""
    besides: defaultdict[str, float] = defaultdict(float)
    for name, node in staying:
        if name not in rows:
            besides[node] += problem.placed_costs[name]
    spaces = [replace(node, load=node.load + besides[node.name]) for node in nodes]
    state = EpochTime(spaces, levels=len(set(rows.values())), max_utilisation=problem.max_utilisation)
    index = {node.name: position for position, node in enumerate(nodes)}
    for name, node in sorted(staying):
        if name in rows and node in index:
            state.put(_unit((name,), problem, rows), index[node], movable=False)
    return state


def _spread(state: EpochTime, units: list[Unit]) -> bool:
    """Put each unit, the largest first, where it makes epochs least longer; False if one has no room."""
    for unit in sorted(units, key=lambda one: (-one.cost, natural_key(one.members[0]))):
        node = state.best_node(unit)
        if node is None:
            return False
        state.put(unit, node)
    return True


def _improve(state: EpochTime) -> float:
    """What the placement costs after the moves that shorten epochs most."""
    for _ in range(MOST_MOVES):
        move = state.best_move()
        moves = (state.best_swap() or ()) if move is None else (move,)
        if not moves:
            break
        for one in moves:
            state.carry_out(*one)
    return state.cost()


def _rows(problem: RecoveryProblem) -> Mapping[str, int]:
    """Partition -> number of its stage. Topologies run one beside the other, each with stages of its own."""
    keys = {p: (p.rpartition("/")[0], level) for p, level in problem.levels.items()}
    numbers = {key: number for number, key in enumerate(dict.fromkeys(keys.values()))}
    return {p: numbers[key] for p, key in keys.items()}


def _unit(members: tuple[str, ...], problem: RecoveryProblem, rows: Mapping[str, int]) -> Unit:
    costs: defaultdict[int, float] = defaultdict(float)
    for name in members:
        costs[rows[name]] += problem.placed_costs[name]
    return Unit(members, dict(costs))


def _groups(
    free: Collection[str], problem: RecoveryProblem, placed: Mapping[str, str]
) -> Iterator[tuple[str, ...]]:
    """What is kept together: chains, as far as they are free, and by `placed` on one node."""
    chain_of = {name: chain for chain in problem.affinity for name in chain}
    groups: defaultdict[tuple[tuple[str, ...], str], list[str]] = defaultdict(list)
    for name in free:
        groups[chain_of.get(name, (name,)), placed.get(name, "")].append(name)
    return (tuple(members) for members in groups.values())
