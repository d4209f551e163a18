"""Plans that keep chains on one node, where planning partition by partition would tear them apart.

What one member of a chain sends to the next travels through the exchange if they are on different nodes; for
a source that is its whole input. That costs more than most queries, and no cost of a partition shows it. So
each chain is also planned as one: its first member counts for all of it, and the others go along.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import replace

from domain.planning.placement import Placement
from domain.planning.problem import RecoveryProblem


def torn_chains(problem: RecoveryProblem, assignment: Mapping[str, str]) -> int:
    """How many chains have members on more than one node."""
    homes = ({assignment[p] for p in chain if p in assignment} for chain in problem.affinity)
    return sum(len(nodes) > 1 for nodes in homes)


def with_whole_chains(problem: RecoveryProblem) -> RecoveryProblem:
    """The same problem, in which the first of the failed members of each chain costs what all of them do, and
    the others nothing."""
    costs, placed_costs = problem.costs.copy(), dict(problem.placed_costs)
    for members in _groups(problem):
        indices = [problem.partition_index[name] for name in members]
        costs[indices[0]], costs[indices[1:]] = costs[indices].sum(), 0
        placed_costs[members[0]] = sum(problem.placed_costs[name] for name in members)
        placed_costs.update(dict.fromkeys(members[1:], 0.0))
    return replace(problem, costs=costs, placed_costs=placed_costs)


def leaves_parts(problem: RecoveryProblem, partitions: Collection[str]) -> bool:
    """Whether some members of a chain are among these partitions of that problem, and others are not. A
    planner that takes partitions and not queries may do so, and the room that they need is then in no sum."""
    chosen = set(partitions)
    return any(0 < len(chosen.intersection(members)) < len(members) for members in _groups(problem))


def rejoined(problem: RecoveryProblem, placement: Placement) -> Placement:
    """A placement of that problem, with each chain where its first member is: the load is what it was."""
    placed = dict(placement.placed)
    for members in _groups(problem):
        if members[0] in placed:
            placed.update(dict.fromkeys((one for one in members if one in placed), placed[members[0]]))
    return replace(placement, placed=placed, assignment={**placement.assignment, **placed})


def _groups(problem: RecoveryProblem) -> Iterator[list[str]]:
    """The failed members of each chain, where the same queries need all of them."""
    for chain in problem.affinity:
        members = [name for name in chain if name in problem.partition_index]
        bundles = {int(problem.bundle_of[problem.partition_index[name]]) for name in members}
        if len(members) > 1 and len(bundles) == 1 and -1 not in bundles:
            yield members
