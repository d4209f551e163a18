"""On which nodes replicas go. Pure and deterministic.

A replica is for when its partition's node is lost, and usually that is not lost alone: so it is on a node of
another rack, if there is one. It stays where it is while that is a place for it, since moving it means to
replay.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from domain.planning import natural_key
from domain.planning.racks import domain_of

ROUNDING = 1e-6
SPARE = 1.2
"""A new replica needs so many times its costs, so that it has not to go where costs are measured a little
higher."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicaNode:
    """A living node that may run replicas. free: CPU percent that may be planned there besides its own
    partitions; negative where these are too much already. standby: it runs no partitions."""

    name: str
    rack: str = ""
    free: float = 0.0
    standby: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Replicas:
    """assignment: partition -> node. unplaced: those for which no node has room, or there is no node besides
    their own. waiting: those that are to come or to go at a later look."""

    assignment: Mapping[str, str]
    unplaced: tuple[str, ...] = ()
    waiting: tuple[str, ...] = ()


def place_replicas(
    wanted: Sequence[str],
    *,
    current: Mapping[str, str],
    homes: Mapping[str, str],
    nodes: Collection[ReplicaNode],
    costs: Mapping[str, float],
    caught_up: Collection[str] = (),
    together: Collection[Sequence[str]] = (),
    most: int = 3,
) -> Replicas:
    """Where replicas are to be from now on, at most `most` of them new or elsewhere.

    wanted: partitions, the most important first. current: where replicas are. homes: where partitions run.
    costs: CPU percent of each. caught_up: partitions whose replica is as far as they are: what is not wanted
    any more goes when these can do without it, and at once where its place is none. together: chains, whose
    replicas go to the same node if it has room: torn apart they would need a stage each after a takeover.
    """
    group = {partition: members for members in together for partition in members}
    known = {node.name: node for node in nodes}
    free = {name: node.free for name, node in known.items()}
    places = {p: _places(homes[p], known) for p in {*wanted, *current} if p in homes}
    placed = {p: node for p, node in current.items() if node in places.get(p, ())}
    kept = with_room(placed, wanted=wanted, free=free, costs=costs)
    assignment, unplaced, waiting, new = dict(kept), list[str](), list[str](), 0
    used: defaultdict[str, int] = defaultdict(int)
    for node in kept.values():
        used[node] += 1
    waits = {partition for partition in wanted if partition in homes and partition not in assignment}
    for partition in wanted:
        if partition not in waits:
            continue
        waits.discard(partition)
        fitting = [name for name in places[partition] if free[name] + ROUNDING >= SPARE * costs[partition]]
        if not fitting:
            unplaced.append(partition)
            continue
        if new >= most:
            waiting.append(partition)
            continue
        chain = group.get(partition, ())
        beside = {assignment[one] for one in chain if one in assignment}
        whole = SPARE * (costs[partition] + sum(costs[one] for one in chain if one in waits))
        node = min(
            fitting,
            key=lambda name: (
                name not in beside,
                free[name] + ROUNDING < whole,
                not known[name].standby,
                -free[name],
                used[name],
                natural_key(name),
            ),
        )
        assignment[partition] = node
        free[node] -= costs[partition]
        used[node] += 1
        new += 1
    gone = sorted(kept.keys() - set(wanted), key=natural_key)
    ready = not waiting and all(partition in caught_up for partition in wanted if partition in assignment)
    if ready:
        for partition in gone:
            del assignment[partition]
    else:
        waiting += gone
    return Replicas(assignment=assignment, unplaced=tuple(unplaced), waiting=tuple(waiting))


def with_room(
    current: Mapping[str, str],
    *,
    wanted: Sequence[str],
    free: dict[str, float],
    costs: Mapping[str, float],
    always: Collection[str] = (),
) -> dict[str, str]:
    """The replicas that stay where they are; where there is not enough room, the least important ones go.

    wanted: the most important first. free: CPU percent by node; what stays is taken off. always: partitions
    whose replicas stay without room.
    """
    order = {partition: rank for rank, partition in enumerate(wanted)}

    def importance(partition: str) -> tuple[bool, int, Any]:
        return partition not in always, order.get(partition, len(order)), natural_key(partition)

    kept: dict[str, str] = {}
    for partition in sorted(current, key=importance):
        node, cost = current[partition], costs[partition]
        if partition in always or free[node] + ROUNDING >= cost:
            kept[partition] = node
            free[node] -= cost
    return kept


def _places(home: str, nodes: Mapping[str, ReplicaNode]) -> frozenset[str]:
    """The nodes on which a replica of a partition at `home` may be: of other racks, else any other one."""
    others = {name: node for name, node in nodes.items() if name != home}
    if home not in nodes:
        return frozenset(others)
    own = domain_of(home, nodes[home].rack)
    elsewhere = {name for name, node in others.items() if domain_of(name, node.rack) != own}
    return frozenset(elsewhere or others)
