"""What nodes take by themselves: their CPU at next to no input beside that at a rate, by kind of process.

The fifteen queries, an epoch a second, checkpoints every ten seconds. What nodes take without input they take
in every epoch, also of a replay and of what runs when queries are parked: the less, the more a node whose CPU
is scarce can do. RATE=<tuples/s> is the rate compared with; CAPACITY=<percent of a core per node> the quota.
INPUT=<file> reads real tweets.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterable, Mapping
from contextlib import suppress
from typing import Any

from rich.table import Table

from benchmarks.runner import Report, Session, at_least, at_most, run
from benchmarks.stack import (
    TOPOLOGY,
    BenchmarkStack,
    input_file,
    pipeline_spec,
    running_stack,
    stopping_in_order,
)
from host.processes import PROC, TICKS_PER_SECOND, session_members

NODES = 5
CAPACITY = int(os.environ.get("CAPACITY", "20"))
FEW, RATE = 100, int(os.environ.get("RATE", "120000"))
WARM_UP, LOOK = 60.0, 60.0
"""Seconds. In the first the code of the executors is compiled."""
KINDS = {
    "CoarseGrainedExecutorBackend": "executors",
    "spark_jobs.executor.preloaded": "Python workers",
    "spark_jobs.agent": "agents",
}
"""What stands in the command line of a process of a node -> its kind."""


def seconds_taken(leaders: Iterable[int]) -> dict[tuple[str, str], float]:
    """(kind, process) of nodes -> CPU seconds so far. leaders: the first process of each node's session. The
    driver has another session; its JVM is told the module of the Python workers, too."""
    found = {}
    for process in (member for leader in leaders for member in session_members(leader)):
        with suppress(OSError):  # it ended meanwhile
            command = (PROC / str(process.pid) / "cmdline").read_bytes().decode(errors="replace")
            kind = next((kind for part, kind in KINDS.items() if part in command), "")
            if kind:
                found[kind, str(process.pid)] = process.cpu_ticks / TICKS_PER_SECOND
    return found


def cores_by_kind(
    before: Mapping[tuple[str, str], float], after: Mapping[tuple[str, str], float], seconds: float
) -> dict[str, float]:
    cores = dict.fromkeys(KINDS.values(), 0.0)
    for (kind, process), taken in after.items():
        cores[kind] += (taken - before.get((kind, process), 0.0)) / seconds
    return {kind: round(value, 4) for kind, value in cores.items()}


def look(stack: BenchmarkStack, rate: int, seconds: float) -> dict[str, Any]:
    """Of all nodes together: cores by kind of process, and epochs that were committed meanwhile."""
    leaders = [stack.node_process(name).pid for name in stack.nodes("alive")]
    began, epoch = time.monotonic(), stack.topology(TOPOLOGY)["committed_epoch"]
    before = seconds_taken(leaders)
    time.sleep(seconds)
    after, took = seconds_taken(leaders), time.monotonic() - began
    kinds = cores_by_kind(before, after, took)
    return {
        "rate": rate,
        "kinds": kinds,
        "cores": round(sum(kinds.values()), 4),
        "epochs": stack.topology(TOPOLOGY)["committed_epoch"] - epoch,
        "seconds": round(took, 1),
        "nodes": len(stack.nodes("alive")),
    }


def measure(session: Session) -> Report:
    found = []
    seconds = LOOK / 2 if session.quick else LOOK
    variables = {"RESURGE_CHECKPOINT_INTERVAL": "10", "RESURGE_CPU_CAPS": "1"}
    with stopping_in_order(), session.progress("rates", 2) as step:
        for rate in (FEW, RATE):
            with running_stack(nodes=NODES, slots=1, capacity=CAPACITY, variables=variables) as stack:
                stack.deploy_spec(pipeline_spec(rate=rate, epoch_interval=1.0), input=input_file())
                stack.healthy()
                time.sleep(WARM_UP)
                found.append(look(stack, rate, seconds))
                stack.healthy()
            step()
    return report_of(found)


def report_of(found: list[dict[str, Any]]) -> Report:
    alone, loaded = found
    report = Report(
        parameters={"nodes": NODES, "quota": CAPACITY, "rates": [FEW, RATE], "warm_up": WARM_UP},
        results={"rates": found},
    )
    table = Table(title=f"Cores that {NODES} nodes take together", title_justify="left")
    for column in ("tuples/s", *KINDS.values(), "all", "epochs/s"):
        table.add_column(column, justify="right")
    for row in found:
        kinds = [f"{row['kinds'][kind]:.3f}" for kind in KINDS.values()]
        pace = f"{row['epochs'] / row['seconds']:.2f}"
        table.add_row(f"{row['rate']:,}", *kinds, f"{row['cores']:.3f}", pace)
    report.tables.append(table)
    report.criteria += [
        at_least("nodes alive, least", min(row["nodes"] for row in found), NODES),
        at_least("epochs of which CPU was counted, least", min(row["epochs"] for row in found), 20),
        at_least(
            "kinds of processes seen, least", min(sum(map(bool, r["kinds"].values())) for r in found), 3
        ),
        at_most(f"cores at {FEW} tuples/s / at {RATE:,}", alone["cores"] / loaded["cores"], 0.5),
    ]
    return report


if __name__ == "__main__":
    sys.exit(run(name="node_cost", about=__doc__, measure=measure))
