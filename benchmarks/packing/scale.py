"""How long choosing and placing together takes: 1,000 queries, 10,000 partitions, 1,000 nodes."""

from __future__ import annotations

import random
import statistics
import time
from dataclasses import replace
from typing import Any

from rich.table import Table

from benchmarks.runner import Criterion, Report, Session
from domain.planning import BestDensity, NodeSpace, RecoveryProblem, recovery_problem
from domain.simulation.generator import TopologyRecipe, generate_topology

NODES = 1_000
RECIPE = TopologyRecipe(queries=1_000, size=34, max_sharing=6)
# Largest partition in percent of a node, and how busy nodes are.
CASES = (
    (20.0, (0.0, 90.0)),
    (20.0, (0.0, 60.0)),
    (20.0, (60.0, 79.0)),
    (60.0, (0.0, 90.0)),
    (60.0, (20.0, 79.0)),
)


def large_problem(largest: float, busy: tuple[float, float], seed: int = 0) -> RecoveryProblem:
    """Everything of a generated topology failed."""
    one = generate_topology(replace(RECIPE, costs=(1.0, largest)), seed)
    rng = random.Random(seed)
    nodes = [
        NodeSpace(name=f"node-{number}", load=round(rng.uniform(*busy), 2)) for number in range(1, NODES + 1)
    ]
    return recovery_problem(one.topology, failed=one.topology.partitions, costs=one.costs, nodes=nodes)


def planning_time(session: Session, report: Report) -> None:
    """CPU seconds of one core, explanation included."""
    repeats = 1 if session.quick else 3
    rows: list[dict[str, Any]] = []
    with session.progress("Planning time", len(CASES)) as advance:
        for largest, busy in CASES:
            problem = large_problem(largest, busy)
            in_sum = problem.value_of(BestDensity().select(replace(problem)).order)
            times = []
            for _ in range(repeats):
                fresh = replace(problem)
                started = time.process_time()
                proposal = BestDensity().plan(fresh)
                times.append(time.process_time() - started)
            rows.append(
                {
                    "largest": largest,
                    "busy": busy,
                    "partitions": len(problem.partitions),
                    "capacity_share": round(problem.capacity / int(problem.costs.sum()), 3),
                    "seconds": round(statistics.median(times), 3),
                    "value": proposal.value,
                    "in_sum": in_sum,
                }
            )
            advance()
    report.results["planning_time"] = rows
    table = Table(title="best_density, 1,000 queries on 1,000 nodes (CPU seconds)", title_justify="left")
    for column in ("partitions up to", "nodes busy", "room", "seconds", "placed", "chosen in sum"):
        table.add_column(column, justify="right")
    for row in rows:
        table.add_row(
            f"{row['largest']:.0f} %",
            f"{row['busy'][0]:.0f} to {row['busy'][1]:.0f} %",
            f"{row['capacity_share']:.0%}",
            f"{row['seconds']:.2f}",
            str(row["value"]),
            str(row["in_sum"]),
        )
    report.tables.append(table)
    slowest = max(row["seconds"] for row in rows)
    enough = all(row["partitions"] >= 10_000 for row in rows)
    report.criteria.append(Criterion("slowest plan, CPU seconds", slowest, "< 1", enough and slowest < 1.0))
