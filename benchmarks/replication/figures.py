"""The counterparts of Figures 13 and 14 of the paper on PPA: output fidelity by planner and budget.

Fidelity is the paper's, without priorities. The text of the paper lost some numbers of its settings: here
there are 5 to 10 operators, and budgets are 10 to 70 % of the partitions.
"""

from __future__ import annotations

import statistics
from typing import Any

from rich.table import Table

from benchmarks.replication.cases import Recipe, models
from benchmarks.replication.quality import fidelity_by
from benchmarks.runner import Report, Session, at_least
from domain.replication import FidelityModel, replication_planner_named
from domain.topology import InputSpec, OperatorSpec, Partitioning, Topology, TopologySpec, partition_id

RATIOS = (0.1, 0.3, 0.5, 0.7)
BASE: dict[str, Any] = {
    "operators": (5, 10),
    "width": (2, 8),
    "partitions": (10, 80),
    "sinks": False,
    "priorities": False,
    "skew": "zipf",
}
SETTINGS: dict[str, Recipe] = {
    "a, uniform": Recipe(structure="general", **{**BASE, "skew": "even"}),
    "a, Zipf": Recipe(structure="general", **BASE),
    "b, 2 to 5 tasks": Recipe(structure="general", **{**BASE, "width": (2, 5)}),
    "b, 5 to 10 tasks": Recipe(structure="general", **{**BASE, "width": (5, 10)}),
    "c, structured": Recipe(structure="structured", **BASE),
    "c, full": Recipe(structure="full", **BASE),
    "d, no joins": Recipe(structure="general", joins=0.0, **BASE),
    "d, half joins": Recipe(structure="general", joins=0.5, **BASE),
}
DRAWN = ("structure_aware", "published", "greedy")
SHARPEST = 0.1
"""Rates within an operator fall from partition to partition by this share in the queries of the paper."""


def random_topologies(session: Session, report: Report) -> None:
    """Figure 14: means over random topologies."""
    count = 10 if session.quick else 100
    report.parameters["figure_14"] = {"topologies": count, "ratios": RATIOS}
    planners = {name: replication_planner_named(name) for name in DRAWN}
    found: dict[str, dict[str, list[float]]] = {}
    refused = below = 0
    for setting, recipe in SETTINGS.items():
        values: dict[str, list[list[float]]] = {name: [[] for _ in RATIOS] for name in DRAWN}
        with session.progress(f"Figure 14 {setting}", count) as advance:
            for model in models(recipe, count):
                for at, ratio in enumerate(RATIOS):
                    budget = max(1, round(ratio * len(model.partitions)))
                    of_each = {name: fidelity_by(one, model, budget) for name, one in planners.items()}
                    if of_each["published"] is None:
                        refused += 1
                    for name, value in of_each.items():
                        if value is not None:
                            values[name][at].append(value)
                advance()
        found[setting] = {
            name: [round(statistics.mean(one), 4) if one else 0.0 for one in mine]
            for name, mine in values.items()
        }
        mine = found[setting]
        below += sum(
            ours < max(theirs, ranked)
            for ours, theirs, ranked in zip(
                mine["structure_aware"], mine["published"], mine["greedy"], strict=True
            )
        )
        report.tables.append(_table(f"Figure 14 {setting}: mean of {count}", RATIOS, mine))
    report.results["figure_14"] = {"ratios": RATIOS, "settings": found, "refused_by_published": refused}
    points = len(SETTINGS) * len(RATIOS)
    report.criteria.append(
        at_least("Figure 14: share of points at which structure_aware is the best", 1 - below / points, 1.0)
    )


def queries_of_the_paper(_: Session, report: Report) -> None:
    """Figure 13, fidelity only; the accuracy of the queries is that of `accuracy.py`."""
    names = ("optimal", "structure_aware", "published", "greedy")
    found: dict[str, dict[str, list[float]]] = {}
    for query, model in (("Q1", top_pages()), ("Q2", traffic_incidents())):
        mine: dict[str, list[float]] = {name: [] for name in names}
        for ratio in RATIOS:
            for name in names:
                budget = max(1, round(ratio * len(model.partitions)))
                mine[name].append(
                    round(fidelity_by(replication_planner_named(name), model, budget) or 0.0, 4)
                )
        found[query] = mine
        report.tables.append(_table(f"Figure 13 {query}", RATIOS, mine))
    report.results["figure_13"] = {"ratios": RATIOS, "queries": found}
    worst = min(
        ours / best
        for mine in found.values()
        for ours, best in zip(mine["structure_aware"], mine["optimal"], strict=True)
        if best > 0
    )
    report.criteria.append(at_least("Figure 13: structure_aware / optimal, worst", worst, 0.9))


def top_pages() -> FidelityModel:
    """Q1: counts by server, merged in two steps."""
    return _model(
        ("Clicks", 8, (), False),
        ("Slices", 8, (("Clicks", "one_to_one"),), False),
        ("Merges", 4, (("Slices", "merge"),), False),
        ("Top", 1, (("Merges", "full"),), False),
    )


def traffic_incidents() -> FidelityModel:
    """Q2: speeds by segment joined with incidents by segment."""
    return _model(
        ("Locations", 4, (), False),
        ("Reports", 2, (), False),
        ("Speeds", 4, (("Locations", "full"),), False),
        ("Incidents", 2, (("Reports", "full"),), False),
        ("Jams", 4, (("Speeds", "one_to_one"), ("Incidents", "split")), True),
        ("Summary", 1, (("Jams", "full"),), False),
    )


def _model(*operators: tuple[str, int, tuple[tuple[str, Partitioning], ...], bool]) -> FidelityModel:
    """The last one is the output."""
    specs = tuple(
        OperatorSpec(
            name=name,
            kind="any",
            parallelism=width,
            inputs=tuple(InputSpec(source=source, partitioning=how) for source, how in inputs),
            correlated=joins,
            output=name == operators[-1][0],
        )
        for name, width, inputs, joins in operators
    )
    topology = Topology(TopologySpec(name="paper", operators=specs))
    rates = {
        partition_id(one.name, index): 100.0 * (1 - SHARPEST) ** index
        for one in topology.operators
        for index in range(one.parallelism)
    }
    return FidelityModel(topology, rates, "plain")


def _table(title: str, ratios: tuple[float, ...], rows: dict[str, list[float]]) -> Table:
    table = Table(title=title, title_justify="left")
    table.add_column("planner")
    for ratio in ratios:
        table.add_column(f"{ratio:.0%}", justify="right")
    for name, values in rows.items():
        table.add_row(name, *(f"{value:.3f}" for value in values))
    return table
