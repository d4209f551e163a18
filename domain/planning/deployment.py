"""Placement of whole topologies: the first deployment, and the replacement of lost nodes."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping
from statistics import fmean

from domain.planning.placement import (
    MAX_UTILISATION,
    NodeSpace,
    Placement,
    effective_costs,
    natural_key,
    place,
    unmeasured_share,
)
from domain.topology import Topology, partition_id


def chains(topology: Topology) -> list[tuple[str, ...]]:
    """Groups of partitions worth keeping on one node: runs of operators in which each feeds only the next
    one, one to one. `Source[i]` and `Parser[i]` are one, but five windows behind a parser are not:
    putting them all on the parser's node would undo the parallelism."""
    consumers: defaultdict[str, int] = defaultdict(int)
    for operator in topology.operators:
        for stream in operator.inputs:
            consumers[stream.source] += 1
    follows: dict[str, str] = {}
    for operator in topology.operators:
        if len(operator.inputs) != 1:
            continue
        (stream,) = operator.inputs
        if stream.partitioning == "one_to_one" and not stream.feedback and consumers[stream.source] == 1:
            follows[stream.source] = operator.name
    groups: list[tuple[str, ...]] = []
    heads = [operator for operator in topology.operators if operator.name not in set(follows.values())]
    for head in heads:
        run = [head.name]
        while run[-1] in follows:
            run.append(follows[run[-1]])
        if len(run) > 1:
            groups.extend(tuple(partition_id(name, i) for name in run) for i in range(head.parallelism))
    return groups


def partition_levels(topology: Topology) -> dict[str, int]:
    """Level of every partition: the longest distance of its operator from a source."""
    return {
        partition_id(operator.name, index): topology.levels[operator.name]
        for operator in topology.operators
        for index in range(operator.parallelism)
    }


def initial_placement(
    topology: Topology,
    nodes: Collection[NodeSpace],
    *,
    costs: Mapping[str, float] | None = None,
    max_utilisation: float = MAX_UTILISATION,
) -> Placement:
    """Where a topology runs first: every level spread evenly over `nodes`, chains kept together.

    `costs` may hold what an earlier version of the topology was measured to need. What was never measured is
    assumed to need as much more than others of its level as it has more inputs: a view of four windows gets
    four times the rows of a view of one.
    """
    measured, levels = costs or {}, partition_levels(topology)
    unmeasured = [name for name in topology.partitions if measured.get(name, 0.0) <= 0.0]
    share = unmeasured_share(count=len(unmeasured), nodes=nodes, max_utilisation=max_utilisation)
    inputs = {name: max(1, len(topology.upstream(name))) for name in unmeasured}
    of_level: defaultdict[int, list[int]] = defaultdict(list)
    for name in unmeasured:
        of_level[levels[name]].append(inputs[name])
    assumed = {name: share * inputs[name] / fmean(of_level[levels[name]]) for name in unmeasured}
    return place(
        partitions=topology.partitions,
        nodes=nodes,
        costs={**measured, **assumed},
        max_utilisation=max_utilisation,
        affinity=chains(topology),
        levels=levels,
        unmeasured=unmeasured,
    )


def entitled_costs(
    *,
    costs: Mapping[str, float],
    assignment: Mapping[str, str],
    capacities: Mapping[str, float],
    max_utilisation: float = MAX_UTILISATION,
) -> dict[str, float]:
    """Measured costs, reduced to what each node may be planned with.

    A node can run above its bound: costs were unknown when it was planned, or were measured during a replay.
    Its partitions are then scaled down together to the bound, and none counts more than an empty node of the
    largest capacity may take. So replacements equal to the lost nodes always suffice in sum, and an incident
    does not wait for a node that cannot exist.

    capacities: CPU percent of every node, also of the lost ones.
    """
    largest = max(capacities.values(), default=100.0) * max_utilisation
    entitled = {name: min(cost, largest) for name, cost in costs.items()}
    planned: defaultdict[str, float] = defaultdict(float)
    for name, node in assignment.items():
        planned[node] += entitled.get(name, 0.0)
    for name, node in assignment.items():
        limit = capacities.get(node, 0.0) * max_utilisation
        if name in entitled and 0.0 < limit < planned[node]:
            entitled[name] *= limit / planned[node]
    return entitled


def replacement_placement(
    topology: Topology,
    assignment: Mapping[str, str],
    lost: Collection[str],
    nodes: Collection[NodeSpace],
    costs: Mapping[str, float],
    *,
    partitions: Iterable[str] | None = None,
    max_utilisation: float = MAX_UTILISATION,
    unmeasured: Collection[str] | None = None,
) -> Placement:
    """Put the partitions of lost nodes on the offered `nodes`; healthy ones stay where they are.

    assignment: partition -> node as planned before the loss.
    lost: names of the nodes that are gone. A partition without an assignment counts as lost too.
    nodes: where failed partitions may go. Offer live nodes as well as new ones to use their free room;
        their own partitions are accounted for by `assignment`, other topologies by `NodeSpace.load`.
    partitions: restore only these now (a wave of an incremental recovery); default all that are lost.
    unmeasured: see `place`.

    Spreading by size can fail to pack what the lost nodes once held together. Where the offered nodes
    are as many and as large, each then takes over the partitions of one lost node as they were.
    """
    gone = set(lost)
    healthy = {name: node for name, node in assignment.items() if node not in gone}
    failed = [name for name in topology.partitions if name not in healthy]
    if partitions is not None:
        wanted = set(partitions)
        unknown = wanted.difference(topology.partitions)
        if unknown:
            names = ", ".join(sorted(unknown, key=natural_key))
            raise ValueError(f"topology {topology.name!r} has no partition {names}")
        failed = [name for name in failed if name in wanted]
    placement = place(
        partitions=failed,
        nodes=nodes,
        costs=costs,
        assigned=healthy,
        max_utilisation=max_utilisation,
        affinity=chains(topology),
        levels=partition_levels(topology),
        unmeasured=unmeasured,
    )
    if not placement.unplaced:
        return placement
    return _take_over(assignment, failed, healthy, nodes, costs, max_utilisation) or placement


def _take_over(
    assignment: Mapping[str, str],
    failed: Collection[str],
    healthy: Mapping[str, str],
    nodes: Collection[NodeSpace],
    costs: Mapping[str, float],
    max_utilisation: float,
) -> Placement | None:
    """Each lost node's partitions on one offered node, largest on largest; None if one does not fit."""
    if any(name not in assignment for name in failed):
        return None
    usable = [node for node in nodes if not node.standby]
    full = effective_costs(
        partitions=[*healthy, *failed], nodes=usable, costs=costs, max_utilisation=max_utilisation
    )
    load = {node.name: node.load for node in usable}
    for name, node in healthy.items():
        if node in load:
            load[node] += full[name]
    room = {node.name: node.capacity * max_utilisation - load[node.name] for node in usable}
    groups: defaultdict[str, list[str]] = defaultdict(list)
    for name in failed:
        groups[assignment[name]].append(name)
    weight = {node: sum(full[name] for name in members) for node, members in groups.items()}
    heirs = sorted(room, key=lambda name: (-room[name], natural_key(name)))
    heaviest = sorted(groups, key=lambda name: (-weight[name], natural_key(name)))
    if len(heirs) < len(heaviest):
        return None
    placed: dict[str, str] = {}
    for old, new in zip(heaviest, heirs, strict=False):
        if weight[old] > room[new] + 1e-9:
            return None
        load[new] += weight[old]
        placed.update(dict.fromkeys(groups[old], new))
    return Placement(assignment={**healthy, **placed}, placed=placed, load=load)
