"""Seconds from the SIGKILL of nodes to output of every query, where CPU is not scarce: three of five nodes at
once, again and again, then one of five.

A query gives output when the driver has committed, for this query, the first epoch whose input was not
complete at the kill; the slowest query counts. Most of that epoch's second is therefore part of the figure:
`without failure` says what the same measure gives for a moment of peace, some seconds before each kill. Rows
cannot be waited for, because a window of a minute gives rows every 20 s only.

Between two kills replacements come, all incidents close, partitions are moved to the new nodes, and a
random part of a checkpoint interval passes, so that checkpoints are of any age. In the end all rows are
verified. RATE=<tuples/s> and CAPACITY=<percent of a core per node> say what is done where; INPUT=<file>
reads real tweets. STANDBYS=<n> has so many standbys besides, which take over; each kill counts what was put
on them. 30 kills of three nodes take a quarter of an hour. `--minutes 8` begins no kill after so many
minutes; another run with `--seed 2 --add FILE` goes on until there are `--count` of each kind, and reports
them all.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import sys
import time
from pathlib import Path
from typing import Any

from benchmarks.class_archive import class_archive_ensure
from benchmarks.epoch_times import EpochTimes, following
from benchmarks.others import others
from benchmarks.output_gap_report import ASKED_FOR, EVENTS, NODES, lines_of, report_of, stages_of
from benchmarks.runner import Report, Session, at_least, run
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

RATE = int(os.environ.get("RATE", "20000"))
CAPACITY = int(os.environ.get("CAPACITY", "200"))
STANDBYS = int(os.environ.get("STANDBYS", "0"))
DELAY = "uniform:4:6"
"""Of replacements. On one machine their start takes CPU that new machines would bring along, so they start
when output is there again."""
CHECKPOINTS = 10.0
PEACE = 4.0
"""Seconds before a kill of the moment that is measured without one."""
WARM_UP = 30.0
PATIENCE = 120.0
ENDED = ("succeeded", "failed")


def settle(stack: BenchmarkStack) -> None:
    """Wait until all nodes are there and no incident is open, and move partitions to those that are empty."""
    stack.expect(
        lambda: len(stack.nodes("alive")) >= NODES + STANDBYS and stack.is_healthy(),
        f"{NODES} nodes and every query available",
        timeout=PATIENCE,
    )
    operation = stack.rest.post(f"topologies/{TOPOLOGY}/rebalance/", {"reason": "benchmark"})["id"]

    def over() -> dict[str, Any] | None:
        row: dict[str, Any] = stack.rest.get(f"operations/{operation}/")
        return row if row["state"] in ENDED else None

    stack.expect(over, "the end of the operation", timeout=PATIENCE)
    # It fails where the nodes are used evenly already.
    stack.healthy(timeout=PATIENCE)


def kill(stack: BenchmarkStack, times: EpochTimes, count: int, chance: random.Random) -> dict[str, Any]:
    """Kill so many nodes that have partitions; what was measured, once all is settled again."""
    settle(stack)
    # An incident closes with a checkpoint. From here on it gets older.
    time.sleep(max(PEACE, CHECKPOINTS * chance.random()))
    homes = {node: partitions for node, partitions in stack.homes().items() if partitions}
    queries = sorted(stack.queries())
    victims = chance.sample(sorted(homes), min(count, len(homes)))
    sequence, incidents = stack.last_sequence(), len(stack.incidents())
    standbys = {name for name, row in stack.nodes("alive").items() if row["standby"]}
    processes = [stack.node_process(name) for name in victims]
    beside = others({os.getpid(), *stack.processes()})
    at = stack.kill_nodes(*victims)
    # Nothing is asked of the control plane meanwhile: that would take CPU.
    deadline = time.monotonic() + PATIENCE
    while not all(times.output(query, at) for query in queries):
        if time.monotonic() > deadline:
            late = [query for query in queries if not times.output(query, at)]
            raise StackError(f"no output of {', '.join(late)}; {stack.summary()}")
        time.sleep(0.2)
    load = others({os.getpid(), *stack.processes()}).cores_since(beside)
    stack.expect(lambda: len(stack.incidents()) > incidents, "an incident", timeout=PATIENCE)
    stack.healthy(timeout=PATIENCE)
    until = time.time()
    taken = sum(len(partitions) for node, partitions in stack.homes().items() if node in standbys)
    outputs = {query: times.output(query, at) or 0.0 for query in queries}
    before = [times.output(query, at - PEACE) or 0.0 for query in queries]
    news = [times.news(query, at) or 0.0 for query in queries]
    lost = [event for event in stack.events(after=sequence, kinds=("node.lost",)) if event["node"] in victims]
    plans = [plan for row in stack.incidents()[incidents:] for plan in stack.plans(row["number"])]
    return {
        "killed": sum(not process.alive for process in processes),
        "asked": count,
        "lost": sum(len(homes[node]) for node in victims),
        "on_standbys": taken,
        "queries": len(queries),
        "seconds": round(max(outputs.values()) - at, 3),
        "news": round(max(news) - at, 3),
        "gap": round(max(times.longest_gap(query, at, until) or 0.0 for query in queries), 3),
        "peace": round(max(before) - (at - PEACE), 3),
        "waves": len(plans),
        "others": round(load, 2),
        "stages": stages_of(
            at,
            losses=[seconds_of(event["at"]) for event in lost],
            plans=plans,
            lines=lines_of(stack.log(f"driver.{TOPOLOGY}"), EVENTS, at),
            outputs=outputs,
        ),
    }


def measure(session: Session) -> Report:
    options = session.options
    archive = class_archive_ensure(session.note)
    count = min(options.count, 2) if session.quick else options.count
    earlier = _earlier(options.add)
    rows: list[dict[str, Any]] = list(earlier["kills"])
    verified: list[dict[str, Any]] = list(earlier["verified"])
    chance, load = random.Random(f"{options.seed}/{options.killed}"), round(os.getloadavg()[0], 2)
    variables = {
        "RESURGE_REPLACEMENT_DELAY": DELAY,
        "RESURGE_CHECKPOINT_INTERVAL": f"{CHECKPOINTS:g}",
        "RESURGE_CPU_CAPS": "1",
    }
    wanted = {n: max(0, count - sum(row["asked"] == n for row in rows)) for n in options.killed}
    with (
        stopping_in_order(),
        running_stack(
            nodes=NODES, standbys=STANDBYS, slots=1, capacity=CAPACITY, variables=variables
        ) as stack,
        session.progress("kills", sum(wanted.values())) as step,
    ):
        stack.deploy_spec(pipeline_spec(rate=RATE, epoch_interval=1.0), input=input_file())
        stack.healthy()
        time.sleep(WARM_UP)
        with following(stack.home / "topologies" / TOPOLOGY / "epochs.log") as times:
            until = time.monotonic() + 60 * options.minutes
            for killed, times_wanted in wanted.items():
                for _ in range(times_wanted):
                    if time.monotonic() < until:
                        rows.append(kill(stack, times, killed, chance))
                        step()
        stack.healthy()
        verdict = stack.verify()
        verified.append(
            {
                "clean": verdict.clean,
                "queries": verdict.queries,
                "rows": verdict.rows,
                "faults": verdict.faults,
                "load_at_start": load,
            }
        )
    report = report_of(rows, verified)
    if STANDBYS:
        least = min((row.get("on_standbys", 0) for row in rows), default=0)
        report.criteria.append(at_least("partitions put on standbys, least of a kill", least, 1))
    report.parameters = {
        "nodes": NODES,
        "standbys": STANDBYS,
        "class_archive": archive,
        "rate": RATE,
        "quota_percent": CAPACITY,
        "epoch_interval": 1.0,
        "checkpoint_interval": CHECKPOINTS,
        "delay": DELAY,
    }
    return report


def _earlier(path: Path | None) -> dict[str, Any]:
    """The results of an earlier report, to which this run's are added."""
    if path is None:
        return {"kills": [], "verified": []}
    found: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))["results"]
    return found


def killed_parse(text: str) -> list[int]:
    try:
        counts = [int(part) for part in text.split(",")]
    except ValueError:
        counts = []
    if not counts or not all(0 < count < NODES for count in counts):
        raise argparse.ArgumentTypeError(f"{text!r}: numbers from 1 to {NODES - 1}, for example 3,1")
    return counts


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--count", type=int, default=ASKED_FOR, help="kills of each kind (default 30)")
    parser.add_argument("--killed", type=killed_parse, default=[3, 1], metavar="N,...", help="nodes at once")
    parser.add_argument("--minutes", type=float, default=60.0, help="begin no kill later (default 60)")
    parser.add_argument("--seed", default="1", help="of what is drawn: which nodes, and when (default 1)")
    parser.add_argument("--add", type=Path, metavar="FILE", help="report with kills that are to count too")


if __name__ == "__main__":
    sys.exit(run(name="output_gap", about=__doc__, measure=measure, arguments=arguments))
