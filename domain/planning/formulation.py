"""From topologies, failures and nodes to a `RecoveryProblem`.

Which queries need a partition is found by one pass over the graph against the streams, with a set of queries
held as the bits of one integer; partitions with equal bits form a bundle.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace

import numpy as np

from domain.planning.deployment import chains, partition_levels
from domain.planning.placement import (
    MAX_UTILISATION,
    NodeSpace,
    effective_costs,
    natural_key,
)
from domain.planning.problem import RecoveryProblem, capacity_grains, to_grains
from domain.topology import Topology

POINTS = 20
"""Of each unit of priority where some queries are worth a part of theirs: priorities stay whole numbers."""


def problem_from_sets(
    queries: Mapping[str, Collection[str]],
    *,
    costs: Mapping[str, float],
    capacity: float,
    priorities: Mapping[str, int] | None = None,
    failed: Collection[str] | None = None,
    restored: Collection[str] = (),
) -> RecoveryProblem:
    """A problem from the failed partitions of each query; for planning without a topology.

    failed: default every partition named. restored: those that earlier waves brought back.
    """
    gone = set(restored)
    lost = (set(failed) if failed is not None else set().union(*queries.values())) - gone
    names = sorted(queries, key=natural_key)
    bits: dict[str, int] = dict.fromkeys(lost, 0)
    for position, name in enumerate(names):
        for partition in queries[name]:
            if partition in bits:
                bits[partition] |= 1 << position
    worth = {name: int((priorities or {}).get(name, 1)) for name in names}
    return _problem(worth, bits, costs, capacity, tentative={})


def recovery_problem(
    topologies: Topology | Iterable[Topology],
    *,
    failed: Collection[str],
    costs: Mapping[str, float],
    nodes: Collection[NodeSpace] = (),
    capacity: float | None = None,
    restored: Collection[str] = (),
    assigned: Mapping[str, str] | None = None,
    movable: Mapping[str, float] | None = None,
    priorities: Mapping[str, int] | None = None,
    parked: Collection[str] = (),
    tentative: Mapping[str, float] | None = None,
    max_utilisation: float = MAX_UTILISATION,
) -> RecoveryProblem:
    """The problem of one wave, for one topology or for the global topology of several.

    topologies: one `Topology` (names are then plain, `O3[2]`) or several (names are `topology/O3[2]`).
    failed: every partition that is not running, restored or not.
    restored: failed ones that earlier waves already brought back; they cost nothing and need no node.
    nodes: where the plan may place partitions. `capacity` defaults to their free capacity in sum, after
        the `assigned` partitions that stay; give it explicitly to plan without placement.
    movable: assigned partitions that may be moved where that makes room, and the price of each move in points
        of priority; none by default.
    priorities: overrides of the priorities in the specifications, by query.
    parked: queries that are not to return, whatever room there is.
    tentative: queries that give a part of their output -> what that counts for, 0 to 1, as a share of their
        priority. The rest of it is what they are worth to have back.
    Raises ValueError for a failed partition no topology has, for a movable one that does not run or has a
    negative price, and if neither nodes nor capacity are given.
    """
    single = isinstance(topologies, Topology)
    members = [topologies] if isinstance(topologies, Topology) else list(topologies)
    lost = set(failed).difference(restored)
    worth: dict[str, int] = {}
    bits: dict[str, int] = {}
    upstream: dict[str, list[str]] = {}
    levels: dict[str, int] = {}
    affinity: list[tuple[str, ...]] = []
    for topology in members:
        prefix = "" if single else f"{topology.name}/"
        position = {query: len(worth) + i for i, query in enumerate(topology.queries)}
        worth.update({prefix + query: topology.priority(query) for query in topology.queries})
        reach: dict[str, int] = {}
        for group in reversed(topology.groups):
            seen = 0
            for partition in group:
                if partition in position and prefix + partition not in parked:
                    seen |= 1 << position[partition]
                for below in topology.downstream(partition):
                    seen |= reach.get(below, 0)
            reach.update(dict.fromkeys(group, seen))
        for partition in topology.partitions:
            full = prefix + partition
            above = [prefix + one for one in topology.before(partition)]
            if full in lost:
                bits[full] = reach[partition]
            if full in lost or any(one in lost or one in upstream for one in above):
                upstream[full] = above
        levels.update({prefix + name: level for name, level in partition_levels(topology).items()})
        affinity.extend(tuple(prefix + name for name in group) for group in chains(topology))
    unknown = lost.difference(bits)
    if unknown:
        raise ValueError(
            f"no topology has the failed partition {', '.join(sorted(unknown, key=natural_key))}"
        )
    assigned = {name: node for name, node in (assigned or {}).items() if name not in lost}
    for name, price in (movable or {}).items():
        if name not in assigned or price < 0.0:
            raise ValueError(
                f"{name} cannot be moved for {price:g} points: it has to run, and the price to be 0 or more"
            )
    full_costs = effective_costs(
        partitions=[*bits, *assigned], nodes=nodes, costs=costs, max_utilisation=max_utilisation
    )
    if capacity is None:
        if not nodes:
            raise ValueError("give the nodes that can take partitions, or a capacity")
        capacity = free_capacity(nodes, assigned, full_costs, max_utilisation)
    worth |= {name: int(priority) for name, priority in (priorities or {}).items() if name in worth}
    problem = _problem(worth, bits, full_costs, capacity, tentative=tentative or {})
    return replace(
        problem,
        predecessors=_predecessors(problem.partitions, upstream),
        nodes=tuple(nodes),
        assigned=assigned,
        movable={name: price * problem.points for name, price in (movable or {}).items()},
        placed_costs=full_costs,
        affinity=tuple(affinity),
        levels=levels,
        max_utilisation=max_utilisation,
    )


def free_capacity(
    nodes: Iterable[NodeSpace],
    assigned: Mapping[str, str],
    costs: Mapping[str, float],
    max_utilisation: float = MAX_UTILISATION,
) -> float:
    """What the nodes can still take together, in CPU percent; a node above its bound offers nothing."""
    load = {node.name: node.load for node in nodes if not node.standby}
    for partition, node in assigned.items():
        if node in load:
            load[node] += costs.get(partition, 0.0)
    return sum(
        max(0.0, node.capacity * max_utilisation - load[node.name]) for node in nodes if not node.standby
    )


def _problem(
    worth: Mapping[str, int],
    bits: Mapping[str, int],
    costs: Mapping[str, float],
    capacity: float,
    *,
    tentative: Mapping[str, float],
) -> RecoveryProblem:
    """A problem without placement: sorts names, merges partitions with equal bits, and unpacks the bits into
    the matrix. worth: the priority of each query, in the order of the bits. costs, capacity: CPU percent."""
    names, partitions = list(worth), sorted(bits, key=natural_key)
    signatures = dict.fromkeys(bits[name] for name in partitions if bits[name])
    bundle_index = {signature: i for i, signature in enumerate(signatures)}
    width = (len(names) + 7) // 8
    packed = b"".join(signature.to_bytes(width, "little") for signature in signatures)
    matrix = np.frombuffer(packed, dtype=np.uint8).reshape(len(signatures), width)
    needs = np.unpackbits(matrix, axis=1, count=len(names), bitorder="little").astype(bool).T
    order = sorted(np.flatnonzero(needs.any(axis=1)).tolist(), key=lambda i: natural_key(names[i]))
    queries = tuple(names[i] for i in order)
    points = POINTS if any(tentative.get(name, 0.0) > 0.0 for name in queries) else 1
    left = [max(1, round(points * worth[name] * (1.0 - tentative.get(name, 0.0)))) for name in queries]
    return RecoveryProblem(
        queries=queries,
        priorities=np.array(left, dtype=np.int64),
        partitions=tuple(partitions),
        costs=np.array([to_grains(float(costs[name])) for name in partitions], dtype=np.int64),
        bundle_of=np.array([bundle_index.get(bits[name], -1) for name in partitions], dtype=np.int64),
        needs=np.ascontiguousarray(needs[order]),
        capacity=max(0, capacity_grains(capacity)),
        predecessors=((),) * len(partitions),
        points=points,
    )


def _predecessors(
    partitions: Sequence[str], upstream: Mapping[str, Sequence[str]]
) -> tuple[tuple[int, ...], ...]:
    """The failed partitions next upstream of each failed one, looking through healthy ones. upstream: in
    topological order."""
    index = {name: i for i, name in enumerate(partitions)}
    above: dict[str, set[int]] = {}
    for name, sources in upstream.items():
        above[name] = set()
        for source in sources:
            above[name] |= {index[source]} if source in index else above.get(source, set())
    return tuple(tuple(sorted(above.get(name, ()))) for name in partitions)
