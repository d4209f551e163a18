"""Nodes planned a little fuller than usual, where that keeps chains whole or makes epochs much shorter."""

from __future__ import annotations

from dataclasses import replace

from domain.planning import NodeSpace, epoch_cost, level_out, place
from domain.recovery.wave_choice import Choice, at_home

FULLER = 1.1
"""How much of what may be planned on a node, at most, where that keeps chains whole, or makes epochs much
shorter: 0.88 instead of 0.8."""
SHORTER = 0.9
"""Share of an epoch's time that is much shorter. A stage lasts as long as its busiest node works, and on
nodes that are filled to the brim nothing can change its place."""


def together(choice: Choice) -> Choice | None:
    """The same partitions with fewer chains torn, on nodes that may be planned a little fuller; None if that
    is not possible. What a torn chain sends takes more of both its nodes than that. Nodes of which more
    proved too much are not planned fuller."""
    problem, chosen, (most, nodes) = choice.problem, choice.proposal.partitions, _fuller(choice)
    placement = place(
        partitions=chosen,
        nodes=nodes,
        costs=problem.placed_costs,
        assigned=problem.assigned,
        max_utilisation=most,
        affinity=problem.affinity,
        levels=problem.levels,
    )
    if placement.unplaced:
        return None
    proposal = replace(choice.proposal, placement=placement)
    why = "connected partitions stay together"
    fuller = replace(choice, proposal=proposal, max_utilisation=most, as_planned=True, fuller_for=why)
    return fuller if fuller.torn < choice.torn else None


def shorter(choice: Choice) -> Choice | None:
    """The same partitions with much shorter epochs, on nodes that may be planned a little fuller; None if
    that is not possible. Nodes of which more proved too much are not planned fuller."""
    if not choice.proposal.partitions or choice.proposal.placement is None:
        return None
    problem, (most, nodes), closed = choice.problem, _fuller(choice), choice.busy
    placement = level_out(
        replace(problem, nodes=tuple(nodes), max_utilisation=most),
        choice.placement,
        fixed=at_home(choice.situation, choice.placement, closed),
        closed=closed,
    )
    if epoch_cost(problem, placement) > SHORTER * epoch_cost(problem, choice.placement):
        return None
    proposal = replace(choice.proposal, placement=placement)
    why = choice.fuller_for or "epochs are shorter"
    other = replace(choice, proposal=proposal, max_utilisation=most, as_planned=True, fuller_for=why)
    return other if other.torn <= choice.torn else None


def _fuller(choice: Choice) -> tuple[float, list[NodeSpace]]:
    """The share of nodes that may be planned where that gains much, and the nodes; of those of which more
    proved too much no more than otherwise."""
    usual, limited = choice.situation.max_utilisation, choice.situation.at_limit
    most = min(1.0, FULLER * usual)
    return most, [
        replace(node, capacity=usual / most * node.capacity) if node.name in limited else node
        for node in choice.problem.nodes
    ]
