"""What a partition still needs before its output counts: the rest of a minimal complete tree around it.

All trees cannot be enumerated. For each partition a few *ways* are kept instead: up to the sources, and down
to an output. A way is the set of partitions that it adds to a plan, and what it lets through. Ways that join
count what their inputs share once, because they are sets. In a `full` stream every source partition reaches
every target, so the ways above it are the same for all targets (the rule for full topologies); along the
other streams only the partitions that are connected are followed (segments of structured topologies).

Source: section IV-C of *Tolerating Correlated Failures in Massively Parallel Stream Processing Engines*.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np

from domain.fidelity import FidelityModel, Step, Stream
from domain.topology import InputSpec, OperatorSpec

Way = tuple[int, float, int]
"""How many partitions are added; what is let through, 0 to 1; which ones, as bits of the model."""


@dataclass(frozen=True, slots=True)
class Feed:
    """A part of a stream in which every source feeds every target. origin: the number of its sources, which
    other feeds may share. position: of the stream among the inputs of its targets. full: of a `full` stream,
    which has one for all targets that read the same shares of its sources."""

    origin: int
    targets: tuple[int, ...]
    position: int
    full: bool


@dataclass(frozen=True, slots=True)
class Links:
    """origins: groups of source partitions with the share that each has of what a target reads from them.

    operators: the partitions of each operator, as bits.
    above: by partition the feed of each of its inputs. below: by partition the feeds that it is a source of,
    with its share. shares: by partition what each input is of all that it reads.
    """

    origins: tuple[tuple[tuple[int, float], ...], ...]
    operators: tuple[int, ...]
    feeds: tuple[Feed, ...]
    above: tuple[tuple[int, ...], ...]
    below: tuple[tuple[tuple[int, float], ...], ...]
    shares: tuple[tuple[float, ...], ...]

    @classmethod
    def of(cls, model: FidelityModel) -> Links:
        origins: dict[tuple[tuple[int, float], ...], int] = {}
        feeds: list[Feed] = []
        above: list[list[int]] = [[] for _ in model.partitions]
        below: list[list[tuple[int, float]]] = [[] for _ in model.partitions]
        shares: list[tuple[float, ...]] = []
        for target, step in zip(model.topology.operators, model.steps, strict=True):
            shares += [tuple(column) for column in step.shares.T.tolist()]
            inputs = [stream for stream in target.inputs if not stream.feedback]
            for position, (stream, flow) in enumerate(zip(inputs, step.streams, strict=True)):
                for sources, targets in _connected(model, stream, target, step, flow):
                    feed = Feed(
                        origins.setdefault(sources, len(origins)),
                        targets,
                        position,
                        flow.partitioning == "full",
                    )
                    for one in targets:
                        above[one].append(len(feeds))
                    for one, share in sources:
                        below[one].append((len(feeds), share))
                    feeds.append(feed)
        return cls(
            tuple(origins),
            tuple(sum(model.bits[span]) for span in model.spans.values()),
            tuple(feeds),
            tuple(map(tuple, above)),
            tuple(map(tuple, below)),
            tuple(shares),
        )


def _connected(
    model: FidelityModel, stream: InputSpec, target: OperatorSpec, step: Step, flow: Stream
) -> Iterator[tuple[tuple[tuple[int, float], ...], tuple[int, ...]]]:
    """Sources, with their shares, and targets of a stream, in parts in which every source feeds every
    target."""
    span, own = flow.source, step.own
    if stream.partitioning == "full":
        if flow.weights.ndim == 1:
            sources = zip(range(span.start, span.stop), flow.weights.tolist(), strict=True)
            yield tuple(sources), tuple(range(own.start, own.stop))
            return
        alike: dict[tuple[float, ...], list[int]] = {}
        for one, column in enumerate(flow.weights.T.tolist(), start=own.start):
            alike.setdefault(tuple(column), []).append(one)
        for shares, members in alike.items():
            yield tuple(zip(range(span.start, span.stop), shares, strict=True)), tuple(members)
        return
    weights: list[float] = flow.weights.ravel().tolist()
    reached: dict[tuple[int, ...], list[tuple[int, float]]] = {}
    for index in range(span.stop - span.start):
        fed = model.topology.targets(stream, target, index)
        targets = tuple(range(own.start + fed.start, own.start + fed.stop))
        share = weights[index] if stream.partitioning == "merge" else 1.0
        reached.setdefault(targets, []).append((span.start + index, share))
    for targets, sources_of in reached.items():
        yield tuple(sources_of), targets


class Reach:
    """The extensions of `plan`, bits of complete trees, by partitions that are `allowed`.

    most: ways that are kept for each partition.
    """

    def __init__(self, model: FidelityModel, links: Links, plan: int, allowed: int, *, most: int) -> None:
        self.model, self.links, self.most = model, links, most
        self.plan, self.allowed = plan, allowed & ~plan
        count = len(model.partitions)
        self.left: list[float] = model.left(model.flags_of([plan]))[0].tolist()
        self.weights = np.zeros(count)
        self.weights[list(model.outputs)] = model.weights
        self.up: list[list[Way]] = [[] for _ in range(count)]
        self.down: list[list[Way]] = [[] for _ in range(count)]
        self.onward = [0.0] * count
        self._above: dict[int, list[Way]] = {}
        self._below: dict[int, tuple[float, list[Way]]] = {}
        for one in range(count):
            self.up[one] = self._up(one)
        for one in reversed(range(count)):
            self._look_down(one)

    def extensions(self, anchor: int) -> Iterator[Way]:
        """Ways from sources to outputs through a partition that is not in the plan, with about what they let
        through: of all output, as a share."""
        for _, left, above in self.up[anchor]:
            for _, through, below in self.down[anchor]:
                added = above | below
                yield added.bit_count(), left * through, added

    def _up(self, one: int) -> list[Way]:
        """Ways from sources to the output of a partition, with itself."""
        bit = self.model.bits[one]
        if one in self.model.needs:
            missing = (self.model.needs[one] | bit) & ~self.plan
            return [] if missing & ~self.allowed else [(missing.bit_count(), 1.0, missing)]
        if self.plan & bit:
            return [(0, self.left[one], 0)]
        if not self.allowed & bit:
            return []
        feeds = self.links.above[one]
        if not feeds:
            return [(1, 1.0, bit)]
        ways = [self._into(self.links.feeds[feed].origin) for feed in feeds]
        if len(ways) == 1:
            return [(size + 1, left, added | bit) for size, left, added in ways[0]]
        if self.model.correlated[one]:
            return [(size + 1, left, added | bit) for size, left, added in self._joined(ways)]
        shares = self.links.shares[one]
        bases = [way[0][1] if way and not way[0][0] else 0.0 for way in ways]
        base = sum(share * left for share, left in zip(shares, bases, strict=True))
        found = [(1, base, bit)] if base > 0 else []
        for share, already, some in zip(shares, bases, ways, strict=True):
            found += [
                (size + 1, base + share * (left - already), added | bit)
                for size, left, added in some
                if size and share > 0
            ]
        return self._best(found)

    def _into(self, origin: int) -> list[Way]:
        """Ways to feed the targets of a stream; the first one adds nothing, if the plan feeds them
        already."""
        if origin not in self._above:
            sources = self.links.origins[origin]
            base = sum(share * self.left[one] for one, share in sources)
            found = [(0, base, 0)] if base > 0 else []
            for one, share in sources:
                if share > 0:
                    found += [
                        (size, base + share * left, added) for size, left, added in self.up[one] if size
                    ]
            self._above[origin] = self._best(found)
        return self._above[origin]

    def _joined(self, ways: Iterable[list[Way]]) -> list[Way]:
        """One way of each input together; what they share is added once."""
        found: list[Way] = [(0, 1.0, 0)]
        for some in ways:
            found = self._best(
                [
                    ((added | other).bit_count(), left * through, added | other)
                    for _, left, added in found
                    for _, through, other in some
                ]
            )
        return found

    def _look_down(self, one: int) -> None:
        """Ways from a partition's output to outputs of the topology. `onward` is what the plan alone lets
        through of it, if it is in the plan."""
        own = base = float(self.weights[one])
        ways: list[Way] = []
        for feed, share in self.links.below[one]:
            already, some = self._out_of(feed)
            base += share * already
            ways += [(size, share * through, added) for size, through, added in some if share > 0]
        found = [(0, base, 0)] if base > 0 else []
        found += [(size, base + through, added) for size, through, added in ways]
        self.onward[one] = base if self.plan & self.model.bits[one] else own
        self.down[one] = self._best(found)

    def _out_of(self, feed: int) -> tuple[float, list[Way]]:
        """What the plan lets through of a stream, and ways that let more through."""
        if feed not in self._below:
            link = self.links.feeds[feed]
            already, found = 0.0, []
            for target in link.targets:
                bit = self.model.bits[target]
                if not (self.plan | self.allowed) & bit:
                    continue
                if target in self.model.needs:
                    for size, _, missing in self.up[target]:
                        already += 0.0 if size else self.onward[target]
                        found += [
                            ((missing | other).bit_count(), through, missing | other)
                            for _, through, other in (self.down[target] if size else ())
                        ]
                    continue
                beside = self._beside(target, link.position)
                if self.plan & bit:
                    already += beside[0][1] * self.onward[target] if beside and not beside[0][0] else 0.0
                    continue
                found += [
                    (1 + (added | other).bit_count(), left * through, added | other | bit)
                    for _, left, added in beside
                    for _, through, other in self.down[target]
                ]
            self._below[feed] = already, self._best(found)
        return self._below[feed]

    def _beside(self, target: int, position: int) -> list[Way]:
        """Ways to feed the other inputs of a target; what passes of the stream at `position`, as a share."""
        feeds = self.links.above[target]
        if len(feeds) == 1:
            return [(0, 1.0, 0)]
        if not self.model.correlated[target]:
            return (
                [(0, self.links.shares[target][position], 0)] if self.links.shares[target][position] else []
            )
        others = [feed for at, feed in enumerate(feeds) if at != position]
        return self._joined(self._into(self.links.feeds[feed].origin) for feed in others)

    def _best(self, ways: list[Way]) -> list[Way]:
        """The smallest way and those that let more through than any of their size or smaller. If there is
        room, the densest that use other operators, with which what is joined can share more, and then the
        densest of the others. Ties go by name."""
        if len(ways) < 2:
            return ways
        ways = sorted(ways, key=lambda way: (way[0], -way[1], -way[2]))
        kept: list[Way] = []
        rest: list[Way] = []
        seen: set[int] = set()
        highest = 0.0
        for way in ways:
            if way[2] in seen:
                continue
            seen.add(way[2])
            if way[1] > highest * (1 + 1e-9):
                kept.append(way)
                highest = way[1]
            else:
                rest.append(way)
        if len(kept) > self.most:
            rest += kept[1:]
            kept = kept[:1]
        if len(kept) + len(rest) > self.most:
            rest.sort(key=lambda way: (-way[1] / way[0] if way[0] else 0.0, way[0], -way[2]))
            rest = self._varied(kept, rest)
        return sorted(kept + rest[: self.most - len(kept)], key=lambda way: (way[0], -way[1], -way[2]))

    def _varied(self, kept: list[Way], rest: list[Way]) -> list[Way]:
        """The first way with each set of operators, then the others."""
        used = {self._operators(way[2]) for way in kept}
        first: list[Way] = []
        more: list[Way] = []
        for way in rest:
            operators = self._operators(way[2])
            (more if operators in used else first).append(way)
            used.add(operators)
            if len(kept) + len(first) == self.most:
                break
        return first + more

    def _operators(self, added: int) -> tuple[bool, ...]:
        return tuple(bool(added & operator) for operator in self.links.operators)
