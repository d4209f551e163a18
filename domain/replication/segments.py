"""Structured topologies: units with few trees each, and their segments (Algorithm 3 of the paper on PPA)."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from functools import cached_property

from domain.fidelity import FidelityModel
from domain.replication.parts import part_of
from domain.replication.trees import complete_trees, members
from domain.topology import InputSpec, OperatorSpec, Topology

SEGMENTS = 2_000
"""Of one unit, at most."""

Segment = frozenset[int]


@dataclass(frozen=True, slots=True)
class Unit:
    """segments: the minimal complete trees of the unit, the one with the highest fidelity first. beside:
    units that a stream connects with it."""

    segments: tuple[Segment, ...]
    beside: tuple[int, ...]


class Units:
    """The units of a structured topology.

    A boundary is set above an operator at each `merge` stream, if what it gives is split or if it joins: else
    a unit would have trees for every combination of what it reads and feeds, or of what it joins. Raises
    `TooLargeError` for more than `SEGMENTS` in a unit.
    """

    def __init__(self, model: FidelityModel) -> None:
        self.model = model
        self.units = _units(model)

    def step(self, plan: frozenset[int], room: int) -> frozenset[int]:
        """One round of Algorithm 3: the candidate with the most gain per partition of those with room."""
        candidates: list[frozenset[int]] = []
        pending: list[tuple[int, Segment]] = []
        for number, unit in enumerate(self.units):
            missing = [segment for segment in unit.segments if segment - plan]
            gains = self._gains(plan, missing)
            for segment, gain in zip(missing, gains, strict=True):
                if gain > 0:
                    candidates.append(segment - plan)
                else:
                    pending.append((number, segment))
        candidates += [self._connected(number, segment, plan, room) for number, segment in pending]
        fitting = list(dict.fromkeys(one for one in candidates if one and len(one) <= room))
        gains = self._gains(plan, fitting)
        densities = [gain / len(one) for gain, one in zip(gains, fitting, strict=True)]
        highest = max(densities, default=0.0)
        return fitting[densities.index(highest)] if highest > 0 else frozenset()

    def _gains(self, plan: frozenset[int], additions: list[frozenset[int]]) -> list[float]:
        flags = self.model.flags([plan, *(plan | added for added in additions)])
        now, *then = self.model.fidelity(flags).tolist()
        return [value - now for value in then]

    def _connected(self, number: int, segment: Segment, plan: frozenset[int], room: int) -> frozenset[int]:
        """The segment with one of each unit around it, breadth first, as long as there is room."""
        taken = {number: segment}
        added = segment - plan
        queue = deque([number])
        while queue:
            at = queue.popleft()
            for other in self.units[at].beside:
                if other in taken:
                    continue
                found = next(
                    (one for one in self.units[other].segments if self._touching(one, taken[at])), None
                )
                if found is None:
                    continue
                if len(added | (found - plan)) > room:
                    return added
                taken[other] = found
                added |= found - plan
                queue.append(other)
        return added

    def _touching(self, one: Segment, other: Segment) -> bool:
        return any(self._neighbours[index] & other for index in one)

    @cached_property
    def _neighbours(self) -> list[frozenset[int]]:
        topology, index = self.model.topology, self.model.index
        return [
            frozenset(index[other] for other in (*topology.upstream(name), *topology.downstream(name)))
            for name in self.model.partitions
        ]


def _units(model: FidelityModel) -> tuple[Unit, ...]:
    topology = model.topology
    groups = {operator.name: {operator.name} for operator in topology.operators}
    streams = [
        (operator, stream)
        for operator in topology.operators
        for stream in operator.inputs
        if not stream.feedback
    ]
    splitting = {stream.source for _, stream in streams if stream.partitioning == "split"}
    for operator, stream in streams:
        if _is_boundary(topology, operator, stream, splitting):
            continue
        joined = groups[operator.name] | groups[stream.source]
        for name in joined:
            groups[name] = joined
    distinct = list({id(group): group for group in groups.values()}.values())
    number = {name: at for at, group in enumerate(distinct) for name in group}
    beside: list[set[int]] = [set() for _ in distinct]
    for operator, stream in streams:
        above, below = number[stream.source], number[operator.name]
        if above != below:
            beside[above].add(below)
            beside[below].add(above)
    return tuple(
        Unit(_segments(model, group), tuple(sorted(beside[at]))) for at, group in enumerate(distinct)
    )


def _is_boundary(topology: Topology, operator: OperatorSpec, stream: InputSpec, splitting: set[str]) -> bool:
    if topology.by_name[stream.source].parallelism == 1 or stream.partitioning not in ("merge", "full"):
        return False
    joins = operator.correlated and len(operator.inputs) > 1
    return joins or operator.name in splitting or stream.partitioning == "full"


def _segments(model: FidelityModel, operators: set[str]) -> tuple[Segment, ...]:
    part = part_of(model, operators, "structured")
    count = len(part.model.partitions)
    trees = [frozenset(members(tree)) for tree in complete_trees(part.model, largest=count, most=SEGMENTS)]
    fidelity = part.model.fidelity(part.model.flags(trees)).tolist()
    ranked = sorted(zip(fidelity, trees, strict=True), key=lambda one: (-one[0], part.model.order(one[1])))
    return tuple(part.outside(tree) for _, tree in ranked)
