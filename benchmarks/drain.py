"""Nodes are drained while queries run: is any of them late, or without output?

Four pipelines that share nothing run on four nodes with room to spare, in one topology. A node that has
partitions is drained: they are brought up elsewhere, catch up, and take over. Then it is activated again, and
the next one is drained. Reported are the latencies of the queries that need nothing of the node, and of the
others, before and while it is drained, and the longest time in which a query advanced by no epoch. The run
fails if a drain moved nothing, a query was unavailable, or rows differ.
RATE=<tuples/s> is that of each pipeline. `--drains 2` is a smaller run.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from rich.table import Table

from benchmarks.recovery.course import percentile
from benchmarks.runner import Report, Session, at_least, at_most, run
from benchmarks.slow_node import latencies, specification
from benchmarks.stack import (
    BenchmarkStack,
    input_file,
    running_stack,
    seconds_of,
    stopping_in_order,
)
from domain.topology import Topology, load_topology
from spark_jobs.operators.catalogue import catalogue

NODES = 4
CAPACITY = int(os.environ.get("CAPACITY", "100"))
DRAINS, QUICK = 6, 2
WARM_UP, BEFORE, AFTER = 60.0, 20.0, 5.0
"""Seconds. A drain is looked at until its incident has ended, and `AFTER` on."""
PATIENCE = 180.0
UNTOUCHED, GAP = 1.2, 3.0
"""Times the p99 before that of the queries that need nothing of the node may be; seconds without a new
epoch, of any query."""


@dataclass(slots=True)
class Drained:
    """One drain: the queries that need the node, and Unix seconds."""

    node: str
    needing: set[str]
    asked: float
    ended: float
    moved: int


def node_to_drain(topology: Topology, homes: Mapping[str, Sequence[str]], last: str) -> tuple[str, set[str]]:
    """One that some queries need and others do not, another one than the last time if there is one."""
    needing = {node: set(topology.failed_queries(hosted)) for node, hosted in homes.items()}
    some = {node: queries for node, queries in needing.items() if 0 < len(queries) < len(topology.queries)}
    if not some:
        raise ValueError(f"every query needs every node, or none: {needing}")
    node = max(sorted(some), key=lambda one: (one != last, len(some[one])))
    return node, some[node]


def drain_once(stack: BenchmarkStack, topology: Topology, last: str) -> Drained:
    stack.healthy(timeout=PATIENCE)
    time.sleep(BEFORE)
    stack.healthy(timeout=PATIENCE)
    homes = stack.homes()
    node, needing = node_to_drain(topology, homes, last)
    before = len(stack.incidents())
    asked = time.time()
    stack.rest.post(f"nodes/{node}/drain/", {"reason": "benchmark"})
    stack.expect(lambda: len(stack.incidents()) > before, "an incident", timeout=PATIENCE)
    stack.expect(stack.is_healthy, "the end of the moves", timeout=PATIENCE)
    ended = time.time()
    left = set(stack.homes().get(node, ()))
    time.sleep(AFTER)
    stack.rest.post(f"nodes/{node}/activate/", {"reason": "benchmark"})
    return Drained(node, needing, asked, ended, len(set(homes[node]) - left))


def gaps(
    events: Sequence[Mapping[str, Any]], queries: Collection[str], first: float, last: float
) -> dict[str, float]:
    """The longest time between two advances of each query, in seconds, between two moments."""
    advanced: dict[str, list[float]] = {query: [first] for query in queries}
    epochs: dict[str, int] = {}
    for event in events:
        at = seconds_of(event["at"])
        for change in event["changes"]:
            query = change["key"].rpartition("/")[2]
            epoch = (change["fields"] or {}).get("epoch") if change["entity"] == "query" else None
            if query not in advanced or epoch is None or epoch <= epochs.get(query, -1):
                continue
            epochs[query] = epoch
            if first <= at < last:
                advanced[query].append(at)
    return {
        query: max(after - before for before, after in pairwise([*moments, last]))
        for query, moments in advanced.items()
    }


def unavailable(events: Sequence[Mapping[str, Any]], first: float, last: float) -> set[str]:
    """The queries that were told to be unavailable between two moments."""
    return {
        change["key"].rpartition("/")[2]
        for event in events
        if first <= seconds_of(event["at"]) < last
        for change in event["changes"]
        if change["entity"] == "query" and (change["fields"] or {}).get("available") is False
    }


def measure(session: Session) -> Report:
    spec = specification()
    topology = load_topology(spec, catalogue)
    count = session.options.drains or (QUICK if session.quick else DRAINS)
    drains: list[Drained] = []
    with (
        stopping_in_order(),
        running_stack(
            nodes=NODES, capacity=CAPACITY, variables={"RESURGE_CHECKPOINT_INTERVAL": "10"}
        ) as stack,
    ):
        stack.deploy_spec(spec, input=input_file())
        stack.healthy()
        time.sleep(WARM_UP)
        with session.progress("drains", count) as step:
            for _ in range(count):
                drains.append(drain_once(stack, topology, drains[-1].node if drains else ""))
                step()
        events = stack.events()
        verdict = stack.verify()
    return report_of(topology, drains, events, verdict.rows if verdict.clean else 0)


def report_of(
    topology: Topology, drains: Sequence[Drained], events: Sequence[Mapping[str, Any]], exact_rows: int
) -> Report:
    every = set(topology.queries)
    found: dict[str, dict[str, list[float]]] = {
        label: {"before": [], "while drained": []} for label in ("need nothing of it", "need it")
    }
    longest, gone = 0.0, set[str]()
    for one in drains:
        until = one.ended + AFTER
        for label, queries in (("need nothing of it", every - one.needing), ("need it", one.needing)):
            found[label]["before"] += latencies(events, queries, one.asked - BEFORE, one.asked)
            found[label]["while drained"] += latencies(events, queries, one.asked, until)
        longest = max(longest, *gaps(events, every, one.asked, until).values())
        gone |= unavailable(events, one.asked, until)
    p99 = {
        label: {moment: percentile(values, 99) if values else None for moment, values in moments.items()}
        for label, moments in found.items()
    }
    before, during = p99["need nothing of it"]["before"], p99["need nothing of it"]["while drained"]
    # Without a single report there is nothing to compare, which must not count as good.
    ratio = during / before if before and during is not None else float("inf")
    report = Report(
        parameters={"nodes": NODES, "capacity_percent": CAPACITY, "drains": len(drains)},
        results={
            "p99": p99,
            "ratio": ratio,
            "reports": {label: {m: len(v) for m, v in moments.items()} for label, moments in found.items()},
            "longest_gap": longest,
            "unavailable": sorted(gone),
            "moved": [one.moved for one in drains],
            "seconds": [round(one.ended - one.asked, 1) for one in drains],
            "exact_rows": exact_rows,
        },
    )
    report.criteria += [
        at_least("partitions that each drain moved", min((one.moved for one in drains), default=0), 1),
        at_most(
            "p99 of queries that need nothing of the node, while it is drained / before", ratio, UNTOUCHED
        ),
        at_most("longest time without a new epoch, s", longest, GAP),
        at_most("queries that were unavailable", len(gone), 0),
        at_least("rows, all exact", exact_rows, 1),
    ]
    report.tables.append(_table(p99))
    return report


def _table(p99: Mapping[str, Mapping[str, float | None]]) -> Table:
    table = Table(title="p99 of latency, s", title_justify="left")
    table.add_column("queries that")
    for moment in next(iter(p99.values())):
        table.add_column(moment, justify="right")
    for label, row in p99.items():
        table.add_row(label, *("-" if value is None else f"{value:.2f}" for value in row.values()))
    return table


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--drains", type=int, default=0, metavar="N", help=f"default {DRAINS}")


if __name__ == "__main__":
    sys.exit(run(name="drain", about=__doc__, measure=measure, arguments=arguments))
