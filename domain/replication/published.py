"""The structure-aware planner as it was published (Algorithms 3, 4 and 5 of the paper on PPA): a baseline.

The paper leaves three things open. Parts of a general topology: operators connected by streams other than
`full` are one structured part, and the others, as far as `full` streams connect them, full ones. The fidelity
by which plans of a part are compared: that of the part as a topology of its own. How far a part is expanded
between two
comparisons: by one step of its algorithm.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import ClassVar

from domain.fidelity import FidelityModel
from domain.replication.parts import Part, parts_of, whole
from domain.replication.planner import Choice, ReplicationPlanner
from domain.replication.segments import Units
from domain.replication.structure_aware import structure_of
from domain.replication.trees import TooLargeError

Plan = frozenset[int]
Step = Callable[[Plan, int], Plan]
"""From a plan and how many partitions may be added, what to add."""


class PublishedStructureAware(ReplicationPlanner):
    """Structured topologies by Algorithm 3, full ones by Algorithm 4, general ones part by part by Algorithm
    5.

    Raises `TooLargeError` where a part has too many segments, and for cycles, which the paper does not have.
    """

    name: ClassVar[str] = "published"

    def choose(self, model: FidelityModel, budget: int) -> Choice:
        if model.needs:
            raise TooLargeError("the published algorithms know no cycles; ask structure_aware instead")
        structure = structure_of(model.topology)
        if structure == "general":
            steps = _general(model, budget)
        else:
            step = step_of(whole(model, structure))
            steps = _repeated(step, frozenset(), budget)
        return Choice(tuple(steps), note=f"a {structure} topology, planned as published")


def step_of(part: Part) -> Step:
    return FullSteps(part.model).step if part.structure == "full" else Units(part.model).step


def _repeated(step: Step, plan: Plan, budget: int) -> list[Plan]:
    steps: list[Plan] = []
    while len(plan) < budget and (added := step(plan, budget - len(plan))):
        steps.append(added)
        plan |= added
    return steps


class FullSteps:
    """Algorithm 4: of each operator first the partition with the largest increase, then always the one with
    the largest of all. The increase of a partition is what the fidelity gains by it where all of its operator
    failed and nothing else did."""

    def __init__(self, model: FidelityModel) -> None:
        self.operators = [range(span.start, span.stop) for span in model.spans.values()]
        everything = frozenset(range(len(model.partitions)))
        increase: dict[int, float] = {}
        for own in self.operators:
            rest = everything - frozenset(own)
            without, *alone = model.fidelity(model.flags([rest, *(rest | {one} for one in own)])).tolist()
            increase |= {one: value - without for one, value in zip(own, alone, strict=True)}
        self.order = sorted(everything, key=lambda one: (-increase[one], model.ranks[one]))

    def step(self, plan: Plan, room: int) -> Plan:
        if not plan:
            first = frozenset(next(one for one in self.order if one in own) for own in self.operators)
            return first if len(first) <= room else frozenset()
        return frozenset([one for one in self.order if one not in plan][:1])


def _general(model: FidelityModel, budget: int) -> list[Plan]:
    """Algorithm 5: a first plan of every part, then always the expansion with the most fidelity per
    partition."""
    if len(model.topology.operators) > budget:
        return []
    parts = parts_of(model)
    step_in = [step_of(part) for part in parts]
    plans: list[Plan] = []
    for part, step in zip(parts, step_in, strict=True):
        plans.append(frozenset().union(*_repeated(step, frozenset(), len(part.model.topology.operators))))
    chosen = frozenset().union(*(part.outside(plan) for part, plan in zip(parts, plans, strict=True)))
    steps = [chosen] if chosen else []
    while len(chosen) < budget:
        room = budget - len(chosen)
        expansions = [
            (number, step(plan, room)) for number, (step, plan) in enumerate(zip(step_in, plans, strict=True))
        ]
        expansions = [(number, added) for number, added in expansions if added]
        if not expansions:
            break
        number, added = _densest(model, parts, chosen, expansions)
        plans[number] |= added
        steps.append(parts[number].outside(added))
        chosen |= steps[-1]
    return steps


def _densest(
    model: FidelityModel, parts: Sequence[Part], chosen: Plan, expansions: Sequence[tuple[int, Plan]]
) -> tuple[int, Plan]:
    larger: Iterable[Plan] = [chosen | parts[number].outside(added) for number, added in expansions]
    now, *then = model.fidelity(model.flags([chosen, *larger])).tolist()
    density = [(value - now) / len(added) for value, (_, added) in zip(then, expansions, strict=True)]
    return expansions[density.index(max(density))]
