"""A node that is slow but not dead: its CPU quota is cut to a tenth while queries run that do not need it.

Four pipelines that share nothing run on four nodes in one topology. Reported are the latencies of the
queries that need nothing of the slow node, and of the others, before and while it is slow. Then the policy
`slow_nodes: automatic` drains it, and everything is to be as before. The run fails if the quota was not felt,
every query needed the node, it was not drained, or rows differ. RATE=<tuples/s> of each pipeline and
CAPACITY=<percent of a core per node> say how much there is to do.
"""

from __future__ import annotations

import copy
import os
import sys
import time
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

from rich.table import Table

from benchmarks.recovery.course import percentile
from benchmarks.runner import Report, Session, at_least, at_most, run
from benchmarks.stack import (
    TOPOLOGY,
    BenchmarkStack,
    input_file,
    pipeline_spec,
    running_stack,
    seconds_of,
    stopping_in_order,
)
from domain.topology import Topology, load_topology
from spark_jobs.operators.catalogue import catalogue
from workers.providers.cgroups import V1, V2, group_name

PIPELINES = NODES = 4
RATE = int(os.environ.get("RATE", "5000"))
CAPACITY = int(os.environ.get("CAPACITY", "40"))
A_TENTH = 0.1
PERIOD_US = 100_000
WARM_UP, BEFORE, SETTLE, DURING = 60.0, 40.0, 15.0, 60.0
"""Seconds. Latencies of the first `SETTLE` after the cut are reported apart, since several jobs must say that
the node is slow."""
PATIENCE = 300.0
MOST = 1.5
"""Times the p99 before that the p99 of queries that need nothing of the node may be."""


def specification() -> dict[str, Any]:
    """As many pipelines as there are nodes: a source, a parser and a query each."""
    spec = pipeline_spec(rate=RATE, epoch_interval=1.0, parallelism=1)
    by_name = {operator["name"]: operator for operator in spec["operators"]}
    operators: list[dict[str, Any]] = []
    for number in range(PIPELINES):
        renamed = {"Source": f"Source{number}", "Parser": f"Parser{number}", "O0": f"O{number}"}
        for name, new in renamed.items():
            operator = copy.deepcopy(by_name[name])
            operator["name"] = new
            for stream in operator.get("inputs", []):
                stream["from"] = renamed[stream["from"]]
            operators.append(operator)
    return {**spec, "operators": operators}


def quota_file(home: Path, node: str) -> Path:
    """Where the kernel keeps the CPU quota of a node. Raises `FileNotFoundError` without control groups."""
    for path in (V1 / group_name(home) / node / "cpu.cfs_quota_us", V2 / group_name(home) / node / "cpu.max"):
        if path.exists():
            return path
    raise FileNotFoundError(f"{node} has no CPU quota: the benchmark needs control groups that it may write")


def cut(path: Path) -> None:
    """Cut a quota to a tenth, of a longer period: the kernel takes no quota below a millisecond."""
    quota = int(PERIOD_US * CAPACITY / 100 * A_TENTH)
    if path.name == "cpu.max":
        path.write_text(f"{quota} {PERIOD_US}")
    else:
        (path.parent / "cpu.cfs_period_us").write_text(str(PERIOD_US))
        path.write_text(str(quota))


def victim_of(topology: Topology, homes: Mapping[str, Sequence[str]]) -> tuple[str, set[str]]:
    """The node that most queries need, but not all, and these."""
    needing = {node: set(topology.failed_queries(partitions)) for node, partitions in homes.items()}
    some = {node: queries for node, queries in needing.items() if 0 < len(queries) < PIPELINES}
    if not some:
        raise ValueError(f"every query needs every node, or none: {needing}")
    node = max(sorted(some), key=lambda one: len(some[one]))
    return node, some[node]


def latencies(
    events: Sequence[Mapping[str, Any]], queries: Collection[str], first: float, last: float
) -> list[float]:
    """Seconds, as reported between two moments."""
    return [
        change["fields"]["latency"]
        for event in events
        if first <= seconds_of(event["at"]) < last
        for change in event["changes"]
        if change["entity"] == "query"
        and change["key"].rpartition("/")[2] in queries
        and (change["fields"] or {}).get("latency") is not None
    ]


def measure(session: Session) -> Report:
    spec = specification()
    topology = load_topology(spec, catalogue)
    variables = {"RESURGE_CHECKPOINT_INTERVAL": "10", "RESURGE_CPU_CAPS": "1", "RESURGE_SLOW_AFTER": "5"}
    with (
        stopping_in_order(),
        running_stack(nodes=NODES, slots=1, capacity=CAPACITY, variables=variables) as stack,
    ):
        stack.deploy_spec(spec, input=input_file())
        stack.healthy()
        time.sleep(WARM_UP + BEFORE)
        stack.healthy()
        node, needing = victim_of(topology, stack.homes())
        free = set(topology.queries) - needing
        session.note(f"{node} gets a tenth of its quota; {len(needing)} of {PIPELINES} queries need it")
        began = time.time()
        cut(quota_file(stack.home, node))
        felt = _watch(stack, node, began + SETTLE + DURING)
        session.note("the policy may drain it now")
        asked = time.time()
        stack.policy_set(slow_nodes="automatic")
        stack.expect(stack.incidents, "an incident", timeout=PATIENCE)
        stack.expect(lambda: not _here(stack, node), "no partition planned on the node", timeout=PATIENCE)
        drained = time.time() - asked
        stack.expect(stack.is_healthy, "all queries as before", timeout=PATIENCE)
        well = time.time() - asked
        left = _here(stack, node)
        events = stack.events()
        verdict = stack.verify()
    p99: dict[str, dict[str, float | None]] = {}
    for label, queries in (("need nothing of it", free), ("need it", needing)):
        moments = {
            "before": (began - BEFORE, began),
            "at first": (began, began + SETTLE),
            "while slow": (began + SETTLE, began + SETTLE + DURING),
        }
        found = {name: latencies(events, queries, *times) for name, times in moments.items()}
        p99[label] = {name: percentile(values, 99) if values else None for name, values in found.items()}
    apart = p99["need nothing of it"]
    before, during = apart["before"], apart["while slow"]
    # Without a single report there is nothing to compare, which must not count as good.
    ratio = during / before if before and during is not None else float("inf")
    report = Report()
    report.parameters = {
        "nodes": NODES, "quota_percent": CAPACITY, "rate": RATE, "pipelines": PIPELINES,
        "share_left": A_TENTH, "settle": SETTLE, "during": DURING,
    }  # fmt: skip
    report.results = {
        "p99": p99,
        "ratio": ratio,
        "reported_slow_after": felt["slow"],
        "throttled": felt["throttled"],
        "nothing_planned_after": drained,
        "well_after": well,
        "verified_rows": verdict.rows,
        "faults": verdict.faults,
    }
    report.criteria += [
        at_least("share of periods in which the quota stopped it", felt["throttled"], 0.5),
        at_least("reported as slow", float(felt["slow"] is not None), 1.0),
        at_least("queries that need nothing of it", len(free), 1),
        at_most("partitions left on it at the end", left, 0),
        at_most("their p99 while it is slow / before", ratio, MOST),
        at_least("verified clean", float(verdict.clean), 1.0),
        at_least("rows compared", verdict.rows, 1),
    ]
    report.tables.append(_table(p99, node))
    return report


def _watch(stack: BenchmarkStack, node: str, until: float) -> dict[str, Any]:
    """When the node was reported as slow, and the largest share of periods in which its quota stopped it."""
    began, slow, throttled = time.time(), None, 0.0
    while time.time() < until:
        if slow is None and node in stack.topology(TOPOLOGY)["slow_since"]:
            slow = round(time.time() - began, 1)
        throttled = max(throttled, stack.nodes()[node]["throttled"])
        time.sleep(0.5)
    return {"slow": slow, "throttled": throttled}


def _here(stack: BenchmarkStack, node: str) -> int:
    """Partitions that the newest plan has on the node, whatever state that is in."""
    return sum(row["node"] == node for row in stack.partitions().values())


def _table(p99: Mapping[str, Mapping[str, float | None]], node: str) -> Table:
    table = Table(title=f"p99 of latency, s; {node} gets a tenth of its CPU", title_justify="left")
    table.add_column("queries that")
    moments = list(next(iter(p99.values())))
    for moment in moments:
        table.add_column(moment, justify="right")
    for label, row in p99.items():
        table.add_row(label, *("-" if row[m] is None else f"{row[m]:.2f}" for m in moments))
    return table


if __name__ == "__main__":
    sys.exit(run(name="slow_node", about=__doc__, measure=measure))
