"""Growing a plan by the extensions with the most fidelity per partition.

The order in which partitions are added does not depend on the budget, which only says where to stop: plans
of larger budgets hold those of smaller ones, or are better. Where the next extension is too large for what is
left, smaller ones fill the rest.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil

from domain.replication.fidelity import DIGITS, FidelityModel
from domain.replication.reach import NEVER, Links, Reach
from domain.topology import split_partition

CAREFUL = 64
"""Up to this number of partitions each addition is chosen among all extensions, and compared with filling
up."""

ROUNDS = 24
COMPARED = 96
"""In larger topologies one comparison serves for several additions (a share of all partitions, and a quarter
of the plan) and covers at least this many extensions."""


@dataclass(frozen=True, slots=True)
class Growth:
    """Extensions in the order they were added. coarse: several were added between two comparisons."""

    steps: tuple[frozenset[int], ...]
    coarse: bool


@dataclass(frozen=True, slots=True)
class Extension:
    added: frozenset[int]
    gain: float

    @property
    def density(self) -> float:
        return round(self.gain / len(self.added), DIGITS)


def grown(model: FidelityModel, budget: int, *, allowed: Sequence[bool] | None = None) -> Growth:
    """Extensions until nothing is gained or fits. `allowed`: partitions to choose from, default all."""
    count = len(model.partitions)
    grower = _Grower(model, [True] * count if allowed is None else allowed)
    steps = grower.carefully(budget) if count <= CAREFUL else grower.coarsely(budget)
    return Growth(tuple(steps), coarse=count > CAREFUL)


class _Grower:
    def __init__(self, model: FidelityModel, allowed: Sequence[bool]) -> None:
        self.model, self.allowed, self.links = model, allowed, Links.of(model)
        self.operators = [split_partition(partition)[0] for partition in model.partitions]

    def extensions(self, plan: frozenset[int], *, most: int | None = None) -> list[Extension]:
        """What gains something, the densest first; of equals the smaller one, then by name. `most`: about how
        many are looked at, those of each operator that need least and carry most."""
        reach = Reach(self.model, self.links, plan, self.allowed)
        anchors = [one for one in range(len(self.allowed)) if one not in plan and reach.size(one) < NEVER]
        if most is not None:
            anchors = self._foremost(anchors, reach, most)
        ways = {reach.extension(one) for one in anchors}
        if most is None:
            frugal = Reach(self.model, self.links, plan, self.allowed, frugal=True)
            ways |= {frugal.extension(one) for one in anchors}
        found = sorted(ways, key=self.model.order)
        if not found:
            return []
        fidelity = self.model.fidelity(self.model.flags([plan, *(plan | added for added in found)]))
        extensions = [
            Extension(added, float(value - fidelity[0]))
            for added, value in zip(found, fidelity[1:], strict=True)
            if value > fidelity[0]
        ]
        return sorted(extensions, key=lambda one: -one.density)

    def _foremost(self, anchors: list[int], reach: Reach, most: int) -> list[int]:
        anchors = sorted(anchors, key=lambda one: (reach.size(one), -reach.rates[one], self.model.ranks[one]))
        share = most / len(self.allowed)
        room = {name: ceil(share * (span.stop - span.start)) for name, span in self.model.spans.items()}
        kept: list[int] = []
        for one in anchors:
            if room[self.operators[one]]:
                room[self.operators[one]] -= 1
                kept.append(one)
        return kept

    def carefully(self, budget: int) -> list[frozenset[int]]:
        """The densest extension, unless smaller ones gain more within less than its size."""
        plan: frozenset[int] = frozenset()
        steps: list[frozenset[int]] = []
        while len(plan) < budget:
            extensions = self.extensions(plan)
            if not extensions:
                break
            best, room = extensions[0], budget - len(plan)
            filling, gain = self._filling(plan, extensions, min(room, len(best.added) - 1))
            if len(best.added) > room or gain > best.gain:
                if not filling:
                    break
                taken = filling
            else:
                taken = [best.added]
            steps += taken
            plan = plan.union(*taken)
        return steps

    def _filling(
        self, plan: frozenset[int], extensions: list[Extension], room: int
    ) -> tuple[list[frozenset[int]], float]:
        """Extensions for ever more room, each the densest that fits, and what they gain together."""
        taken: list[frozenset[int]] = []
        used, gain = 0, 0.0
        for size in range(1, room + 1):
            fitting = next((one for one in extensions if len(one.added) <= size - used), None)
            if fitting is None:
                continue
            taken.append(fitting.added)
            used, gain = used + len(fitting.added), gain + fitting.gain
            extensions = self.extensions(plan.union(*taken))
        return taken, round(gain, DIGITS)

    def coarsely(self, budget: int) -> list[frozenset[int]]:
        """Several of the densest extensions between two comparisons, until one does not fit."""
        plan: frozenset[int] = frozenset()
        steps: list[frozenset[int]] = []
        while len(plan) < budget:
            at_once = max(len(self.allowed) // ROUNDS, len(plan) // 4)
            extensions = self.extensions(plan, most=max(COMPARED, 2 * at_once))
            if not extensions:
                break
            grown_to = len(plan) + at_once
            for extension in extensions:
                added = extension.added - plan
                if len(plan) + len(added) > budget:
                    return steps or self._filling(plan, extensions, budget)[0]
                if added:
                    steps.append(added)
                    plan |= added
                if len(plan) >= grown_to:
                    break
        return steps
