"""What the next replica would buy: the fewest partitions more with which a plan is better. Pure."""

from __future__ import annotations

from dataclasses import dataclass, replace

from domain.planning import natural_key
from domain.replication.planner import ReplicationPlanner, ReplicationProblem

FARTHEST = 6
"""Partitions more than the budget up to which a gain is looked for: each of them is a plan."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NextReplica:
    """A larger budget and its plan. gain: fidelity above that of the present budget; 0 if no budget that was
    looked at gains anything. added, dropped: how its plan differs from the present one."""

    budget: int
    more: int
    fidelity: float
    gain: float
    added: tuple[str, ...]
    dropped: tuple[str, ...]


def next_replica(planner: ReplicationPlanner, problem: ReplicationProblem) -> NextReplica | None:
    """The smallest budget above the present one that has a better plan, else the largest that was looked at.
    None where the budget is enough for every partition already.

    A query needs a whole way from a source, so one partition more may gain nothing, but three may. Raises
    `TooLargeError` where the planner cannot do it.
    """
    most = min(problem.budget + FARTHEST, len(problem.model.partitions))
    if most <= problem.budget:
        return None
    now = planner.plan(problem)
    here = {chosen.partition for chosen in now.chosen}
    found: NextReplica | None = None
    for budget in range(problem.budget + 1, most + 1):
        plan = planner.plan(replace(problem, budget=budget))
        there = {chosen.partition for chosen in plan.chosen}
        gain = max(0.0, plan.fidelity_after - now.fidelity_after)
        found = NextReplica(
            budget=budget,
            more=budget - problem.budget,
            fidelity=plan.fidelity_after,
            gain=gain,
            added=tuple(sorted(there - here, key=natural_key)) if gain else (),
            dropped=tuple(sorted(here - there, key=natural_key)) if gain else (),
        )
        if gain:
            break
    return found
