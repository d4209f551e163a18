"""How much sooner tentative output is there than the full recovery, where replacements arrive as the papers
say: 2 to 6 minutes after they were asked for, each at its own time.

Five nodes run the fifteen queries with replicas of a quarter of the partitions. In the moment of the failure
survivors have no room, so what fails waits for replacements. Three nodes get SIGKILL: those without which
most queries keep their last partition, but lack others. Measured is when the first file with tentative rows
of each of these was in its place, and when the last query was available again. A query of which no window
closed while it was tentative has no row and is not counted; when the driver told of its first tentative epoch
is shown beside. In the end all rows must be exact, and tentative rows compared with the final ones.
ARRIVALS=<low>:<high> in seconds changes the arrivals; `--quick`: 20 to 60 s.
"""

from __future__ import annotations

import itertools
import os
import statistics
import sys
from collections.abc import Collection, Mapping
from typing import Any

from rich.table import Table

from benchmarks.copies import Seen, copies_begin, copies_seen, copies_since, periods_of
from benchmarks.runner import Report, Session, at_least, at_most, run
from benchmarks.stack import (
    TOPOLOGY,
    BenchmarkStack,
    StackError,
    input_file,
    pipeline_spec,
    running_stack,
    seconds_of,
    stopping_in_order,
)
from domain.topology import Topology, load_topology, split_partition
from spark_jobs.operators.catalogue import catalogue
from spark_jobs.sinks.tentative import tentative_path

NODES, KILLED, RATE, SHARE = 5, 3, 1000, 0.25
MAX_UTILISATION = 0.8
ARRIVALS, QUICK_ARRIVALS = (120.0, 360.0), (20.0, 60.0)
WISHED = 10.0
"""How many times sooner tentative output is to be there."""
PATIENCE = 900.0


def measure(session: Session) -> Report:
    low, high = QUICK_ARRIVALS if session.quick else ARRIVALS
    if os.environ.get("ARRIVALS"):
        low, high = map(float, os.environ["ARRIVALS"].split(":"))
    variables = {
        "RESURGE_REPLACEMENT_DELAY": f"uniform:{low:g}:{high:g}",
        "RESURGE_CHECKPOINT_INTERVAL": "10",
        "RESURGE_MAX_UTILISATION": f"{MAX_UTILISATION:g}",
        # Capacities limit planning only.
        "RESURGE_CPU_CAPS": "0",
    }
    spec = pipeline_spec(rate=RATE, epoch_interval=1.0)
    topology = load_topology(spec, catalogue)
    budget = round(SHARE * len(topology.partitions))
    with (
        stopping_in_order(),
        session.progress("steps", 4) as step,
        running_stack(nodes=NODES, variables=variables) as stack,
    ):
        stack.deploy_spec(spec, input=input_file())
        stack.healthy()
        copies_begin(stack, budget)
        step()
        seen = copies_seen(stack)
        step()
        found = _failure(stack, topology, seen)
        step()
        found["copies"] = copies_since(stack, seen)
        verdict = stack.verify()
        found |= {"rows": verdict.rows, "clean": verdict.clean, "faults": verdict.faults}
        step()
    report = Report(
        parameters={
            "nodes": NODES, "killed": KILLED, "rate": RATE, "replicas": budget, "arrivals": [low, high],
        },
        results=found,
    )  # fmt: skip
    _conclude(report)
    return report


def _failure(stack: BenchmarkStack, topology: Topology, seen: Seen) -> dict[str, Any]:
    """Kill nodes and wait until all queries are available: seconds from the kill."""
    homes, shadows = stack.homes(), _shadows(stack)
    victims = chosen(topology, homes, shadows)
    incidents = len(stack.incidents())
    # Plans find no room on survivors from now on. Replacements have as much as those that they replace.
    stack.nodes_update(homes.keys() - set(victims), capacity=1)
    killed = stack.kill_nodes(*victims)
    stack.expect(lambda: len(stack.incidents()) > incidents, "an incident", timeout=60)
    stack.healthy(timeout=PATIENCE)
    incident = stack.incidents()[-1]
    if len(stack.incidents()) != incidents + 1 or not incident["all_queries_at"]:
        raise StackError(f"one incident with all queries was expected: {stack.incidents()[incidents:]}")
    told: dict[str, float] = {}
    for row in periods_of(stack):
        if (row["query"], row["began_at"]) not in seen.periods:
            since = round(seconds_of(row["began_at"]) - killed, 2)
            told[row["query"]] = min(since, told.get(row["query"], since))
    joined = [row["joined_at"] for row in stack.node_requests(incident["number"]) if row["joined_at"]]
    return {
        "victims": victims,
        "partitions": sum(len(homes[node]) for node in victims),
        "tentative": dict(sorted(told.items())),
        "first_rows": {
            query: round(found - killed, 2)
            for query in topology.queries
            if (found := _first_rows(stack, query, killed)) is not None
        },
        "joined": sorted(round(seconds_of(one) - killed, 1) for one in joined),
        "all_queries": round(seconds_of(incident["all_queries_at"]) - killed, 2),
        "plans": len(stack.plans(incident["number"])),
    }


def _first_rows(stack: BenchmarkStack, query: str, killed: float) -> float | None:
    """When the first file with tentative rows of a query that was written after the kill was in its place."""
    operator, index = split_partition(query)
    deployed = stack.plan(TOPOLOGY)["deployed"]
    path = tentative_path(stack.home / "outputs", TOPOLOGY, deployed, operator, index)
    written = [file.stat().st_mtime for file in path.glob("epoch=*/*.parquet")]
    return min((at for at in written if at > killed), default=None)


def _shadows(stack: BenchmarkStack) -> dict[str, str]:
    """Partition -> the node of its replica."""
    rows = stack.rest.get(f"topologies/{TOPOLOGY}/replicas/")["replicas"]
    return {row["partition"]: row["node"] for row in rows if row["caught_up"]}


def chosen(topology: Topology, homes: Mapping[str, Collection[str]], shadows: Mapping[str, str]) -> list[str]:
    """The nodes without which most queries keep their last partition, but lack some before it."""

    def partly(victims: tuple[str, ...]) -> int:
        lost = {p for node in victims for p in homes[node] if shadows.get(p, node) in victims}
        return sum(
            not lost.isdisjoint(topology.upstream(query)) and query not in lost for query in topology.queries
        )

    possible: list[tuple[str, ...]] = [*itertools.combinations(sorted(homes), KILLED)]
    best = max(possible, key=partly)
    return [*best]


def _conclude(report: Report) -> None:
    found = report.results
    first, told, full = found["first_rows"], found["tentative"], found["all_queries"]
    latest = max(first.values(), default=float("inf"))
    report.criteria += [
        at_least("nodes killed", len(found["victims"]), KILLED),
        at_least("nodes that arrived", len(found["joined"]), 1),
        at_least("queries with tentative rows", len(first), 1),
        at_most("of these, queries of which the driver told no tentative epoch", len(first.keys() - told), 0),
        at_least("full recovery / first tentative rows, least", full / latest, WISHED),
        at_least("tentative and final rows compared", sum(found["copies"]["compared"].values()), 1),
        at_most("periods that could not be compared", len(found["copies"]["not_compared"]), 0),
        at_least("verified clean", float(found["clean"]), 1.0),
        at_least("rows compared", found["rows"], 1),
    ]
    table = Table(title=f"Seconds from SIGKILL of {KILLED} of {NODES} nodes", title_justify="left")
    names = ("queries", "median", "latest", "nodes arrived", "all available")
    for column in ("", *names):
        table.add_column(column, justify="right" if column else "left")
    arrived = ", ".join(f"{one:.0f}" for one in found["joined"])
    for label, times in (("told by the driver", told), ("first rows written", first)):
        median = f"{statistics.median(times.values()):.1f}" if times else "-"
        last = f"{max(times.values()):.1f}" if times else "-"
        table.add_row(label, str(len(times)), median, last, arrived, f"{full:.1f}")
    report.tables.append(table)


if __name__ == "__main__":
    sys.exit(run(name="tentative", about=__doc__, measure=measure))
