"""Which node hosts which partition (incremental recovery, end of section 5).

One rule: a partition goes to the node with most free capacity, and no node is ever planned above
`max_utilisation` of its capacity. (Plans that leave queries waiting for room are packed instead: `rooms`.)
Everything else here makes that rule usable:

- *Units.* Partitions that feed each other one to one are placed together while the unit fits, because
  on one node they share a Spark stage. A unit that fits nowhere is placed partition by partition.
- *Unmeasured partitions* count as small equal shares, and each level of the operator graph is spread
  evenly over the nodes, so that a first deployment is balanced before anything was measured.
- *Ties* break by name (`node-2` before `node-10`), so the same input always gives the same placement.

Costs, capacities and loads share one unit: CPU percent of one node (100.0 is one core).
Names are opaque: several topologies can be placed together under names such as `fraud/O3[0]`.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

MAX_UTILISATION = 0.8
# An unmeasured partition counts as this share of the largest node, or less where many must fit.
UNMEASURED_SHARE = 0.01
# Free capacities are kept to this many decimals: sums of floats must not decide a tie.
PRECISION = 9

_DIGITS = re.compile(r"(\d+)")


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeSpace:
    """A node as placement sees it. `load` is what is planned there besides the `assigned` partitions
    of the call (other topologies, replicas). `standby` nodes never get primaries."""

    name: str
    capacity: float = 100.0
    load: float = 0.0
    standby: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Placement:
    """`assignment` is the given one plus `placed` (what this call decided). `load` is the planned load
    of every offered node. `unplaced` found no node with enough room."""

    assignment: dict[str, str]
    placed: dict[str, str]
    load: dict[str, float]
    unplaced: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class _Unit:
    """Partitions placed together. `anchor` is the node their placed neighbours are on, if offered."""

    members: tuple[str, ...]
    cost: float
    levels: tuple[int, ...]
    measured: bool
    anchor: int | None


@lru_cache(maxsize=1 << 16)
def natural_key(name: str) -> tuple[tuple[int, int, str], ...]:
    """Sort key that reads digit runs as numbers, so `O2[0]` comes before `O10[0]`."""
    return tuple((1, int(part), "") if part.isdigit() else (0, 0, part) for part in _DIGITS.split(name))


def effective_costs(
    *,
    partitions: Iterable[str],
    nodes: Collection[NodeSpace],
    costs: Mapping[str, float],
    max_utilisation: float = MAX_UTILISATION,
) -> dict[str, float]:
    """Costs with the unmeasured (absent or zero) ones replaced by equal small shares.

    The share is one percent of the largest node, but never so large that the unmeasured partitions
    together would take more than half of what the nodes offer.
    """
    names = list(dict.fromkeys(partitions))
    unmeasured = [name for name in names if costs.get(name, 0.0) <= 0.0]
    share = unmeasured_share(count=len(unmeasured), nodes=nodes, max_utilisation=max_utilisation)
    missing = set(unmeasured)
    return {name: share if name in missing else float(costs[name]) for name in names}


def unmeasured_share(*, count: int, nodes: Collection[NodeSpace], max_utilisation: float) -> float:
    """What one of `count` unmeasured partitions is assumed to cost."""
    largest = max((node.capacity for node in nodes), default=100.0)
    offered = sum(max(0.0, node.capacity * max_utilisation - node.load) for node in nodes)
    share = UNMEASURED_SHARE * largest
    return min(share, offered / 2 / count) if count and offered > 0 else share


def place(
    *,
    partitions: Iterable[str],
    nodes: Collection[NodeSpace],
    costs: Mapping[str, float],
    assigned: Mapping[str, str] | None = None,
    max_utilisation: float = MAX_UTILISATION,
    affinity: Iterable[Sequence[str]] = (),
    levels: Mapping[str, int] | None = None,
    unmeasured: Collection[str] | None = None,
) -> Placement:
    """Give every partition a node, most free capacity first, none above `max_utilisation`.

    partitions: what to place now; those already in `assigned` are skipped.
    costs: CPU percent per partition, also of the assigned ones; see `effective_costs`.
    assigned: partition -> node that stays as it is and uses capacity where its node is offered.
    affinity: groups to keep together. A group with members already on an offered node joins them
        if it fits there.
    levels: level of each partition in the operator graph, for spreading unmeasured partitions.
    unmeasured: those whose cost is an assumption; default all without a cost.
    """
    assigned = dict(assigned or {})
    wanted = sorted({name for name in partitions if name not in assigned}, key=natural_key)
    usable = [node for node in nodes if not node.standby]
    placer = Placer(
        nodes=usable,
        costs=effective_costs(
            partitions=[*assigned, *wanted], nodes=usable, costs=costs, max_utilisation=max_utilisation
        ),
        assigned=assigned,
        max_utilisation=max_utilisation,
        affinity=affinity,
        levels=levels or {},
        unmeasured={name for name in wanted if costs.get(name, 0.0) <= 0.0}
        if unmeasured is None
        else unmeasured,
    )
    unplaced = placer.add(wanted)
    return placer.placement(unplaced)


class Placer:
    """Placement in steps: what was added stays where it is until it is removed.

    costs: CPU percent of every partition that will be named, none of them zero.
    unmeasured: the partitions that are spread level by level.
    """

    def __init__(
        self,
        *,
        nodes: Collection[NodeSpace],
        costs: Mapping[str, float],
        assigned: Mapping[str, str],
        max_utilisation: float = MAX_UTILISATION,
        affinity: Iterable[Sequence[str]] = (),
        levels: Mapping[str, int] | None = None,
        unmeasured: Collection[str] = (),
    ) -> None:
        # In name order, so that the first of equals wins.
        self.nodes = sorted((n for n in nodes if not n.standby), key=lambda n: natural_key(n.name))
        self.index = {node.name: i for i, node in enumerate(self.nodes)}
        if len(self.index) != len(self.nodes):
            raise ValueError("placement was offered two nodes of the same name")
        self.costs = costs
        self.assigned = assigned
        self.levels = levels or {}
        self.unmeasured = unmeasured
        self.group_of = {name: tuple(group) for group in affinity for name in group}
        self.max_utilisation = max_utilisation
        self.capacity = np.array([node.capacity for node in self.nodes], dtype=np.float64)
        load = np.array([node.load for node in self.nodes], dtype=np.float64)
        for name, node in assigned.items():
            if node in self.index:
                load[self.index[node]] += costs[name]
        self.free: NDArray[np.float64] = np.round(self.capacity * max_utilisation - load, PRECISION)
        self.crowd: defaultdict[int, NDArray[np.float64]] = defaultdict(lambda: np.zeros(len(self.nodes)))
        self.where: dict[str, int] = {}

    def add(self, partitions: Iterable[str]) -> tuple[str, ...]:
        """Place these; returns those that found no node with enough room."""
        unplaced: list[str] = []
        units = [self._unit(members) for members in self._groups(partitions)]
        for unit in sorted(units, key=_placement_order):
            where = self._choose(unit)
            if where is not None:
                self._put(unit, where)
                continue
            for name in unit.members:
                single = self._unit((name,))
                where = self._choose(single)
                if where is None:
                    unplaced.append(name)
                else:
                    self._put(single, where)
        return tuple(unplaced)

    def put(self, where: Mapping[str, str]) -> None:
        """Place partitions on the nodes that were chosen for them elsewhere."""
        for name, node in where.items():
            self._put(self._unit((name,)), self.index[node])

    def remove(self, partitions: Iterable[str]) -> None:
        """Remove these from their nodes."""
        for name in sorted(partitions):
            where = self.where.pop(name)
            self.free[where] = round(self.free[where] + self.costs[name], PRECISION)
            self.crowd[self.levels.get(name, 0)][where] -= self.costs[name]

    def placement(self, unplaced: tuple[str, ...] = ()) -> Placement:
        """Where everything is now."""
        placed = {name: self.nodes[where].name for name, where in self.where.items()}
        load = np.round(self.capacity * self.max_utilisation - self.free, PRECISION)
        return Placement(
            assignment={**self.assigned, **placed},
            placed=placed,
            load={node.name: float(load[i]) for i, node in enumerate(self.nodes)},
            unplaced=unplaced,
        )

    def _groups(self, partitions: Iterable[str]) -> list[tuple[str, ...]]:
        """Split into groups to be kept together."""
        wanted = dict.fromkeys(partitions)
        groups: dict[str, tuple[str, ...]] = {}
        for name in wanted:
            group = self.group_of.get(name, (name,))
            if group[0] not in groups:
                groups[group[0]] = tuple(member for member in group if member in wanted)
        return list(groups.values())

    def _unit(self, members: tuple[str, ...]) -> _Unit:
        homes = set()
        for name in self.group_of.get(members[0], ()):
            if name in self.where:
                homes.add(self.nodes[self.where[name]].name)
            elif name in self.assigned:
                homes.add(self.assigned[name])
        return _Unit(
            members=members,
            cost=round(sum(self.costs[name] for name in members), PRECISION),
            levels=tuple(sorted({self.levels.get(name, 0) for name in members})),
            measured=any(name not in self.unmeasured for name in members),
            anchor=self.index.get(homes.pop()) if len(homes) == 1 else None,
        )

    def _choose(self, unit: _Unit) -> int | None:
        if unit.anchor is not None and self.free[unit.anchor] >= unit.cost:
            return unit.anchor
        if unit.measured:
            if not self.nodes:
                return None
            most = int(self.free.argmax())
            return most if self.free[most] >= unit.cost else None
        fits = self.free >= unit.cost
        if not fits.any():
            return None
        # Even spread of this level comes first; nodes count in proportion to their capacity.
        own = sum(self.costs[name] for name in unit.members if self.levels.get(name, 0) == unit.levels[0])
        crowding = np.where(fits, (self.crowd[unit.levels[0]] + own) / self.capacity, np.inf)
        fits = crowding <= crowding.min() * (1 + 1e-9)
        return int(np.argmax(np.where(fits, self.free, -np.inf)))

    def _put(self, unit: _Unit, where: int) -> None:
        self.free[where] = round(self.free[where] - unit.cost, PRECISION)
        for name in unit.members:
            self.where[name] = where
            self.crowd[self.levels.get(name, 0)][where] += self.costs[name]


def _placement_order(unit: _Unit) -> tuple[bool, int, float, tuple[tuple[int, int, str], ...]]:
    """Large measured units first (they are the hardest to fit), then the unmeasured level by level, those
    assumed to be large first."""
    first = natural_key(unit.members[0])
    level = 0 if unit.measured else unit.levels[0]
    return (not unit.measured, level, -unit.cost, first)
