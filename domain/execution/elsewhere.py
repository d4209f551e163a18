"""Which partitions further behind replay beside those next to the present. Pure."""

from __future__ import annotations

from collections import defaultdict
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
    """Of the partitions whose reach is one of `further`, from the nearest on, those that share no node with
    nearer ones that replay, and need nothing of those of their own reach that do: by reach. level: the reach
    of the nearest ones, which replay in any case. homes: partition -> node; those without one stay.

    Nodes that the nearer ones need have no time for the others, and a job is as slow as its slowest node.
    """
    if not homes or not further:
        return {}
    members: dict[int, list[tuple[str, int, str]]] = {one: [] for one in (level, *further)}
    for operator, partitions in links_of(topology).partitions.items():
        for index, partition in enumerate(partitions):
            if reach.get(partition) in members:
                members[reach[partition]].append((operator, index, partition))
    taken = {homes.get(partition) for *_, partition in members[level]} | {None}
    found: dict[int, set[str]] = {}
    for other in further:
        come = _not_on(topology, members[other], homes, taken)
        if come:
            found[other] = come
            taken |= {homes[partition] for partition in come}
    return found


def _not_on(
    topology: Topology,
    members: Collection[tuple[str, int, str]],
    homes: Mapping[str, str],
    taken: Collection[str | None],
) -> set[str]:
    """Those on other nodes than `taken` that need nothing of those on these. members: operator, index and
    partition, in topological order."""
    inputs = links_of(topology).inputs
    stay: defaultdict[str, set[int]] = defaultdict(set)
    come = set[str]()
    for operator, index, partition in members:
        waits = homes.get(partition) in taken or any(
            stay[link.other] and (link.ranges is None or not stay[link.other].isdisjoint(link.ranges[index]))
            for link in inputs[operator]
        )
        if waits:
            stay[operator].add(index)
        else:
            come.add(partition)
    return come
