"""Generated topologies that are too large for a test machine."""

from __future__ import annotations

import time
from dataclasses import asdict, dataclass
from typing import Any

from rich.table import Table

from benchmarks.runner import Report, Session, at_least, at_most
from benchmarks.simulation.cases import generated
from domain.simulation.comparison import scenario_for
from domain.simulation.world import simulate

HORIZON = 480.0
# One planning step of a coordinator at this size, and a whole simulated recovery; seconds of CPU.
PLANNING_LIMIT = 5.0
SIMULATION_LIMIT = 60.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Size:
    """`queries` per topology, of `size` partitions each; `nodes`, of which `dead` die."""

    topologies: int
    queries: int
    size: int
    nodes: int
    dead: int
    load: float = 0.6


SMALL = (Size(topologies=1, queries=100, size=34, nodes=100, dead=80),)
LARGE = (
    *SMALL,
    Size(topologies=10, queries=100, size=34, nodes=1_000, dead=200),
    Size(topologies=10, queries=100, size=34, nodes=1_000, dead=800),
    Size(topologies=1, queries=1_000, size=34, nodes=1_000, dead=800),
)
ALGORITHMS = ("best_density", "operator_centric", "blocking")


def measure(session: Session, report: Report) -> None:
    """Each size with each algorithm, once: what is recovered when, and how long planning took."""
    sizes = SMALL if session.quick else LARGE
    report.parameters["scale"] = {"sizes": [asdict(size) for size in sizes], "horizon": HORIZON}
    rows: list[dict[str, Any]] = []
    with session.progress("Scale", len(sizes) * len(ALGORITHMS)) as advance:
        for size in sizes:
            scenario = generated(**asdict(size))
            partitions = sum(len(one.topology.partitions) for one in scenario.topologies)
            for algorithm in ALGORITHMS:
                started = time.process_time()
                outcome = simulate(scenario_for(scenario, algorithm))
                took = time.process_time() - started
                rows.append(
                    {
                        **asdict(size),
                        "partitions": partitions,
                        "failed_queries": len(outcome.failed),
                        "algorithm": algorithm,
                        "ended": outcome.ended,
                        "waves": len(outcome.waves),
                        "first": outcome.milestones.first,
                        "half": outcome.milestones.half,
                        "all": outcome.milestones.all,
                        "area": round(outcome.area(HORIZON), 5),
                        "highest_load": round(max(wave.highest for wave in outcome.waves), 6),
                        "seconds": round(took, 2),
                        "planning_seconds": round(outcome.planning_seconds, 2),
                        "longest_planning": round(max(w.planning_seconds for w in outcome.waves), 3),
                        "curve": [(round(one.at, 1), round(one.weighted, 5)) for one in outcome.curve],
                    }
                )
                advance()
    for row in rows[: -len(ALGORITHMS)]:
        del row["curve"]  # the plot shows the largest size only
    report.results["scale"] = rows
    report.criteria += _criteria(rows)
    report.tables.append(_table(rows))


def _criteria(rows: list[dict[str, Any]]) -> list[Any]:
    by_size: dict[str, dict[str, dict[str, Any]]] = {}
    for row in rows:
        name = f"{row['nodes']} nodes, {row['dead']} lost, {row['partitions']} partitions"
        by_size.setdefault(f"{name}, {row['topologies']} topologies", {})[row["algorithm"]] = row
    criteria = [at_most("highest planned load, of the bound", max(r["highest_load"] for r in rows), 1.000001)]
    for name, found in by_size.items():
        ours, theirs = found["best_density"], found["blocking"]
        criteria += [
            at_least(f"{name}: area, best_density - blocking", ours["area"] - theirs["area"], 0.0),
            at_most(f"{name}: longest planning step (CPU s)", ours["longest_planning"], PLANNING_LIMIT),
            at_most(f"{name}: CPU seconds of the simulation", ours["seconds"], SIMULATION_LIMIT),
        ]
    return criteria


def _table(rows: list[dict[str, Any]]) -> Table:
    table = Table(
        title="Generated topologies (times simulated; planning and total in CPU seconds)",
        title_justify="left",
    )
    sizes = ("nodes", "dead", "topologies", "partitions", "failed_queries")
    columns: tuple[str, ...] = (
        "nodes",
        "lost",
        "topo-\nlogies",
        "parti-\ntions",
        "failed\nqueries",
        "algorithm",
    )
    columns += ("waves", "first", "half", "all", "area", "longest\nplan", "total")
    for column in columns:
        table.add_column(column, justify="left" if column == "algorithm" else "right", no_wrap=True)
    for row in rows:
        table.add_row(
            *(f"{row[name]:,}" for name in sizes),
            row["algorithm"],
            str(row["waves"]),
            *(
                "never" if row[moment] is None else f"{row[moment]:.0f} s"
                for moment in ("first", "half", "all")
            ),
            f"{row['area']:.3f}",
            f"{row['longest_planning']:.2f} s",
            f"{row['seconds']:.1f} s",
        )
    return table
