"""Leaving partitions where they run or ran: one that still runs there goes on untouched, and a node that came
back may have the state of others on its disk, so a restore reads from the store only what is missing."""

from __future__ import annotations

from bisect import bisect_left, insort
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

from domain.planning import Placement, natural_key

ROUNDING = 1e-6
GIVEN_UP = 8
"""Partitions that do not go home for others' sake."""


@dataclass(frozen=True, slots=True)
class _Unit:
    """Partitions that stay together, on a node of the placement. home: where most of them run, or ran."""

    members: Sequence[str]
    node: str
    cost: float
    running: bool
    home: str | None


def homeward(
    placement: Placement,
    *,
    homes: Mapping[str, str],
    costs: Mapping[str, float],
    limits: Mapping[str, float],
    running: Collection[str] = (),
    chains: Iterable[Sequence[str]] = (),
) -> Placement:
    """The same partitions, as many at home as there is room for, those that run there first. The others are
    where they were, or else on the node with the least free capacity that is enough.

    homes: partition -> node. limits: what may be planned on each usable node, in CPU percent; costs likewise.
    running: partitions that are restarted if they are not at home. chains: what the placement has of each on
    one node stays together.
    """
    free = {node: limits[node] - placement.load.get(node, 0.0) for node in limits}
    for partition, node in placement.placed.items():
        free[node] += costs[partition]
    homes = {partition: node for partition, node in homes.items() if node in free}
    units = [
        _unit(members, placement.placed[members[0]], {} if bound else homes, costs, running)
        for members, bound in _grouped(placement, chains)
    ]
    units.sort(key=lambda unit: (-unit.cost, natural_key(unit.members[0])))
    wishes = sorted(
        (unit for unit in units if unit.home is not None), key=lambda unit: not unit.running
    )  # of two alike the larger one first
    nodes = _most_at_home(units, wishes, free)
    placed = {member: node for unit, node in zip(units, nodes, strict=True) for member in unit.members}
    load = {node: limits[node] - room for node, room in free.items()}
    for partition, node in placed.items():
        load[node] += costs[partition]
    return Placement(
        assignment={**placement.assignment, **placed},
        placed=placed,
        load=load,
        unplaced=placement.unplaced,
    )


def _grouped(placement: Placement, chains: Iterable[Sequence[str]]) -> list[tuple[list[str], bool]]:
    """The placed partitions, those of one chain that are on one node together; and whether others of it are
    there to stay."""
    chain_of = {member: number for number, chain in enumerate(chains) for member in chain}
    grouped: dict[tuple[int, str], list[str]] = {}
    alone: list[tuple[list[str], bool]] = []
    for partition, node in placement.placed.items():
        number = chain_of.get(partition)
        if number is None:
            alone.append(([partition], False))
        else:
            grouped.setdefault((number, node), []).append(partition)
    staying = {
        (chain_of[partition], node)
        for partition, node in placement.assignment.items()
        if partition in chain_of and partition not in placement.placed
    }
    return [*alone, *((members, key in staying) for key, members in grouped.items())]


def _unit(
    members: Sequence[str],
    node: str,
    homes: Mapping[str, str],
    costs: Mapping[str, float],
    running: Collection[str],
) -> _Unit:
    at_home: Counter[tuple[bool, str]] = Counter()
    for member in members:
        if member in homes:
            at_home[member in running, homes[member]] += 1
    runs, home = max(at_home, key=lambda one: (one[0], at_home[one], one[1]), default=(False, None))
    return _Unit(members, node, sum(costs[member] for member in members), runs, home)


def _most_at_home(units: Sequence[_Unit], wishes: Sequence[_Unit], free: Mapping[str, float]) -> list[str]:
    """The node of each unit, with as many of the wishes as there is room for, the first first. One at home
    may leave another, that fits only there, without room. So the longest part of the list is kept that leaves
    none without, and the next one gives its wish up, a few times."""
    kept, rest = list[_Unit](), list(wishes)
    for _ in range(GIVEN_UP + 1):
        if (found := _placed(units, [*kept, *rest], free)) is not None:
            return found
        low, high = 0, len(rest)  # the first `low` can be kept, `high` cannot
        while high - low > 1:
            middle = (low + high) // 2
            if _placed(units, [*kept, *rest[:middle]], free) is None:
                high = middle
            else:
                low = middle
        kept, rest = [*kept, *rest[:low]], rest[high:]
    return _placed(units, kept, free) or [unit.node for unit in units]


def _placed(units: Sequence[_Unit], wishes: Iterable[_Unit], free: Mapping[str, float]) -> list[str] | None:
    """With these at home, as far as there is room; None if another one has room nowhere then."""
    left = dict(free)
    nodes: dict[int, str] = {}

    def put(unit: _Unit, node: str | None) -> bool:
        if node is None or left[node] + ROUNDING < unit.cost:
            return False
        left[node] -= unit.cost
        nodes[id(unit)] = node
        return True

    for unit in wishes:
        put(unit, unit.home)
    others = [unit for unit in units if id(unit) not in nodes]
    homeless = [unit for unit in others if not put(unit, unit.node)]
    rooms = sorted((room, natural_key(node), node) for node, room in left.items())
    for unit in homeless:
        at = bisect_left(rooms, unit.cost - ROUNDING, key=lambda one: one[0])
        if at == len(rooms):
            return None
        _, key, node = rooms.pop(at)
        put(unit, node)
        insort(rooms, (left[node], key, node))
    return [nodes[id(unit)] for unit in units]
