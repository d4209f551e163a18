"""Single waves: what each planner recovers, relative to the best that nodes have room for."""

from __future__ import annotations

import statistics
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from rich.table import Table

from benchmarks.packing.cases import LARGER, SETTINGS, Setting, drawn
from benchmarks.packing.exact import Optima, TooLargeError, optima
from benchmarks.runner import Report, Session, at_least, at_most
from domain.planning import (
    AdaptiveDensity,
    Arrival,
    BestDensity,
    LookAhead,
    OperatorCentric,
    Optimal,
    Planner,
    ProfitDensity,
)

# Without the program over all waves, which only adds a candidate and takes most of the time.
AHEAD = LookAhead(arrivals=(Arrival(60.0, 80.0), Arrival(120.0, 80.0)), program_limit=0)
PLANNERS: tuple[Planner, ...] = (
    BestDensity(),
    AdaptiveDensity(),
    AHEAD,
    Optimal(time_limit=30.0),
    ProfitDensity(),
    OperatorCentric(),
)
JUDGED = ("best_density", "adaptive_density", "look_ahead", "optimal")
LARGER_SECONDS = 10.0
# Seeds from here on were not used above.
FIRST_UNSEEN = 100_000


@dataclass(frozen=True, slots=True)
class Share:
    """A planner's priority relative to the optimum, over all problems. reached: how often it is that."""

    mean: float
    fifth_percentile: float
    worst: float
    reached: float


def share_of(ratios: Sequence[float]) -> Share:
    ordered = sorted(ratios)
    return Share(
        mean=round(statistics.mean(ordered), 5),
        fifth_percentile=round(ordered[len(ordered) // 20], 5),
        worst=round(ordered[0], 5),
        reached=round(sum(ratio >= 1 - 1e-9 for ratio in ordered) / len(ordered), 5),
    )


def small_problems(session: Session, report: Report) -> None:
    """Against the optimum by trying every set of queries."""
    wanted = 40 if session.quick else 300
    found: dict[str, Any] = {}
    contradicted = 0
    for name, setting in SETTINGS.items():
        ratios: defaultdict[str, list[float]] = defaultdict(list)
        unknown = packing = seed = 0
        with session.progress(name, wanted) as advance:
            while len(ratios["best_density"]) < wanted:
                problem, seed = drawn(setting, seed), seed + 1
                try:
                    best = optima(problem)
                except TooLargeError:
                    unknown += 1
                    continue
                if not _binds(best):
                    continue
                packing += best.placed < best.in_sum
                for planner in PLANNERS:
                    proposal = planner.plan(problem)
                    ratios[planner.name].append(proposal.value / best.placed)
                    if planner.name == "optimal" and proposal.proven:
                        contradicted += proposal.value != best.placed
                advance()
        shares = {planner: share_of(mine) for planner, mine in ratios.items()}
        found[name] = {
            "problems": wanted,
            "drawn": seed,
            "optimum_unknown": unknown,
            "placed_optimum_below_that_in_sum": packing,
            "planners": {planner: asdict(share) for planner, share in shares.items()},
        }
        report.tables.append(_table(f"{name}: {wanted} problems in which capacity binds", shares))
        report.criteria.append(at_least(f"{name}: problems in which packing binds", packing, 1))
        for judged in JUDGED:
            report.criteria += [
                at_least(f"{name}: {judged}, mean", shares[judged].mean, 0.99),
                at_least(f"{name}: {judged}, worst", shares[judged].worst, 0.9),
            ]
    report.results["small"] = found
    report.criteria.append(at_most("proofs of optimal that enumeration contradicts", contradicted, 0))


def never_below(session: Session, report: Report) -> None:
    """`look_ahead` against `best_density` on many problems, placed, whatever arrives."""
    problems = 200 if session.quick else 2_500
    below = capped = 0
    with session.progress("Look-ahead against best density", problems) as advance:
        for number in range(problems):
            setting = list(SETTINGS.values())[number % len(SETTINGS)]
            problem = drawn(setting, FIRST_UNSEEN + number)
            mine, base = AHEAD.plan(problem), BestDensity().plan(problem)
            below += mine.value < base.value
            capped += base.value < base.total
            advance()
    report.results["never_below"] = {"problems": problems, "capacity_binds": capped, "below": below}
    report.criteria += [
        at_least("look_ahead against best_density: problems in which capacity binds", capped, 1),
        at_most(f"plans of look_ahead below best_density, of {problems:,}", below, 0),
    ]


def larger_problems(session: Session, report: Report) -> None:
    """Against the bound of the program with placement, where enumeration would take too long."""
    seeds = 4 if session.quick else 25
    found: dict[str, Any] = {}
    for name, setting in LARGER.items():
        ratios: list[float] = []
        proven = 0
        with session.progress(name, seeds) as advance:
            for problem in (drawn(setting, seed) for seed in range(seeds)):
                best = Optimal(time_limit=LARGER_SECONDS).plan(problem)
                mine = BestDensity().plan(problem)
                bound = int((best.value if best.bound is None else best.bound) + 1e-6)
                if 0 < bound < best.total:
                    ratios.append(mine.value / bound)
                    proven += best.proven
                advance()
        share = share_of(ratios)
        found[name] = {"problems": len(ratios), "proven": proven, "best_density": asdict(share)}
        title = f"{name}: {len(ratios)} problems, {proven} bounds reached"
        report.tables.append(_table(title, {"best_density / bound": share}))
        report.criteria += [
            at_least(f"{name}: best_density / bound, mean", share.mean, 0.98),
            at_least(f"{name}: best_density / bound, worst", share.worst, 0.9),
        ]
    report.results["larger"] = found


def _binds(best: Optima) -> bool:
    """Something can be placed, and not everything."""
    return 0 < best.placed < best.total


def parameters() -> dict[str, Any]:
    settings: dict[str, Setting] = {**SETTINGS, **LARGER}
    return {name: asdict(setting) for name, setting in settings.items()}


def _table(title: str, shares: dict[str, Share]) -> Table:
    table = Table(title=title, title_justify="left")
    for column in ("planner", "mean", "5th percentile", "worst", "is the optimum"):
        table.add_column(column, justify="left" if column == "planner" else "right")
    for planner, share in shares.items():
        table.add_row(
            planner,
            *(f"{value:.3f}" for value in (share.mean, share.fifth_percentile, share.worst)),
            f"{share.reached:.1%}",
        )
    return table
