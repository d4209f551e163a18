"""Which epochs can run next, from what each partition has applied. Pure."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass

from controlplane.domain.topology import Topology


@dataclass(frozen=True, slots=True)
class Range:
    """Run epochs `first..last` (both included), each partition from its own start in `progress`."""

    first: int
    last: int
    progress: dict[str, int]


def blocked_partitions(topology: Topology, absent: Collection[str]) -> set[str]:
    """Absent partitions and everything downstream of them: they cannot advance."""
    blocked = set(absent)
    for partition in topology.partitions:
        if any(source in blocked for source in topology.upstream(partition)):
            blocked.add(partition)
    return blocked


def next_range(
    topology: Topology,
    progress: Mapping[str, int],
    *,
    head: int,
    absent: Collection[str],
    limit: int,
) -> Range | None:
    """The next epochs, at most `limit`, that advance the partition furthest behind; None if all that can
    advance have reached `head`.

    A partition behind its inputs (it failed while they went on) makes its ancestors start from where it
    stands: their state is versioned, so they replay from an older manifest, and whoever is further ahead
    drops the duplicates.
    """
    blocked = blocked_partitions(topology, absent)
    starts: dict[str, int] = {}
    for partition in reversed(topology.partitions):
        if partition in blocked:
            continue
        below = [starts[target] for target in topology.downstream(partition) if target in starts]
        starts[partition] = min([progress[partition], *below])
    # What lies above blocked partitions only is run as well: it may feed others.
    behind = [start for start in starts.values() if start < head]
    if not behind:
        return None
    first = min(behind) + 1
    last = min(head, first + limit - 1)
    runnable = {partition: start for partition, start in starts.items() if start <= last}
    return Range(first, last, {**progress, **runnable})
