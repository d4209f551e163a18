"""Plans against the best of all sets of partitions, or against what the integer program proves."""

from __future__ import annotations

import statistics
import time
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from rich.table import Table

from benchmarks.replication.cases import Recipe, drawn, models
from benchmarks.replication.exact import best_fidelities
from benchmarks.runner import Criterion, Report, Session, at_least, at_most
from domain.replication import (
    FidelityModel,
    Optimal,
    ReplicationPlanner,
    TooLargeError,
    replication_planner_named,
)

KINDS = {
    f"{structure}, {'with' if joins is None else 'without'} joins": Recipe(structure=structure, joins=joins)
    for structure in ("structured", "full", "general")
    for joins in (0.0, None)
}
COMPARED = ("structure_aware", "published", "greedy")
SHARES = (0.1, 0.25, 0.5)
"""Budgets as shares of the partitions."""
SECONDS = 5.0
SMALLEST = 1e-6
"""Optima below this are within the solver's precision of nothing."""


@dataclass(frozen=True, slots=True)
class Quality:
    """Fidelity relative to the optimum, over all plans. reached: how often it is that."""

    plans: int
    mean: float
    fifth_percentile: float
    worst: float
    reached: float


def quality_of(ratios: Sequence[float]) -> Quality:
    ordered = sorted(ratios)
    return Quality(
        plans=len(ordered),
        mean=round(statistics.mean(ordered), 5),
        fifth_percentile=round(ordered[len(ordered) // 20], 5),
        worst=round(ordered[0], 5),
        reached=round(sum(ratio >= 1 - 1e-6 for ratio in ordered) / len(ordered), 5),
    )


def fidelity_by(planner: ReplicationPlanner, model: FidelityModel, budget: int) -> float | None:
    """None where the planner refuses."""
    try:
        choice = planner.choose(model, budget)
    except TooLargeError:
        return None
    return float(model.fidelity(model.flags([frozenset[int]().union(*choice.steps)]))[0])


def small_topologies(session: Session, report: Report) -> None:
    """4 to 13 partitions, every budget, against all sets of partitions."""
    count, solved = (40, 5) if session.quick else (1_000, 50)
    planners = {name: replication_planner_named(name) for name in COMPARED}
    optimal = Optimal(time_limit=SECONDS)
    report.parameters["small"] = {"topologies_of_each_kind": count, "solved_of_each_kind": solved}
    found: dict[str, Any] = {}
    below = contradicted = unproven = programs = 0
    for kind, recipe in KINDS.items():
        ratios: defaultdict[str, list[float]] = defaultdict(list)
        with session.progress(kind, count) as advance:
            for number, model in enumerate(models(recipe, count)):
                best = best_fidelities(model)
                for budget in (one for one in range(1, len(best) - 1) if best[one] > 0):
                    values = {name: fidelity_by(one, model, budget) or 0.0 for name, one in planners.items()}
                    below += values["structure_aware"] < values["greedy"] - 1e-9
                    for name, value in values.items():
                        ratios[name].append(value / best[budget])
                    if number < solved:
                        programs += 1
                        choice = optimal.choose(model, budget)
                        chosen = model.flags([frozenset[int]().union(*choice.steps)])
                        contradicted += abs(float(model.fidelity(chosen)[0]) - best[budget]) > 2e-6
                        unproven += not choice.proven
                advance()
        shares = {name: quality_of(mine) for name, mine in ratios.items()}
        found[kind] = {name: asdict(share) for name, share in shares.items()}
        report.tables.append(_table(f"{kind}: {count:,} topologies, every budget", shares))
        report.criteria += [
            at_least(f"{kind}: structure_aware, mean", shares["structure_aware"].mean, 0.99),
            at_least(f"{kind}: structure_aware, worst", shares["structure_aware"].worst, 0.9),
        ]
    report.results["small"] = found
    report.results["small_optimal"] = {"programs": programs, "unproven": unproven}
    report.criteria += [
        at_most("plans of structure_aware below greedy", below, 0),
        at_most(f"plans of optimal that are not the best, of {programs:,}", contradicted, 0),
        at_most(f"plans of optimal without a proof, of {programs:,}", unproven, 0),
    ]


def medium_topologies(session: Session, report: Report) -> None:
    """30 to 60 partitions, against optima that the integer program proves."""
    count = 3 if session.quick else 10
    planners = {name: replication_planner_named(name) for name in COMPARED}
    report.parameters["medium"] = {"topologies_of_each_kind": count, "budgets": SHARES, "seconds": SECONDS}
    found: dict[str, Any] = {}
    everything: list[float] = []
    for kind, small in KINDS.items():
        recipe = Recipe(
            structure=small.structure,
            joins=small.joins,
            operators=(5, 12),
            width=(1, 10),
            partitions=(30, 60),
        )
        ratios: defaultdict[str, list[float]] = defaultdict(list)
        gaps: list[float] = []
        improved = 0
        with session.progress(f"30 to 60 partitions, {kind}", count) as advance:
            for model in models(recipe, count):
                for share in SHARES:
                    budget = max(1, int(share * len(model.partitions)))
                    choice = Optimal(time_limit=SECONDS).choose(model, budget)
                    chosen = model.flags([frozenset[int]().union(*choice.steps)])
                    best = float(model.fidelity(chosen)[0])
                    if best < SMALLEST:
                        continue
                    values = {name: fidelity_by(one, model, budget) for name, one in planners.items()}
                    if choice.bound is not None:
                        gaps.append(choice.bound - best)
                        improved += best > (values["structure_aware"] or 0.0) + SMALLEST
                        continue
                    for name, value in values.items():
                        if value is not None:
                            ratios[name].append(min(1.0, value / best))
                advance()
        shares = {name: quality_of(mine) for name, mine in ratios.items()}
        everything += ratios["structure_aware"]
        found[kind] = {
            "planners": {name: asdict(one) for name, one in shares.items()},
            "without_proof": len(gaps),
            "of_them_optimal_is_better": improved,
            "largest_gap": round(max(gaps, default=0.0), 5),
        }
        title = f"30 to 60 partitions, {kind}: {len(ratios['structure_aware'])} proven, {len(gaps)} not"
        report.tables.append(_table(title, shares))
    report.results["medium"] = found
    mine = quality_of(everything)
    report.criteria += [
        at_least(f"30 to 60 partitions: structure_aware, mean of {mine.plans}", mine.mean, 0.99),
        at_least("30 to 60 partitions: structure_aware, worst", mine.worst, 0.9),
    ]


def planning_time(session: Session, report: Report) -> None:
    """900 to 1,000 partitions: CPU seconds of one core, explanation not included."""
    count = 1 if session.quick else 5
    planner, greedy = replication_planner_named("structure_aware"), replication_planner_named("greedy")
    rows: list[dict[str, Any]] = []
    below = 0
    with session.progress("900 to 1,000 partitions", len(KINDS) * count) as advance:
        for kind, small in KINDS.items():
            recipe = Recipe(
                structure=small.structure,
                joins=small.joins,
                operators=(6, 20),
                width=(20, 200),
                partitions=(900, 1_000),
            )
            for seed in range(count):
                model = drawn(recipe, seed)
                for share in SHARES:
                    budget = int(share * len(model.partitions))
                    started = time.process_time()
                    value = fidelity_by(planner, model, budget) or 0.0
                    seconds = time.process_time() - started
                    baseline = fidelity_by(greedy, model, budget) or 0.0
                    below += value < baseline - 1e-9
                    rows.append(
                        {
                            "kind": kind,
                            "partitions": len(model.partitions),
                            "budget": budget,
                            "seconds": round(seconds, 3),
                            "structure_aware": round(value, 5),
                            "greedy": round(baseline, 5),
                        }
                    )
                advance()
    report.results["planning_time"] = {
        "plans": len(rows),
        "median_seconds": statistics.median(row["seconds"] for row in rows),
        "slowest": max(rows, key=lambda row: float(row["seconds"])),
    }
    slowest = max(float(row["seconds"]) for row in rows)
    report.criteria += [
        Criterion("900 to 1,000 partitions: slowest plan, CPU seconds", slowest, "< 1", slowest < 1.0),
        at_most("900 to 1,000 partitions: plans of structure_aware below greedy", below, 0),
    ]


def _table(title: str, shares: dict[str, Quality]) -> Table:
    table = Table(title=title, title_justify="left")
    for column in ("planner", "plans", "mean", "5th percentile", "worst", "is the optimum"):
        table.add_column(column, justify="left" if column == "planner" else "right")
    for planner, share in shares.items():
        table.add_row(
            planner,
            f"{share.plans:,}",
            *(f"{value:.3f}" for value in (share.mean, share.fifth_percentile, share.worst)),
            f"{share.reached:.1%}",
        )
    return table
