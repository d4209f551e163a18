"""Growing plans by extensions: partitions, each with all that it needs for its output to count.

Up to `CAREFUL` partitions a beam is searched: for 1, 2, 3, ... partitions the few best plans of that size are
kept, and each is extended in every way that `reach.py` finds. That is the dynamic programming of the paper
(Algorithm 1) with a bounded number of candidates. What is kept of a size does not depend on the budget, so
more budget is never worse. Larger topologies are grown by the densest extensions, several at a time.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Hashable
from dataclasses import dataclass
from functools import cached_property

from domain.fidelity import DIGITS, FidelityModel
from domain.replication.reach import Links, Reach

CAREFUL = 64
"""Up to this number of partitions a beam is searched."""

WIDTH = 6
"""Plans of each size that are extended."""

WAYS = 4
"""Ways up and ways down that are looked at for each partition."""

ROUNDS = 24
COMPARED = 96
"""In larger topologies one comparison serves for several additions (a share of all partitions, and a quarter
of the plan) and covers at least this many extensions."""

Ranked = tuple[float, int]
"""Fidelity of a plan, and the plan as bits."""


@dataclass(frozen=True, slots=True)
class Growth:
    """Extensions in the order they were added. coarse: several were added between two comparisons."""

    steps: tuple[frozenset[int], ...]
    coarse: bool


def grown(model: FidelityModel, budget: int) -> Growth:
    """A plan of at most `budget` partitions."""
    grower = _Grower(model)
    if len(model.partitions) > CAREFUL:
        return grower.growth(grower.densest_first(grower.everything, budget))
    return grower.growth(grower.densest_first(grower.searched(budget), budget))


def in_order(model: FidelityModel, chosen: frozenset[int]) -> Growth:
    """The partitions that count of a plan, the densest extensions first."""
    allowed = sum(model.bits[one] for one in chosen)
    grower = _Grower(model)
    return grower.growth(grower.densest_first(allowed, len(chosen)))


class _Grower:
    def __init__(self, model: FidelityModel) -> None:
        self.model, self.links = model, Links.of(model)
        self.everything = (1 << len(model.partitions)) - 1

    def growth(self, steps: list[int]) -> Growth:
        coarse = len(self.model.partitions) > CAREFUL
        return Growth(tuple(self.model.members(step) for step in steps), coarse)

    def searched(self, budget: int) -> int:
        """The best plan that the beam finds; of equals the smallest, then the first by name."""
        found: defaultdict[int, dict[int, float]] = defaultdict(dict)
        found[0][0] = 0.0
        best: Ranked = (0.0, 0)
        for size in range(budget + 1):
            kept = self._kept(found.pop(size, {}))
            if kept and kept[0][0] > best[0]:
                best = kept[0]
            if size == budget:
                break
            for fidelity, plan in kept:
                for higher, larger in self._extended(plan):
                    if higher > fidelity:
                        found[larger.bit_count()][larger] = higher
        return best[1]

    def _kept(self, plans: dict[int, float]) -> list[Ranked]:
        """Half of the beam are the best plans, the other half the best of those that use other operators: a
        way that begins badly can end best. Of plans that differ only in partitions of the same kinds one is
        kept."""
        ranked: list[Ranked] = []
        twins: set[tuple[int, ...]] = set()
        for fidelity, plan in sorted(((value, plan) for plan, value in plans.items()), reverse=True):
            if not ranked or fidelity < ranked[-1][0]:
                twins = set()
            kinds = tuple((plan & kind).bit_count() for kind in self.kinds)
            if kinds not in twins:
                twins.add(kinds)
                ranked.append((fidelity, plan))
        best = (WIDTH + 1) // 2
        kept = ranked[:best]
        used = {self._used(plan) for _, plan in kept}
        for fidelity, plan in ranked[best:]:
            if len(kept) == WIDTH:
                break
            if (operators := self._used(plan)) not in used:
                used.add(operators)
                kept.append((fidelity, plan))
        return kept

    @cached_property
    def kinds(self) -> tuple[int, ...]:
        """Partitions that nothing tells apart but their names: neither their rates nor those of what they
        read from and feed, and so on. In a `full` stream of which pairs are measured, only those are alike
        that read the same share from each source, or give the same to each target."""
        links, model = self.links, self.model
        weights = dict(zip(model.outputs, model.weights.tolist(), strict=True))
        colours: list[Hashable] = [
            (
                number,
                float(model.rates[one]),
                weights.get(one, 0.0),
                links.shares[one],
                tuple(links.feeds[feed].origin for feed in links.above[one] if links.feeds[feed].full),
                tuple((feed, share) for feed, share in links.below[one] if links.feeds[feed].full),
            )
            for number, span in enumerate(model.spans.values())
            for one in range(span.start, span.stop)
        ]
        known = 0
        while len(names := {colour: name for name, colour in enumerate(dict.fromkeys(colours))}) > known:
            known = len(names)
            plain = [names[colour] for colour in colours]
            sources = [
                tuple(sorted((share, plain[one]) for one, share in origin)) for origin in links.origins
            ]
            targets = [tuple(sorted(plain[one] for one in feed.targets)) for feed in links.feeds]
            colours = [
                (
                    plain[one],
                    tuple(sources[links.feeds[feed].origin] for feed in links.above[one]),
                    tuple(sorted((share, targets[feed]) for feed, share in links.below[one])),
                )
                for one in range(len(plain))
            ]
        found: defaultdict[Hashable, int] = defaultdict(int)
        for bit, colour in zip(model.bits, colours, strict=True):
            found[colour] |= bit
        return tuple(found.values())

    def _used(self, plan: int) -> tuple[bool, ...]:
        return tuple(bool(plan & operator) for operator in self.links.operators)

    def _extended(self, plan: int) -> list[Ranked]:
        """The plan with each of its extensions."""
        reach = Reach(self.model, self.links, plan, self.everything, most=WAYS)
        ways = {
            plan | way[2] for one in self._outside(plan, self.everything) for way in reach.extensions(one)
        }
        larger = sorted(ways)
        return list(zip(self._fidelities(larger), larger, strict=True))

    def densest_first(self, allowed: int, budget: int) -> list[int]:
        """Extensions by those that are allowed until nothing is gained or fits, the one with the most gain
        per partition first; of equals the smaller one, then by name."""
        count = len(self.model.partitions)
        plan = size = 0
        steps: list[int] = []
        while size < budget:
            at_once = 1 if count <= CAREFUL else max(count // ROUNDS, size // 4)
            before = size
            for added in self._densest(plan, allowed, budget - size, max(COMPARED, 2 * at_once)):
                new = added & ~plan
                if new and size + new.bit_count() <= budget:
                    steps.append(new)
                    plan |= new
                    size += new.bit_count()
                if size >= before + at_once:
                    break
            if size == before:
                break
        return steps

    def _densest(self, plan: int, allowed: int, room: int, most: int) -> list[int]:
        """Extensions of at most `room` partitions; of many those are compared that let most through."""
        reach = Reach(self.model, self.links, plan, allowed, most=WAYS)
        estimates: dict[int, float] = {}
        for one in self._outside(plan, allowed):
            for size, through, added in reach.extensions(one):
                if size <= room:
                    estimates[added] = max(estimates.get(added, 0.0), through / size)
        if len(self.model.partitions) > CAREFUL:
            ranked = sorted(estimates, key=lambda added: (-estimates[added], -added))
            estimates = dict.fromkeys(ranked[:most], 0.0)
        found = sorted(estimates, key=lambda added: (added.bit_count(), -added))
        now, *then = self._fidelities([plan, *(plan | added for added in found)])
        densities = {
            added: float(f"{(value - now) / added.bit_count():.{DIGITS - 2}g}")
            for added, value in zip(found, then, strict=True)
            if value > now
        }
        return sorted(densities, key=lambda added: -densities[added])

    def _outside(self, plan: int, allowed: int) -> list[int]:
        return [one for one, bit in enumerate(self.model.bits) if allowed & ~plan & bit]

    def _fidelities(self, plans: list[int]) -> list[float]:
        if not plans:
            return []
        values: list[float] = self.model.exact_fidelity(self.model.flags_of(plans)).tolist()
        return values
