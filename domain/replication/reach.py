"""What a partition still needs before its output counts: the rest of a minimal complete tree around it.

Trees are not enumerated. Where a stream is `full` every source partition reaches every target, so the one
that brings most for what it needs is as good as any tree through it could be (the rule for full topologies);
along the other streams only the partitions that are connected are followed (segments of structured
topologies). A general topology has both, and the two are independent: the choice above a `full` stream does
not depend on the choice below it.

Source: section IV-C of *Tolerating Correlated Failures in Massively Parallel Stream Processing Engines*.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from domain.replication.fidelity import FidelityModel
from domain.topology import InputSpec, OperatorSpec

NEVER = 1 << 30
"""Partitions that are needed where it cannot be done."""

Group = tuple[int, ...]
Link = tuple[int, int]
"""A group that a partition feeds, and the position of that stream among the inputs of its targets."""


@dataclass(frozen=True, slots=True)
class Links:
    """Partitions in groups: `above[t]` has the group that t reads from for each of its streams, `below[s]` a
    link for each stream that s feeds."""

    groups: tuple[Group, ...]
    above: tuple[tuple[int, ...], ...]
    below: tuple[tuple[Link, ...], ...]

    @classmethod
    def of(cls, model: FidelityModel) -> Links:
        groups: dict[Group, int] = {}
        above: list[list[int]] = [[] for _ in model.partitions]
        below: list[list[Link]] = [[] for _ in model.partitions]
        for target in model.topology.operators:
            streams = [stream for stream in target.inputs if not stream.feedback]
            for position, stream in enumerate(streams):
                for sources, targets in _connected(model, stream, target):
                    feeding = groups.setdefault(sources, len(groups))
                    fed = groups.setdefault(targets, len(groups))
                    for one in targets:
                        above[one].append(feeding)
                    for one in sources:
                        below[one].append((fed, position))
        return cls(tuple(groups), tuple(map(tuple, above)), tuple(map(tuple, below)))


def _connected(
    model: FidelityModel, stream: InputSpec, target: OperatorSpec
) -> Iterator[tuple[Group, Group]]:
    """Sources and targets of a stream, in parts in which every source feeds every target."""
    topology = model.topology
    span, own = model.spans[stream.source], model.spans[target.name]
    if stream.partitioning == "full":
        yield tuple(range(span.start, span.stop)), tuple(range(own.start, own.stop))
        return
    reached: dict[Group, list[int]] = {}
    for index in range(span.stop - span.start):
        fed = topology.targets(stream, target, index)
        targets = tuple(range(own.start + fed.start, own.start + fed.stop))
        reached.setdefault(targets, []).append(span.start + index)
    for targets, sources in reached.items():
        yield tuple(sources), targets


class Reach:
    """The extensions of `plan`, which consists of complete trees, by partitions that are `allowed`.

    frugal: take the partition that needs the fewest others above it, not the one with the best ratio of
    output to need.
    """

    def __init__(
        self,
        model: FidelityModel,
        links: Links,
        plan: frozenset[int],
        allowed: Sequence[bool],
        *,
        frugal: bool = False,
    ) -> None:
        self.model, self.links, self.plan, self.allowed = model, links, plan, allowed
        self.frugal = frugal
        self.rates: list[float] = model.rates.tolist()
        self.outputs = frozenset(model.outputs)
        self.correlated = [
            operator.correlated for operator in model.topology.operators for _ in range(operator.parallelism)
        ]
        self.up = [0] * len(model.partitions)
        self.down = [NEVER] * len(model.partitions)
        self._best_above: dict[int, int] = {}
        self._best_below: dict[Link, tuple[int, int]] = {}
        self._ways: dict[tuple[Link, ...], tuple[int, Link]] = {}
        self._measure()

    def _measure(self) -> None:
        """How many partitions each one needs above, with itself (`up`), and below (`down`)."""
        for one in range(len(self.up)):
            self.up[one] = self._up(one)
        for one in reversed(range(len(self.down))):
            self.down[one] = self._down(one)

    def _up(self, one: int) -> int:
        if one in self.plan:
            return 0
        if not self.allowed[one]:
            return NEVER
        needs = [self.up[self._above(group)] for group in self.links.above[one]]
        if not needs:
            return 1
        return min(NEVER, 1 + (sum(needs) if self.correlated[one] else min(needs)))

    def _above(self, group: int) -> int:
        """The partition of a group that brings most for what it needs."""
        if group not in self._best_above:
            self._best_above[group] = min(self.links.groups[group], key=self._worth)
        return self._best_above[group]

    def _worth(self, one: int) -> tuple[bool, float, float, int]:
        need = self.up[one]
        if self.frugal:
            return need >= NEVER, need, -self.rates[one], self.model.ranks[one]
        return need >= NEVER, -self.rates[one] / need if need else -NEVER, need, self.model.ranks[one]

    def _down(self, one: int) -> int:
        if one in self.outputs:
            return 0
        return self._way(one)[0]

    def _way(self, one: int) -> tuple[int, Link]:
        """The shortest way from a partition to an output: what it adds, and where it begins."""
        links = self.links.below[one]
        if links not in self._ways:
            self._ways[links] = min(((self._below(link)[0], link) for link in links), default=(NEVER, (0, 0)))
        return self._ways[links]

    def _below(self, link: Link) -> tuple[int, int]:
        """What the shortest way through this link adds, and the partition it goes through."""
        if link not in self._best_below:
            group, position = link
            needs = [(self._further(one, position), one) for one in self.links.groups[group]]
            self._best_below[link] = min(
                needs, key=lambda way: (way[0], -self.rates[way[1]], self.model.ranks[way[1]])
            )
        return self._best_below[link]

    def _further(self, target: int, position: int) -> int:
        """What must be added for an output to come of this target, fed by its stream at `position`."""
        if target in self.plan:
            return 0
        if not self.allowed[target]:
            return NEVER
        beside = sum(self.up[other] for other in self._beside(target, position))
        return min(NEVER, 1 + beside + self.down[target])

    def _beside(self, target: int, position: int) -> Iterable[int]:
        """What a target that joins must read besides its stream at `position`."""
        if not self.correlated[target]:
            return ()
        groups = self.links.above[target]
        return [self._above(group) for at, group in enumerate(groups) if at != position]

    def size(self, one: int) -> int:
        """About how many partitions `extension` adds; what is needed twice may count twice."""
        return min(NEVER, self.up[one] + self.down[one])

    def extension(self, one: int) -> frozenset[int]:
        """The partitions to add so that this partition's output counts."""
        added: set[int] = set()
        self._add_above(one, added)
        while one not in self.outputs:
            link = self._way(one)[1]
            one, position = self._below(link)[1], link[1]
            if one in self.plan:
                break
            for other in self._beside(one, position):
                self._add_above(other, added)
            added.add(one)
        return frozenset(added)

    def _add_above(self, one: int, added: set[int]) -> None:
        if one in self.plan or one in added:
            return
        added.add(one)
        best = [self._above(group) for group in self.links.above[one]]
        if best and not self.correlated[one]:
            best = [min(best, key=self._worth)]
        for other in best:
            self._add_above(other, added)
