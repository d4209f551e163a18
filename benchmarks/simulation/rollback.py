"""How the rollback policies affect queries that lost nothing: `ancestors`, and `global` as in the papers."""

from __future__ import annotations

import statistics
from dataclasses import replace
from typing import Any

from rich.table import Table

from benchmarks.runner import Report, Session, at_least, at_most
from benchmarks.simulation.cases import generated
from domain.simulation.outcome import Outcome
from domain.simulation.scenario import Rollback
from domain.simulation.world import simulate

HORIZON = 480.0
NODES, QUERIES, SIZE, LOAD = 20, 30, 8, 0.5
LOST = (2, 4, 8)
POLICIES: tuple[Rollback, ...] = ("ancestors", "global")


def measure(session: Session, report: Report) -> None:
    """Generated topologies of which some nodes die, under both policies; `best_density` plans."""
    seeds = 3 if session.quick else 25
    report.parameters["rollback"] = {
        "nodes": NODES, "queries": QUERIES, "size": SIZE, "load": LOAD, "lost": LOST, "seeds": seeds,
        "horizon": HORIZON,
    }  # fmt: skip
    rows: list[dict[str, Any]] = []
    with session.progress("Rollback", len(LOST) * seeds) as advance:
        for lost in LOST:
            found: dict[Rollback, list[Outcome]] = {policy: [] for policy in POLICIES}
            for seed in range(seeds):
                scenario = generated(
                    topologies=1, queries=QUERIES, size=SIZE, nodes=NODES, dead=lost, load=LOAD, seed=seed,
                    max_sharing=3,
                )  # fmt: skip
                for policy in POLICIES:
                    found[policy].append(simulate(replace(scenario, rollback=policy)))
                advance()
            rows += [{"lost": lost, "rollback": policy, **_summary(found[policy])} for policy in POLICIES]
    report.results["rollback"] = rows
    for lost in LOST:
        ancestors, everything = (
            next(row for row in rows if row["lost"] == lost and row["rollback"] == policy)
            for policy in POLICIES
        )
        report.criteria += [
            at_most(
                f"{lost} nodes lost, ancestors: highest relative latency of untouched queries",
                ancestors["untouched_peak"],
                1.2,
            ),
            at_least(
                f"{lost} nodes lost: area, ancestors / global", ancestors["area"] / everything["area"], 1.0
            ),
        ]
    report.tables.append(_table(rows))


def _summary(outcomes: list[Outcome]) -> dict[str, Any]:
    untouched = [query for outcome in outcomes for query in outcome.queries if not query.failed]
    down = [sum(end - begin for begin, end in query.gaps) for query in untouched]
    return {
        "untouched": round(len(untouched) / len(outcomes), 2),
        "untouched_down": round(statistics.mean(down), 2) if down else 0.0,
        "untouched_peak": round(max(p.others for outcome in outcomes for p in outcome.latency), 3),
        "first": round(statistics.median(outcome.milestones.first or 0.0 for outcome in outcomes), 1),
        "all": round(statistics.median(outcome.milestones.all or 0.0 for outcome in outcomes), 1),
        "area": round(statistics.mean(outcome.area(HORIZON) for outcome in outcomes), 5),
    }


def _table(rows: list[dict[str, Any]]) -> Table:
    table = Table(title="Rollback: queries that lost no partition", title_justify="left")
    for column in ("lost", "rollback", "untouched", "unavailable", "peak latency", "first", "all", "area"):
        table.add_column(column, justify="left" if column == "rollback" else "right", no_wrap=True)
    for row in rows:
        table.add_row(
            f"{row['lost']} of {NODES}",
            row["rollback"],
            f"{row['untouched']:.1f} of {QUERIES}",
            f"{row['untouched_down']:.1f} s",
            f"{row['untouched_peak']:.2f}x",
            f"{row['first']:.0f} s",
            f"{row['all']:.0f} s",
            f"{row['area']:.3f}",
        )
    return table
