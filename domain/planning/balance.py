"""Which partitions that run should change their node, so that no node is the slowest of every epoch, and the
loss of a rack takes down little."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Mapping

import numpy as np

from domain.planning.deployment import chains, partition_levels
from domain.planning.epoch_time import EpochTime, Unit
from domain.planning.placement import (
    MAX_UTILISATION,
    PRECISION,
    NodeSpace,
    Placement,
    effective_costs,
    natural_key,
)
from domain.planning.rack_exposure import MOST_CELLS, RackExposure
from domain.planning.rack_moves import leave_racks
from domain.planning.racks import RackTerms, domain_of, priorities_of, racks_known
from domain.planning.standing import Standing
from domain.topology import Topology

WORTHWHILE = 0.1
"""Share of what the placement costs, or of its exposure to the loss of a rack, that all moves together must
save, or nothing moves."""
MOST_MOVES = 200
"""Partitions, or chains of partitions, that move at once: a tenth of all and a few more, and never more than
this."""
FEW = 10


def balancing_moves(
    topology: Topology,
    assignment: Mapping[str, str],
    nodes: Collection[NodeSpace],
    costs: Mapping[str, float],
    *,
    max_utilisation: float = MAX_UTILISATION,
    most: int = MOST_MOVES,
    worthwhile: float = WORTHWHILE,
    least: float = 0.0,
    racks: RackTerms | None = None,
    movable: Collection[str] | None = None,
) -> dict[str, str]:
    """Partition -> node to which it should move; empty if the placement is even already.

    assignment: partition -> node now; what is on none of `nodes` stays there and does not count.
    nodes: those that may take partitions; `load` is what they have besides this topology.
    costs: CPU percent of each partition. most: see `MOST_MOVES`.
    worthwhile, least: what all moves together must save, as a share of what the placement costs and in
    seconds per second of epochs; otherwise nothing moves for the sake of time. The share is also that of
    the exposure which must be saved if they save no time.
    racks: None if racks do not count. movable: the partitions that may move, None for all; not with racks.
    No node takes a partition that would bring it above `max_utilisation`.
    """
    usable = sorted((one for one in nodes if not one.standby), key=lambda one: natural_key(one.name))
    if len(usable) < 2:
        return {}
    standing = _standing(topology, assignment, usable, costs, max_utilisation, racks, movable)
    time, exposed, mark = standing.time.cost(), standing.exposed(), standing.time.mark()
    most = min(most, FEW + len(assignment) // 10)
    while len(standing.made) < most:
        best = standing.best_move()
        if best is not None:
            standing.carry_out([best])
        elif len(standing.made) + 2 > most or not standing.swap():
            break
    shorter = time - standing.time.cost() > max(worthwhile * time, least)
    if not shorter:
        standing.undo()
        standing.time.reset(mark)
    leave_racks(standing, most - len(standing.made))
    # Of a large topology only a part may move at once, and a part is then enough.
    part = min(1.0, 10 * most / max(len(standing.where), 1))
    safer = exposed - standing.exposed() > worthwhile * part * exposed
    if not shorter and not safer:
        return {}
    return {
        partition: usable[node].name
        for unit, node in standing.where.items()
        for partition in unit.members
        if assignment[partition] != usable[node].name
    }


def placed_by_racks(
    topology: Topology,
    placement: Placement,
    nodes: Collection[NodeSpace],
    costs: Mapping[str, float],
    racks: RackTerms,
    *,
    max_utilisation: float = MAX_UTILISATION,
) -> Placement:
    """A placement that runs nowhere yet, after the moves by which the loss of a rack takes down less. Node
    loads and bounds are as for `initial_placement`."""
    usable = sorted((one for one in nodes if not one.standby), key=lambda one: natural_key(one.name))
    if len(usable) < 2:
        return placement
    standing = _standing(topology, placement.assignment, usable, costs, max_utilisation, racks)
    if not leave_racks(standing, len(standing.where)):
        return placement
    moved = {p: usable[node].name for unit, node in standing.where.items() for p in unit.members}
    totals = zip(usable, standing.time.total * standing.time.capacity, strict=True)
    return Placement(
        assignment={**placement.assignment, **moved},
        placed={**placement.placed, **moved},
        load={node.name: round(float(total), PRECISION) for node, total in totals},
        unplaced=placement.unplaced,
    )


def _standing(
    topology: Topology,
    assignment: Mapping[str, str],
    nodes: list[NodeSpace],
    costs: Mapping[str, float],
    max_utilisation: float,
    racks: RackTerms | None,
    movable: Collection[str] | None = None,
) -> Standing:
    index = {node.name: position for position, node in enumerate(nodes)}
    here = {p: index[node] for p, node in assignment.items() if node in index}
    full = effective_costs(partitions=here, nodes=nodes, costs=costs, max_utilisation=max_utilisation)
    levels = partition_levels(topology)
    time = EpochTime(nodes, levels=1 + max(levels.values(), default=0), max_utilisation=max_utilisation)
    units = _units(topology, here, levels, full)
    exposure = None if racks is None else _exposure(topology, [unit for unit, _ in units], nodes, racks)
    standing = Standing(time, exposure, 0.0 if racks is None else racks.price)
    for unit, node in units:
        standing.put(unit, node, movable=movable is None or all(p in movable for p in unit.members))
    return standing


def _exposure(
    topology: Topology, units: list[Unit], nodes: list[NodeSpace], racks: RackTerms
) -> RackExposure | None:
    """None where no placement is less exposed than another, and where there is too much to look at."""
    domains = [domain_of(node.name, racks.of.get(node.name, "")) for node in nodes]
    numbers = {domain: number for number, domain in enumerate(dict.fromkeys(domains))}
    known = racks_known([node.name for node in nodes], racks.of)
    if racks.price <= 0 or not known:
        return None
    cells = len(topology.queries) * len(numbers), sum(map(len, topology.query_partitions.values()))
    if not topology.queries or max(cells) > MOST_CELLS:
        return None
    weights = priorities_of(topology, racks.priorities)
    place = {query: number for number, query in enumerate(weights)}
    needs = {
        unit: np.array(
            sorted({place[query] for p in unit.members for query in topology.sharing[p]}), dtype=np.int64
        )
        for unit in units
    }
    return RackExposure(needs, list(weights.values()), [numbers[domain] for domain in domains])


def _units(
    topology: Topology, here: Mapping[str, int], levels: Mapping[str, int], costs: Mapping[str, float]
) -> list[tuple[Unit, int]]:
    """What moves together, and where it is: a chain keeps its stage only while it is on one node."""
    chained = {p: chain for chain in chains(topology) for p in chain}
    groups: defaultdict[tuple[tuple[str, ...], int], list[str]] = defaultdict(list)
    for partition in topology.partitions:
        if partition in here:
            groups[chained.get(partition, (partition,)), here[partition]].append(partition)
    found = []
    for (_, node), members in groups.items():
        by_level: dict[int, float] = {}
        for partition in members:
            by_level[levels[partition]] = by_level.get(levels[partition], 0.0) + costs[partition]
        found.append((Unit(tuple(members), by_level), node))
    return found
