"""Sending restored partitions back to where they ran, if that node is there again: it may have their state on
its disk, and a restore reads from the store only what is missing."""

from __future__ import annotations

from collections.abc import Mapping

from domain.planning import Placement, natural_key

ROUNDING = 1e-6


def homeward(
    placement: Placement,
    *,
    homes: Mapping[str, str],
    costs: Mapping[str, float],
    limits: Mapping[str, float],
) -> Placement:
    """The same partitions, each at home as far as there is room, the others where they were or else on the
    node with most free capacity. Where that leaves one without a node, the placement stays as it was.

    homes: partition -> node. limits: what may be planned on each usable node, in CPU percent; costs likewise.
    """
    free = {node: limits[node] - placement.load.get(node, 0.0) for node in limits}
    for partition, node in placement.placed.items():
        free[node] += costs[partition]
    ordered = sorted(placement.placed, key=lambda name: (-costs[name], natural_key(name)))
    placed: dict[str, str] = {}
    for at_home in (True, False):
        for partition in ordered:
            if partition in placed:
                continue
            wish = homes.get(partition) if at_home else placement.placed[partition]
            if wish not in free or free[wish] + ROUNDING < costs[partition]:
                if at_home:
                    continue
                wish = min(free, key=lambda node: (-free[node], natural_key(node)))
                if free[wish] + ROUNDING < costs[partition]:
                    return placement
            placed[partition] = wish
            free[wish] -= costs[partition]
    return Placement(
        assignment={**placement.assignment, **placed},
        placed=placed,
        load={node: limits[node] - room for node, room in free.items()},
        unplaced=placement.unplaced,
    )
