"""Which partitions further behind replay beside those next to the present. Pure."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Mapping

from domain.execution.reach import links_of
from domain.topology import Topology


def elsewhere_of(
    topology: Topology,
    reach: Mapping[str, int],
    level: int,
    further: Collection[int],
    homes: Mapping[str, str],
) -> dict[int, set[str]]:
    """Reach -> the partitions of that reach which come along, for each of `further`, the nearest first. The
    others stay: their node has no time, or they need epochs of one that stays. level: the reach of the
    nearest ones, which replay in any case. homes: partition -> node; those without one stay.

    A job is as slow as its fullest node. So a node of nearer ones takes further ones until it has as many
    partitions as the fullest of these nodes, and any other node all of its own.
    """
    if not homes or not further:
        return {}
    members: dict[int, list[tuple[str, int, str]]] = {one: [] for one in (level, *further)}
    for operator, partitions in links_of(topology).partitions.items():
        for index, partition in enumerate(partitions):
            if reach.get(partition) in members:
                members[reach[partition]].append((operator, index, partition))
    loads = Counter(homes[partition] for *_, partition in members[level] if partition in homes)
    found: dict[int, set[str]] = {}
    for other in further:
        come = _with_time(topology, members[other], homes, loads)
        if come:
            found[other] = come
            loads.update(homes[partition] for partition in come)
    return found


def _with_time(
    topology: Topology,
    members: Collection[tuple[str, int, str]],
    homes: Mapping[str, str],
    loads: Mapping[str, int],
) -> set[str]:
    """Those that may come along. members: operator, index and partition, in topological order. loads: how
    many partitions of nearer ones each node has."""
    inputs, fullest = links_of(topology).inputs, max(loads.values(), default=0)
    room = {node: fullest - load for node, load in loads.items()}
    stay: defaultdict[str, set[int]] = defaultdict(set)
    come = set[str]()
    for operator, index, partition in members:
        node = homes.get(partition)
        waits = any(
            stay[link.other] and (link.ranges is None or not stay[link.other].isdisjoint(link.ranges[index]))
            for link in inputs[operator]
        )
        if node is None or waits or room.get(node, 1) < 1:
            stay[operator].add(index)
            continue
        come.add(partition)
        if node in room:
            room[node] -= 1
    return come
