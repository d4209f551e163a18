"""Replicas and tentative output of a stack: turned on, and what became of them over a time."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from rich.table import Table

from benchmarks.runner import Report, at_least, at_most
from benchmarks.stack import TOPOLOGY, BenchmarkStack

PATIENCE = 300.0


@dataclass(frozen=True, slots=True)
class Seen:
    """The number of the newest event, and the periods of tentative output, by when they began."""

    sequence: int
    periods: frozenset[tuple[str, str]]


def copies_begin(stack: BenchmarkStack, budget: int) -> None:
    """Have `budget` replicas run, as far as there is room, and queries go on tentatively."""
    stack.policy_set(
        replication_mode="on", replication_budget=budget, tentative_output="on", tentative_fidelity=0.0
    )
    stack.expect(lambda: _caught_up(stack), "replicas that have caught up", timeout=PATIENCE)


def copies_seen(stack: BenchmarkStack) -> Seen:
    """Before a schedule: replicas that are wanted have caught up."""
    stack.expect(lambda: _caught_up(stack), "replicas that have caught up", timeout=PATIENCE)
    periods = frozenset((row["query"], row["began_at"]) for row in periods_of(stack))
    return Seen(stack.last_sequence(), periods)


def copies_since(stack: BenchmarkStack, seen: Seen) -> dict[str, Any]:
    """What happened since: how often replicas took over, and periods of tentative output with what became of
    their rows. Waits until all are compared with the final rows."""

    def new() -> list[dict[str, Any]]:
        return [row for row in periods_of(stack) if (row["query"], row["began_at"]) not in seen.periods]

    stack.expect(lambda: all(row["corrected_at"] for row in new()), "corrections", timeout=PATIENCE)
    periods = new()
    kinds = ("stayed", "changed", "appeared", "vanished")
    return {
        "takeovers": len(stack.events(after=seen.sequence, kinds=("topology.taken_over",))),
        "periods": len(periods),
        "compared": {kind: sum(row[kind] for row in periods) for kind in kinds},
        "not_compared": sorted({row["problem"] for row in periods if row["problem"]}),
    }


def copies_report(report: Report) -> None:
    """Add what became of replicas and tentative output to the report of schedules."""
    rows = [row for row in report.results["schedules"] if "periods" in row]
    compared = sum(sum(row["compared"].values()) for row in rows)
    report.criteria += [
        at_least("takeovers", sum(row["takeovers"] for row in rows), 1),
        at_least("periods of tentative output", sum(row["periods"] for row in rows), 1),
        at_least("tentative and final rows compared", compared, 1),
        at_most(
            "schedules with rows that could not be compared", sum(bool(r["not_compared"]) for r in rows), 0
        ),
    ]
    table = Table(title="Replicas and tentative output", title_justify="left")
    names = ("takeovers", "periods", "rows stayed", "changed", "appeared", "vanished", "not compared")
    for column in ("seed", *names):
        table.add_column(column, justify="left" if column == "seed" else "right")
    for row in rows:
        counts = map(str, row["compared"].values())
        problems = "; ".join(row["not_compared"])
        table.add_row(row["seed"], str(row["takeovers"]), str(row["periods"]), *counts, problems)
    report.tables.append(table)


def _caught_up(stack: BenchmarkStack) -> bool:
    rows = stack.rest.get(f"topologies/{TOPOLOGY}/replicas/")["replicas"]
    wanted = [row for row in rows if row["wanted"]]
    return bool(wanted) and all(row["caught_up"] for row in wanted)


def periods_of(stack: BenchmarkStack) -> list[dict[str, Any]]:
    """Those of tentative output that there were, also of queries that still are tentative."""
    found: list[dict[str, Any]] = stack.rest.listing(f"topologies/{TOPOLOGY}/tentative/")
    return found
