"""How soon queries go on whose partitions have replicas: SIGKILL of a node to the first output without it.

The control plane places a replica of every partition. Then a node that runs partitions is killed, again and
again; each time the replicas are made anew before. Reported is the time until output of all queries is
committed of an epoch that began after the takeover. It is to be at most the session timeout and two epochs.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Collection, Mapping
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
    stopping_in_order,
)
from coordination.paths import Paths
from domain.messages import DriverStatus, decode
from spark_jobs.sinks.committed import committed_read

NODES = 4
CAPACITY = 400
"""CPU percent that planning counts for each node, so that every partition's replica has room."""
RATE = int(os.environ.get("RATE", "1000"))
EPOCH = 2.0
SESSION_TIMEOUT = 4.0
PATIENCE = 300.0


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--times", type=int, default=None, help="nodes to kill; default 20, with --quick 3")


def measure(session: Session) -> Report:
    times = session.options.times or (3 if session.quick else 20)
    found: list[dict[str, Any]] = []
    variables = {"RESURGE_SESSION_TIMEOUT": f"{SESSION_TIMEOUT:g}"}
    with (
        stopping_in_order(),
        running_stack(nodes=NODES, capacity=CAPACITY, variables=variables) as stack,
        session.progress("takeovers", times) as advance,
    ):
        stack.deploy_spec(pipeline_spec(rate=RATE, epoch_interval=EPOCH), input=input_file())
        stack.healthy()
        partitions = len(stack.partitions())
        stack.policy_set(replication_mode="on", replication_budget=partitions)
        for _ in range(times):
            stack.expect(lambda: _replicated(stack), "a replica of every partition", timeout=PATIENCE)
            stack.healthy()
            found.append(_kill(stack))
            stack.healthy()
            advance()
        verdict = stack.verify()
    seconds = [one["output"] for one in found]
    report = Report()
    report.parameters = {
        "nodes": NODES, "rate": RATE, "epoch": EPOCH, "session_timeout": SESSION_TIMEOUT, "times": times,
        "partitions": partitions,
    }  # fmt: skip
    report.results = {
        "takeovers": found,
        "median": percentile(seconds, 50),
        "worst": max(seconds),
        "verified_rows": verdict.rows,
        "faults": verdict.faults,
    }
    report.criteria += [
        at_most("s from SIGKILL to the first output, at worst", max(seconds), SESSION_TIMEOUT + 2 * EPOCH),
        at_most("plans that restored what had been taken over", sum(one["restored"] for one in found), 0),
        at_least("partitions taken over each time", min(one["taken"] for one in found), 1),
        at_least("verified clean", float(verdict.clean), 1.0),
        at_least("rows compared", verdict.rows, 1),
    ]
    report.tables.append(_table(found))
    return report


def _kill(stack: BenchmarkStack) -> dict[str, Any]:
    """Kill the node with most partitions. Seconds from then to the takeover, and to output without it."""
    homes = stack.homes()
    node = max(sorted(homes), key=lambda one: len(homes[one]))
    mine, incidents = set(homes[node]), len(stack.incidents())
    killed = stack.kill_nodes(node)
    stack.wait_for(
        lambda: acts_elsewhere(_status(stack).acting, mine, node), "a takeover", timeout=60, pause=0.05
    )
    takeover, head = time.time() - killed, _status(stack).head
    stack.wait_for(lambda: _committed(stack) > head, "output without the node", timeout=60, pause=0.05)
    output = time.time() - killed
    stack.expect(lambda: len(stack.incidents()) > incidents, "an incident", timeout=60)
    stack.healthy()
    plans = stack.plans(stack.incidents()[-1]["number"])
    restored = sum(bool(mine.intersection(plan["restore"])) for plan in plans)
    return {"taken": len(mine), "takeover": takeover, "output": output, "restored": restored}


def acts_elsewhere(acting: Mapping[str, str], partitions: Collection[str], node: str) -> bool:
    """Whether replicas of all these partitions act, on other nodes than `node`. What took over at an earlier
    kill is still said to act there."""
    return all(acting.get(partition, node) != node for partition in partitions)


def _status(stack: BenchmarkStack) -> DriverStatus:
    with stack.zookeeper() as client:
        return decode(client.get(Paths.driver(TOPOLOGY))[0], DriverStatus)


def _replicated(stack: BenchmarkStack) -> bool:
    answer = stack.rest.get(f"topologies/{TOPOLOGY}/replicas/")
    rows = answer["replicas"]
    return len(rows) == answer["budget"] and all(row["wanted"] and row["caught_up"] for row in rows)


def _committed(stack: BenchmarkStack) -> int:
    found = committed_read(stack.home / "outputs" / TOPOLOGY)
    return -1 if found is None else found.epoch


def _table(found: list[dict[str, Any]]) -> Table:
    table = Table(title="Seconds from SIGKILL of a node", title_justify="left")
    for column in ("partitions", "takeover", "first output"):
        table.add_column(column, justify="right")
    for one in found:
        table.add_row(str(one["taken"]), f"{one['takeover']:.2f}", f"{one['output']:.2f}")
    return table


if __name__ == "__main__":
    sys.exit(run(name="takeover", about=__doc__, measure=measure, arguments=arguments))
