"""The result of a replication planner: the partitions to replicate, why, and each query's output in the worst
case."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from domain.fidelity import DIGITS, FidelityModel, Flags, Floats, Objective
from domain.topology import split_partition


@dataclass(frozen=True, slots=True)
class ChosenPartition:
    """One partition of the plan. Fidelities are 0 to 1.

    step: in which step it was chosen, from 1; what one step adds counts together. fidelity: of the plan after
        that step. gain: what the whole plan would lose without this one.
    """

    partition: str
    operator: str
    step: int
    fidelity: float
    gain: float
    rate: float
    reason: str


@dataclass(frozen=True, slots=True)
class QueryOutlook:
    """One query in the worst case. tentative: whether it gives output before recovery ends; fidelity: of that
    output, 0 to 1; weight: its share of all output."""

    query: str
    tentative: bool
    fidelity: float
    weight: float
    reason: str


@dataclass(frozen=True, slots=True)
class ReplicationPlan:
    """A plan within `budget` partitions. before and after: without any replica and with the plan, in the
    worst case and from 0 to 1. fidelity_*: of the objective; plain_fidelity_*: without priorities, as in the
    paper; completeness_*: internal completeness. proven: no plan within the budget is better. bound: no plan
    within the budget has a higher fidelity than this; gap: how far the plan is below it; None where that is
    not known."""

    planner: str
    objective: Objective
    budget: int
    total: int
    chosen: tuple[ChosenPartition, ...]
    queries: tuple[QueryOutlook, ...]
    fidelity_before: float
    fidelity_after: float
    plain_fidelity_before: float
    plain_fidelity_after: float
    completeness_before: float
    completeness_after: float
    proven: bool
    bound: float | None
    gap: float | None
    note: str

    @property
    def partitions(self) -> tuple[str, ...]:
        return tuple(one.partition for one in self.chosen)

    def to_data(self) -> dict[str, Any]:
        """Plain data for JSON."""
        return asdict(self)


def explained(
    model: FidelityModel,
    budget: int,
    steps: Sequence[frozenset[int]],
    *,
    planner: str,
    objective: Objective,
    proven: bool,
    bound: float | None,
    note: str,
) -> ReplicationPlan:
    """Explain a choice for each partition and each query."""
    alive = np.zeros((len(steps) + 1, len(model.partitions)), dtype=bool)
    for number, step in enumerate(steps, start=1):
        alive[number] = alive[number - 1]
        alive[number, list(step)] = True
    course = model.fidelity(alive)
    ends = alive[[0, -1]]
    completeness = model.completeness(ends)
    plain = model.plain_fidelity(ends)
    left = model.left(ends[1:])[0]
    fidelity = float(course[-1])
    if proven:
        bound = fidelity
    elif bound is not None:
        bound = round(max(bound, fidelity), DIGITS)
    return ReplicationPlan(
        planner=planner,
        objective=objective,
        budget=budget,
        total=len(model.partitions),
        chosen=tuple(_chosen(model, steps, course, alive[-1], left)),
        queries=tuple(_outlooks(model, alive[-1], left)),
        fidelity_before=float(course[0]),
        fidelity_after=fidelity,
        plain_fidelity_before=float(plain[0]),
        plain_fidelity_after=float(plain[1]),
        completeness_before=float(completeness[0]),
        completeness_after=float(completeness[1]),
        proven=proven,
        bound=bound,
        gap=None if bound is None else round(bound - fidelity, DIGITS),
        note=note,
    )


def _chosen(
    model: FidelityModel, steps: Sequence[frozenset[int]], course: Floats, plan: Flags, left: Floats
) -> Iterator[ChosenPartition]:
    gains = _gains(model, plan, float(course[-1]))
    outputs = set(model.outputs)
    for number, step in enumerate(steps, start=1):
        for one in sorted(step, key=lambda index: model.ranks[index]):
            name = model.partitions[one]
            yield ChosenPartition(
                partition=name,
                operator=split_partition(name)[0],
                step=number,
                fidelity=float(course[number]),
                gain=gains[one],
                rate=float(model.rates[one]),
                reason=_why(model, one, gains[one], output=one in outputs, fed=left[one] > 0),
            )


def _gains(model: FidelityModel, plan: Flags, fidelity: float) -> dict[int, float]:
    """What the plan would lose without each of its partitions."""
    chosen = np.flatnonzero(plan)
    without = np.tile(plan, (len(chosen), 1))
    without[np.arange(len(chosen)), chosen] = False
    lost = np.maximum(0.0, fidelity - model.fidelity(without)).round(DIGITS)
    return dict(zip(chosen.tolist(), lost.tolist(), strict=True))


def _why(model: FidelityModel, one: int, gain: float, *, output: bool, fed: bool) -> str:
    name = model.partitions[one]
    operator = split_partition(name)[0]
    if not fed:
        return "gives nothing here: not everything that it needs to read from has a replica"
    share = float(model.rates[one] / total) if (total := _total(model, operator)) > 0 else 0.0
    carried = f"carries {_percent(share)} of what {operator} gives"
    if output:
        weight = float(model.weights[model.outputs.index(one)])
        if gain == 0:
            return f"is a query itself, but {_percent(weight)} of all output is nothing to lose"
        return f"is a query itself: {_percent(weight)} of all output"
    if gain == 0:
        return f"{carried}, but nothing that has a replica would miss it"
    return f"{carried}; without it the plan keeps {_percent(gain)} less of the output"


def _total(model: FidelityModel, operator: str) -> float:
    return float(model.rates[model.spans[operator]].sum())


def _outlooks(model: FidelityModel, plan: Flags, left: Floats) -> Iterator[QueryOutlook]:
    missing: dict[int, list[str]] = defaultdict(list)
    queries = sorted(zip(model.outputs, model.weights, strict=True), key=lambda one: model.ranks[one[0]])
    for step in model.steps:
        for stream in step.streams:
            operator = split_partition(model.partitions[stream.source.start])[0]
            arriving = np.broadcast_to(stream.left(left[None, stream.source])[0], step.reads.shape)
            for offset in np.flatnonzero(arriving == 0):
                missing[step.own.start + int(offset)].append(operator)
    for one, weight in queries:
        fidelity = round(float(left[one]), DIGITS)
        if fidelity > 0:
            reason = f"gives output from {_percent(fidelity)} of its input"
        elif not plan[one]:
            reason = "gives nothing before it is recovered: it has no replica itself"
        elif one in model.needs:
            needs = model.members(model.needs[one])
            lacking = sorted((other for other in needs if not plan[other]), key=model.ranks.__getitem__)
            more = f" and {len(lacking) - 5} more" if len(lacking) > 5 else ""
            names = ", ".join(model.partitions[other] for other in lacking[:5])
            reason = (
                "gives nothing before it is recovered: a cycle waits for all that it reads, and "
                f"{names}{more} {'have' if len(lacking) > 1 else 'has'} no replica"
            )
        else:
            absent = ", ".join(missing[one]) or "what it reads from"
            reason = f"gives nothing before it is recovered: nothing comes from {absent}"
        yield QueryOutlook(
            model.partitions[one], fidelity > 0, fidelity, round(float(weight), DIGITS), reason
        )


def _percent(share: float) -> str:
    """`4.2 %`, `67 %`, `100 %`; 0 and 100 only for exact values."""
    value = 100 * share
    if 0 < value < 0.1:
        return "less than 0.1 %"
    if 99.9 < value < 100:
        return "nearly 100 %"
    return f"{value:.1f} %" if value < 10 and round(value, 1) % 1 else f"{value:.0f} %"
