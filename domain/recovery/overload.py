"""Overload: more input than the nodes can work off is a loss of capacity, also while every node is alive.

Queries that are worth least for the time they take are parked, and return when the load that is measured then
leaves time for them. What comes back too early is parked again, and then stays parked twice as long.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass

from domain.capacity import Pace
from domain.planning import NodeSpace, natural_key, queries_to_park, queries_to_return
from domain.recovery.incident import ENDED_PHASES, Deployment, NodeView, Phase, TopologyCase
from domain.recovery.memory import Memory

HOLD = 20.0
"""Seconds for which what was parked once stays parked; every further time it is twice as long."""
LONGEST_HOLD = 600.0
NEXT = 5.0
"""Seconds between a plan and the next return: its load must have been measured."""


@dataclass(frozen=True, slots=True)
class Parking:
    """queries: all that are parked from now on."""

    queries: frozenset[str]
    reason: str


def parking_for(
    name: str,
    deployment: Deployment,
    *,
    usable: Collection[NodeView],
    costs: Mapping[str, float],
    pace: Pace,
    overloaded: bool,
    case: TopologyCase | None,
    memory: Memory,
    now: float,
) -> Parking | None:
    """Which queries of a topology are to be parked from now on; None for no change.

    costs: CPU percent of each partition. overloaded: it has been so for long enough. case, memory: of the
    open incident, if there is one; while it recovers anything, nothing changes.
    """
    parked = memory.parked.get(name, frozenset())
    if pace.load is None or not _settled(deployment, case, parked, memory):
        return None
    spaces = [NodeSpace(name=node.name, capacity=node.capacity, load=node.load) for node in usable]
    if overloaded:
        stops = queries_to_park(
            deployment.topology,
            assignment=deployment.assignment,
            nodes=spaces,
            costs=costs,
            priorities=deployment.priorities,
            load=pace.load,
            parked=parked,
        )
        reason = (
            f"more comes in than is worked off: each second of input takes {pace.load:.2f} s of work, and "
            f"{pace.lag:.1f} s of input wait"
        )
        return Parking(parked.union(stops), reason) if stops else None
    mine = memory.parked_by_policy.get(name, frozenset())
    if not mine or pace.overloaded_since is not None or not _held_long_enough(name, case, memory, now):
        return None
    back = queries_to_return(
        deployment.topology,
        homes={p: home for p in deployment.topology.partitions if (home := deployment.home(p))},
        nodes=spaces,
        costs=costs,
        priorities=deployment.priorities,
        load=pace.load,
        parked=parked,
        candidates=sorted(mine, key=natural_key),
    )
    reason = f"each second of input takes {pace.load:.2f} s of work now"
    return Parking(parked.difference(back), reason) if back else None


def _settled(
    deployment: Deployment, case: TopologyCase | None, parked: Collection[str], memory: Memory
) -> bool:
    """Whether all that is not parked works live, by a plan that has been applied."""
    if case is None or case.phase in ENDED_PHASES:
        return not deployment.unassigned
    held = deployment.topology.exclusive_partitions(parked)
    applied = case.phase in (Phase.REPLAYING, Phase.VERIFYING)
    live = not case.restore or memory.caught_up.get(case.name) == case.generation
    return applied and live and not case.moves and case.failed <= held


def _held_long_enough(name: str, case: TopologyCase | None, memory: Memory, now: float) -> bool:
    since = case.applied_at if case is not None else None
    if since is None:
        return False
    times = memory.overloads[name]
    # The queries of one overload return one after the other, so only the first of them waits so long.
    returning = len(memory.parked_by_policy.get(name, ())) < memory.parked_most.get(name, 0)
    hold = min(HOLD * 2 ** max(0, times - 1), LONGEST_HOLD)
    return now - since >= (NEXT if returning else hold)
