"""Figure 16: topologies of 18 queries, all partitions failed, capacity from 10 % to 90 % of what they need.

The share of the priority that each planner recovers, on average over the topologies of a setting.
"""

from __future__ import annotations

import statistics

from rich.table import Table

from benchmarks.planning.cases import SETTINGS, failed_topology
from benchmarks.runner import Report, Session, at_least, at_most
from domain.planning import (
    AdaptiveDensity,
    BestDensity,
    DynamicProgramming,
    OperatorCentric,
    Optimal,
    Planner,
    ProfitDensity,
)
from domain.simulation.generator import TopologyRecipe

FRACTIONS = (0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9)
PLANNERS: tuple[Planner, ...] = (
    Optimal(time_limit=60.0),
    BestDensity(),
    AdaptiveDensity(),
    ProfitDensity(),
    OperatorCentric(),
)
# The optimum is also found by enumeration (Algorithm 4), for this many topologies of each setting.
ENUMERATED = 5


def figure_16(session: Session, report: Report) -> None:
    topologies = report.parameters["topologies"]
    curves: dict[str, dict[str, list[float]]] = {}
    unproven = differing = 0
    known: dict[TopologyRecipe, str] = {}
    with session.progress("Figure 16", len(set(SETTINGS.values())) * len(FRACTIONS) * topologies) as advance:
        for name, recipe in SETTINGS.items():
            if recipe in known:
                curves[name] = curves[known[recipe]]
                continue
            known[recipe] = name
            curves[name] = {planner.name: [] for planner in PLANNERS}
            for fraction in FRACTIONS:
                shares: dict[str, list[float]] = {planner.name: [] for planner in PLANNERS}
                for seed in range(topologies):
                    problem = failed_topology(recipe, seed, fraction)
                    for planner in PLANNERS:
                        proposal = planner.plan(problem)
                        shares[planner.name].append(proposal.value / proposal.total)
                        if planner.name == "optimal":
                            unproven += not proposal.proven
                            best = proposal.value
                    if seed < ENUMERATED:
                        differing += DynamicProgramming().plan(problem).value != best
                    advance()
                for planner_name, values in shares.items():
                    curves[name][planner_name].append(statistics.mean(values))
    report.results["figure_16"] = {"fractions": list(FRACTIONS), "settings": curves}
    report.criteria.append(at_most("optima that were not proven", unproven, 0))
    report.criteria.append(at_most("optima that Algorithm 4 does not agree with", differing, 0))
    table = Table(title="Figure 16: priority recovered, relative to the optimum", title_justify="left")
    table.add_column("setting")
    for planner in PLANNERS[1:]:
        table.add_column(planner.name, justify="right")
    for name, curve in curves.items():
        whole = {planner: sum(values) / sum(curve["optimal"]) for planner, values in curve.items()}
        table.add_row(name, *(f"{100 * whole[planner.name]:.2f} %" for planner in PLANNERS[1:]))
        pairs = zip(curve["best_density"], curve["optimal"], strict=True)
        worst = min(mine / best for mine, best in pairs if best > 0)
        report.criteria += [
            at_least(f"16 {name}: best_density / optimal", whole["best_density"], 0.97),
            at_least(f"16 {name}: the same at its worst capacity", worst, 0.97),
            at_most(f"16 {name}: operator_centric / optimal", whole["operator_centric"], 0.7),
        ]
    report.tables.append(table)
