"""Overload: more input than the nodes can work off is a loss of capacity, also while every node is alive.

Queries that are worth least for the time they take are parked, and return when the load that is measured then
leaves time for them. What comes back too early is parked again, and then stays parked twice as long. During a
recovery the same is done by `domain.recovery.relief`; what it has parked returns from here, too.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

from domain.capacity import Pace
from domain.planning import load_after_moves, natural_key, queries_to_park, queries_to_return
from domain.planning.parking import PARK_TO, RETURN_TO
from domain.recovery.costs import Costs
from domain.recovery.incident import ENDED_PHASES, Deployment, NodeView, Phase, TopologyCase
from domain.recovery.memory import Memory
from domain.recovery.moving import even_out
from domain.recovery.pace import busiest_of
from domain.recovery.relief import limits_of

HOLD = 20.0
"""Seconds for which what was parked once stays parked; every further time it is twice as long."""
LONGEST_HOLD = 600.0
SURGE = 300.0
"""Seconds after a plan in which more input may yet be a surge that passes. In that time queries return only
up to the load that was usual, whatever room nodes have: a replay besides would make every query late."""
NEXT = 5.0
"""Seconds between a plan and the next return: its load must have been measured."""


@dataclass(frozen=True, slots=True)
class Parking:
    """queries: all that are parked from now on. limits: see `ParkAsked`."""

    queries: frozenset[str]
    reason: str
    limits: Mapping[str, float] = field(default_factory=dict)


def parking_for(
    name: str,
    deployments: Mapping[str, Deployment],
    *,
    usable: Collection[NodeView],
    costs: Costs,
    pace: Pace,
    overloaded: bool,
    case: TopologyCase | None,
    memory: Memory,
    now: float,
) -> Parking | None:
    """Which queries of a topology are to be parked from now on; None for no change.

    costs: what partitions count for in the incident, or would. overloaded: it has been so for long enough.
    case, memory: of the open incident, if there is one; while it recovers anything, nothing changes.
    """
    deployment = deployments[name]
    measured = deployment.measured(costs[name])
    parked = memory.parked.get(name, frozenset())
    if pace.load is None or not _settled(name, deployment, case, parked, memory):
        return None
    spaces = [node.space() for node in usable]
    if overloaded:
        stops = queries_to_park(
            deployment.topology,
            assignment=deployment.assignment,
            nodes=spaces,
            costs=measured,
            priorities=deployment.priorities,
            load=pace.load,
            parked=parked,
        )
        reason = (
            f"input arrives faster than it is processed: each second of input takes {pace.load:.2f} s of "
            f"work, and {pace.lag:.1f} s of input wait"
        )
        if not stops:
            return None
        limits = limits_of(
            name,
            deployments,
            costs,
            failed={name: case.failed} if case is not None else {},
            stop=deployment.topology.exclusive_partitions(parked.union(stops)),
            load=pace.load,
        )
        return Parking(parked.union(stops), reason, {**memory.limits.get(name, {}), **limits})
    # It may have been deployed anew, without some of them.
    mine = memory.parked_by_policy.get(name, frozenset()) & deployment.topology.query_partitions.keys()
    limited = bool(memory.limits.get(name))
    if not (mine or limited) or pace.overloaded_since is not None:
        return None
    if not _held_long_enough(name, case, memory, now):
        return None
    if not mine:
        reason = f"each second of input takes {pace.load:.2f} s of work now, so its nodes may take more again"
        return Parking(parked, reason) if pace.load <= RETURN_TO else None
    recent = case is not None and case.applied_at is not None and now - case.applied_at <= SURGE
    usual = pace.usual if recent else None
    return_to = RETURN_TO if usual is None else max(PARK_TO, usual)
    if usual is not None and pace.load > return_to:
        return None
    back = queries_to_return(
        deployment.topology,
        homes={p: home for p in deployment.topology.partitions if (home := deployment.home(p))},
        nodes=spaces,
        costs=measured,
        priorities=deployment.priorities,
        load=pace.load,
        parked=parked,
        candidates=sorted(mine, key=natural_key),
        return_to=return_to,
    )
    if memory.overloads[name] > 1:
        back = back[:1]  # what all of them take was underrated before
    elif pace.falls and len(back) < len(mine):
        return None  # more may return soon, and one replay of several costs less than one after the other
    if back:
        reason = f"each second of input takes {pace.load:.2f} s of work now"
        return Parking(parked.difference(back), reason)
    failed = case.failed if case is not None else ()
    limits = _limits_of_the_busiest(deployment, usable, costs[name], measured, failed)
    if limited and not limits.keys() < memory.limits[name].keys():
        return _whatever_room(name, parked, mine, case, memory, now)
    reason = f"each second of input takes {pace.load:.2f} s of work, too much for more where most is done"
    if usual is not None:
        reason += f"; for {SURGE / 60:.0f} minutes queries return only up to {return_to:.2f} s"
    return Parking(parked, reason, limits)


def moves_instead(
    name: str,
    deployments: Mapping[str, Deployment],
    *,
    usable: Collection[NodeView],
    costs: Costs,
    max_utilisation: float,
    pace: Pace,
    most: int,
) -> dict[str, str]:
    """Partition -> node, if moves alone end an overload: some nodes have much to do and others little, as
    after a recovery in which nodes came one by one. Empty if queries have to be parked. For a topology
    without an open incident. most: moves."""
    deployment = deployments[name]
    if pace.load is None or deployment.unassigned:
        return {}
    moves = even_out(
        name,
        deployments=deployments,
        usable=usable,
        costs=costs,
        max_utilisation=max_utilisation,
        failed={},
        most=most,
    )
    load = load_after_moves(
        deployment.topology,
        moves,
        assignment=deployment.assignment,
        nodes=[node.space() for node in usable],
        costs=deployment.measured(costs[name]),
        load=pace.load,
    )
    return moves if load <= RETURN_TO else {}


def _whatever_room(
    name: str,
    parked: frozenset[str],
    mine: frozenset[str],
    case: TopologyCase | None,
    memory: Memory,
    now: float,
) -> Parking | None:
    """Everything returns, wherever it finds room, if nothing could for so long: what the others have taken
    meanwhile may be what it needs. It then waits for room like what has failed, and a node is asked for."""
    if case is None or case.applied_at is None or now - case.applied_at < LONGEST_HOLD:
        return None
    reason = f"nothing could return for {LONGEST_HOLD / 60:.0f} minutes, and nothing is overloaded now"
    return Parking(parked - mine, reason, memory.limits[name])


def _limits_of_the_busiest(
    deployment: Deployment,
    usable: Collection[NodeView],
    costs: Mapping[str, float],
    measured: Mapping[str, float],
    failed: Collection[str],
) -> dict[str, float]:
    """The nodes that make epochs long take no more, so what is parked may return elsewhere."""
    planned: defaultdict[str, float] = defaultdict(float)
    used: defaultdict[str, float] = defaultdict(float)
    for partition, node in deployment.assignment.items():
        if partition not in failed:
            planned[node] += costs[partition]
            used[node] += measured[partition]
    return {node: round(planned[node], 4) for node in sorted(busiest_of(usable, used))}


def _settled(
    name: str,
    deployment: Deployment,
    case: TopologyCase | None,
    parked: Collection[str],
    memory: Memory,
) -> bool:
    """Whether all that is not parked works live, by a plan that has been applied. What is down waits for
    nothing but room where nodes have limits."""
    if case is None or case.phase in ENDED_PHASES:
        return not deployment.unassigned
    held = deployment.topology.exclusive_partitions(parked)
    applied = case.phase in (Phase.REPLAYING, Phase.VERIFYING)
    live = not case.restore or memory.caught_up.get(name) == case.generation
    return applied and live and not case.moves and (case.failed <= held or name in memory.limits)


def _held_long_enough(name: str, case: TopologyCase | None, memory: Memory, now: float) -> bool:
    since = case.applied_at if case is not None else None
    if since is None:
        return False
    times = memory.overloads[name]
    # The queries of one overload return one after the other, so only the first of them waits so long.
    mine = memory.parked_by_policy.get(name, frozenset())
    returning = 0 < len(mine) < memory.parked_most.get(name, 0)
    hold = min(HOLD * 2 ** max(0, times - 1), LONGEST_HOLD)
    return now - since >= (NEXT if returning else hold)


def may_return_elsewhere(name: str, case: TopologyCase, memory: Memory, now: float) -> bool:
    """Whether what is parked may go to nodes that have room, whatever the load is: at once, but if the policy
    has parked queries more than once, and no node has joined since, as late as by the load."""
    if memory.overloads[name] <= 1 or memory.joined_since.get(name):
        return True
    return _held_long_enough(name, case, memory, now)
