"""Where a plan that was placed while it was chosen goes in the end.

The search puts single partitions on nodes. What is carried out keeps runs of operators that feed each other
one to one on one node where that is possible, because there they share a Spark stage. If nothing waits for
room, partitions are spread over the nodes (`placement`); otherwise they are packed, largest first, each to
the node on which least room remains: what a later wave restores needs rooms that are whole.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from domain.planning.packed_plan import Layout, PackedPlan, placer_for
from domain.planning.placement import Placer
from domain.planning.problem import RecoveryProblem
from domain.planning.rooms import Effort, Rooms

EFFORT = 20_000


def settled(plan: PackedPlan, moved: Mapping[str, str]) -> Placer:
    """The placement that is carried out. With moves (partition -> node) it is the one that was found."""
    problem = plan.layout.problem
    if moved:
        placer = placer_for(problem, moved)
        placer.put(_named(plan.layout, plan.rooms.where))
        return placer
    partitions = [problem.partitions[partition] for partition in sorted(plan.rooms.where)]
    if len(plan.order) == len(problem.queries):
        spread = placer_for(problem)
        if not spread.add(partitions):
            return spread
    placer = placer_for(problem)
    where = _in_runs(plan.layout, sorted(plan.rooms.where)) or plan.rooms.where
    placer.put(_named(plan.layout, where))
    return placer


def _named(layout: Layout, where: Mapping[int, int]) -> dict[str, str]:
    """Names of failed partitions and nodes; running partitions that were moved have higher numbers."""
    names = layout.problem.partitions
    return {names[p]: layout.nodes[node] for p, node in where.items() if p < len(names)}


def _in_runs(layout: Layout, partitions: Sequence[int]) -> Mapping[int, int] | None:
    """Partitions packed run by run; a run that fits nowhere is split. None if something finds no room."""
    problem = layout.problem
    index = {node: i for i, node in enumerate(layout.nodes)}
    runs, homes = _runs(problem, partitions, index)
    # Items to place: first the runs, then every partition by itself, for runs that are split.
    costs = [sum(layout.costs[p] for p in run) for run in runs] + [layout.costs[p] for p in partitions]
    alone = {partition: len(runs) + i for i, partition in enumerate(partitions)}
    rooms = Rooms(layout.free, costs, Effort(EFFORT))
    for run in sorted(range(len(runs)), key=lambda i: (homes[i] is None, -costs[i], i)):
        home = homes[run]
        if (home is not None and rooms.add_at(run, home)) or rooms.add([run]):
            continue
        if len(runs[run]) == 1 or not rooms.add(alone[p] for p in runs[run]):
            return None
    members = {**dict(enumerate(runs)), **{item: (p,) for p, item in alone.items()}}
    return {p: node for item, node in rooms.where.items() for p in members[item]}


def _runs(
    problem: RecoveryProblem, partitions: Sequence[int], index: Mapping[str, int]
) -> tuple[list[tuple[int, ...]], list[int | None]]:
    """The partitions by the run they belong to, and for each run the node on which the rest of it is."""
    chosen = {problem.partitions[partition]: partition for partition in partitions}
    runs: list[tuple[int, ...]] = []
    homes: list[int | None] = []
    for group in problem.affinity:
        members = tuple(chosen.pop(name) for name in group if name in chosen)
        if members:
            at = {problem.assigned[name] for name in group if name in problem.assigned}
            runs.append(members)
            homes.append(index.get(at.pop()) if len(at) == 1 else None)
    runs += [(partition,) for partition in chosen.values()]
    homes += [None] * len(chosen)
    return runs, homes
