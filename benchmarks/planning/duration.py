"""How long planning takes, and how good the bounded search for many queries is."""

from __future__ import annotations

import random
import statistics
import time
from dataclasses import replace
from typing import Any

from rich.table import Table

from benchmarks.planning.cases import BASE, failed_topology
from benchmarks.runner import Criterion, Report, Session, at_least
from domain.planning import BestDensity, NodeSpace, Optimal, Planner, ProfitDensity, recovery_problem
from domain.simulation.generator import TopologyRecipe, generate_topology

# Ten partitions per query: 1,000 queries over 10,000 partitions.
TIMED = TopologyRecipe(size=34, max_sharing=6)
TIMED_QUERIES = (10, 20, 50, 100, 200, 500, 1_000, 2_000)
OPTIMUM_QUERIES = 200
TIMED_FRACTION = 0.4
# At this size all pairs can be run, so the bounded search can be compared with them.
COMPARED_QUERIES = 100
COMPARED = [(sharing, fraction) for sharing in (3, 6, 20) for fraction in (0.2, 0.4, 0.6)]


def planning_time(session: Session, report: Report) -> None:
    """CPU seconds of one core, so that other work on the machine does not count."""
    rows: list[dict[str, Any]] = []
    repeats = 1 if session.quick else 5
    planners: tuple[Planner, ...] = (ProfitDensity(), BestDensity(), Optimal(time_limit=20.0))
    with session.progress("Planning time", len(TIMED_QUERIES)) as advance:
        for queries in TIMED_QUERIES:
            problem = failed_topology(replace(TIMED, queries=queries), 0, TIMED_FRACTION)
            row: dict[str, Any] = {"queries": queries, "partitions": len(problem.partitions)}
            for planner in planners:
                if planner.name == "optimal" and queries > OPTIMUM_QUERIES:
                    continue
                times = []
                for _ in range(1 if planner.name == "optimal" else repeats):
                    fresh = replace(problem)
                    started = time.process_time()
                    proposal = planner.plan(fresh)
                    times.append(time.process_time() - started)
                row[planner.name] = {
                    "seconds": round(statistics.median(times), 4),
                    "value": proposal.value,
                    "of": proposal.total,
                    "candidates": proposal.candidates,
                    "gap": proposal.gap,
                }
            rows.append(row)
            advance()
    report.results["planning_time"] = rows
    table = Table(title="Planning time (CPU seconds, explanation included)", title_justify="left")
    for column in (
        "queries",
        "partitions",
        "profit_density",
        "best_density",
        "candidates",
        "optimal",
        "value / bound",
    ):
        table.add_column(column, justify="right")
    for row in rows:
        best = row["best_density"]
        exact = row.get("optimal")
        table.add_row(
            f"{row['queries']:,}",
            f"{row['partitions']:,}",
            f"{row['profit_density']['seconds']:.3f}",
            f"{best['seconds']:.3f}",
            f"{best['candidates']:,}",
            f"{exact['seconds']:.2f}" if exact else "",
            f"{best['value'] * (1 - (exact['gap'] or 0)) / exact['value']:.3f}" if exact else "",
        )
        if row["queries"] == 1_000:
            enough = row["partitions"] >= 10_000
            seconds = best["seconds"]
            report.criteria.append(
                Criterion(
                    f"best_density, 1,000 queries over {row['partitions']:,} partitions, CPU seconds",
                    seconds,
                    "< 1",
                    enough and seconds < 1.0,
                )
            )
    report.tables.append(table)
    _placing_time(repeats, report)


def _placing_time(repeats: int, report: Report) -> None:
    """The same size where each partition has to fit on one of a thousand nodes that are partly full."""
    made = generate_topology(replace(TIMED, queries=1_000, costs=(1.0, 20.0)), 0)
    rng = random.Random(0)
    nodes = [NodeSpace(name=f"n{i}", load=round(rng.uniform(0.0, 90.0), 2)) for i in range(1_000)]
    problem = recovery_problem(made.topology, failed=made.topology.partitions, costs=made.costs, nodes=nodes)
    times, placed = [], 0.0
    for _ in range(repeats):
        fresh = replace(problem)
        started = time.process_time()
        placed = BestDensity().plan(fresh).value
        times.append(time.process_time() - started)
    seconds = statistics.median(times)
    report.results["placing_time"] = {"nodes": len(nodes), "seconds": round(seconds, 4), "value": placed}
    name = f"best_density, 1,000 queries placed on {len(nodes):,} nodes, CPU seconds"
    report.criteria.append(Criterion(name, seconds, "< 1", placed > 0 and seconds < 1.0))


def bounded_search(session: Session, report: Report) -> None:
    """Compare the bounded search with Algorithm 3 at sizes at which Algorithm 3 can be run in full."""
    topologies = 2 if session.quick else 20
    rows: list[dict[str, Any]] = []
    with session.progress("Bounded search", len(COMPARED) * topologies) as advance:
        for sharing, fraction in COMPARED:
            recipe = replace(BASE, queries=COMPARED_QUERIES, max_sharing=sharing)
            ratios = []
            for seed in range(topologies):
                problem = failed_topology(recipe, seed, fraction)
                full = BestDensity(exact_work=10**15).plan(problem).value
                ratios.append(BestDensity(exact_work=0).plan(problem).value / full)
                advance()
            rows.append({"max_sharing": sharing, "fraction": fraction, "ratios": ratios})
    report.results["bounded_search"] = {"queries": COMPARED_QUERIES, "rows": rows}
    every = [ratio for row in rows for ratio in row["ratios"]]
    report.criteria += [
        at_least("bounded search / all pairs, 100 queries, mean", statistics.mean(every), 1.0),
        at_least("bounded search / all pairs, 100 queries, worst", min(every), 0.97),
    ]
    table = Table(title="Bounded search relative to Algorithm 3, 100 queries", title_justify="left")
    for column in ("shared by up to", "capacity", "mean", "worst", "best"):
        table.add_column(column, justify="right")
    for row in rows:
        found = row["ratios"]
        table.add_row(
            str(row["max_sharing"]),
            f"{100 * row['fraction']:.0f} %",
            *(f"{100 * value:.2f} %" for value in (statistics.mean(found), min(found), max(found))),
        )
    report.tables.append(table)
