"""What replicas cost their primaries, where nodes have the room for them.

Five nodes run the fifteen queries, and have room for replicas of a quarter of their partitions. Blocks with
and without replicas take turns in one run. At the demo's rate the time of an epoch is measured, from when its
last tuple was due to its commit; as fast as it goes, on nodes whose CPU is capped, tuples per second. In a
block with replicas all of them have to be there before it and after it.

`standby`: the demo again, where the fifth node has no partitions and takes all replicas. Each level of an
epoch has one task more then, on the same cores of this machine. So it depends on their number what that
costs, and no bound is set for it. `--parts demo,standby,fast` chooses what is measured.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from rich.table import Table

from benchmarks.epoch_times import EpochTimes, following
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

NODES, CAPACITY, CAPPED = 5, 100, 30
"""CAPACITY, CAPPED: CPU percent of a node, at the demo's rate and as fast as it goes."""
SPARE = f"node-{NODES}"
RATE, EPOCH = 1000, 1.0
FAST_TUPLES = 20_000
SHARE = 0.25
PATIENCE = 300.0
BEHIND = 2
"""Epochs that a replica may lack."""
WARMING = 5
"""Epochs after a change that are not measured."""
MODES = ("off", "on")


@dataclass(frozen=True)
class Part:
    """Of the run. fast: as fast as it goes. standby: the last node has no partitions. epoch, throughput: what
    replicas may make of these, at most and at least."""

    name: str
    fast: bool = False
    standby: bool = False
    epoch: float | None = None
    throughput: float | None = None


PARTS = (
    Part("demo", epoch=1.15),
    Part("standby", standby=True),
    Part("fast", fast=True, standby=True, throughput=0.9),
)


def measure(session: Session) -> Report:
    rounds, epochs = (1, 15) if session.quick else (4, 30)
    parts: list[Part] = session.options.parts
    report = Report(
        parameters={
            "nodes": NODES, "capacity": CAPACITY, "capped": CAPPED, "rate": RATE, "epoch": EPOCH,
            "fast_tuples": FAST_TUPLES, "share": SHARE, "rounds": rounds, "epochs": epochs,
            "parts": [part.name for part in parts],
        },
    )  # fmt: skip
    with stopping_in_order(), session.progress("blocks", 2 * len(parts) * rounds) as step:
        for part in parts:
            capacity = CAPPED if part.fast else CAPACITY
            with running_stack(nodes=NODES, capacity=capacity, variables={"RESURGE_CPU_CAPS": "1"}) as stack:
                _deploy(stack, part)
                found: dict[str, list[dict[str, Any]]] = {mode: [] for mode in MODES}
                with following(stack.home / "topologies" / TOPOLOGY / "epochs.log") as times:
                    for number in range(rounds):
                        for mode in MODES if number % 2 == 0 else reversed(MODES):
                            found[mode].append(_block(stack, times, mode, epochs))
                            step()
                verdict = stack.verify()
                report.results[part.name] = {"blocks": found, "rows": verdict.rows, "faults": verdict.faults}
                report.criteria += [
                    at_least(f"{part.name}: verified clean", float(verdict.clean), 1.0),
                    at_least(f"{part.name}: rows compared", verdict.rows, 1),
                ]
    _conclude(report, parts)
    return report


def _deploy(stack: BenchmarkStack, part: Part) -> None:
    """On all nodes, or on those but the last, which stays free for replicas."""
    if part.standby:
        stack.rest.post(f"nodes/{SPARE}/drain/", {"reason": "benchmark"})
        stack.expect(lambda: SPARE not in stack.nodes("alive"), "a node without partitions", timeout=60)
    spec = pipeline_spec(rate=RATE, epoch_interval=EPOCH)
    if part.fast:
        spec["max_epoch_tuples"] = FAST_TUPLES
        for operator in spec["operators"]:
            if operator["name"] == "Source":
                operator["params"] |= {"pace": "fast", "rate": int(FAST_TUPLES / EPOCH)}
    stack.deploy_spec(spec, input=input_file())
    stack.healthy()
    if part.standby:
        stack.rest.post(f"nodes/{SPARE}/activate/", {"reason": "benchmark"})
        stack.expect(lambda: SPARE in stack.nodes("alive"), "the node back", timeout=60)


def _block(stack: BenchmarkStack, times: EpochTimes, mode: str, epochs: int) -> dict[str, Any]:
    """So many epochs with or without replicas: their seconds, and how many were committed in a second."""
    budget = round(SHARE * len(stack.partitions())) if mode == "on" else 0
    stack.policy_set(replication_mode=mode, replication_budget=budget)
    stack.expect(lambda: _replicas(stack) == budget, f"{budget} replicas", timeout=PATIENCE)
    first = _committed(times) + WARMING
    _await(stack, times, first + epochs)
    replicas = _replicas(stack)
    moments = {one.committed: one.at for one in reversed(times.commits)}
    ends = [_end(moments, epoch) for epoch in range(first, first + epochs + 1)]
    return {
        "replicas": replicas,
        "budget": budget,
        "epochs": epochs,
        "seconds": [end - times.due[first + at] for at, end in enumerate(ends)],
        "rate": epochs / (ends[-1] - ends[0]),
    }


def _end(moments: dict[int, float], epoch: int) -> float:
    """When everything had applied an epoch; a job may commit several."""
    return min(at for committed, at in moments.items() if committed >= epoch)


def _committed(times: EpochTimes) -> int:
    return times.commits[-1].committed if times.commits else 0


def _await(stack: BenchmarkStack, times: EpochTimes, epoch: int) -> None:
    """Without asking the control plane meanwhile, which would take CPU."""
    deadline = time.monotonic() + PATIENCE
    while _committed(times) < epoch and time.monotonic() < deadline:
        time.sleep(0.5)
    stack.expect(lambda: _committed(times) >= epoch, f"epoch {epoch}", timeout=1)


def _replicas(stack: BenchmarkStack) -> int:
    """How many there are; -1 while some have not caught up."""
    with stack.zookeeper() as client:
        status = decode(client.get(Paths.driver(TOPOLOGY))[0], DriverStatus)
    ready = [one.ready and one.lacks <= BEHIND for one in status.shadows.values()]
    return len(ready) if all(ready) else -1


def _conclude(report: Report, parts: Sequence[Part]) -> None:
    table = Table(title="What replicas of a quarter of the partitions cost", title_justify="left")
    for column in ("", "seconds of an epoch", "with replicas", "tuples/s", "with replicas"):
        table.add_column(column, justify="right")
    for part in parts:
        blocks = report.results[part.name]["blocks"]
        seconds = {
            mode: statistics.median(s for one in blocks[mode] for s in one["seconds"]) for mode in MODES
        }
        rates = {mode: statistics.median(one["rate"] for one in blocks[mode]) for mode in MODES}
        report.results[part.name] |= {"epoch_seconds": seconds, "epochs_per_second": rates}
        if part.epoch is not None:
            ratio = seconds["on"] / seconds["off"]
            report.criteria.append(at_most(f"{part.name}: epoch with replicas / without", ratio, part.epoch))
        if part.throughput is not None:
            ratio = rates["on"] / rates["off"]
            report.criteria.append(
                at_least(f"{part.name}: throughput with replicas / without", ratio, part.throughput)
            )
        running = blocks["on"]
        report.criteria += [
            at_least(
                f"{part.name}: replicas in each block with some", min(r["replicas"] for r in running), 1
            ),
            at_most(
                f"{part.name}: replicas that fell behind",
                sum(r["budget"] != r["replicas"] for r in running),
                0,
            ),
        ]
        epochs = [f"{seconds[mode]:.3f}" for mode in MODES]
        tuples = [f"{rates[mode] * FAST_TUPLES:,.0f}" if part.fast else "" for mode in MODES]
        table.add_row(part.name, *epochs, *tuples)
    report.tables.append(table)


def parts_parse(text: str) -> list[Part]:
    names = [name.strip() for name in text.split(",")]
    known = {part.name: part for part in PARTS}
    if not known.keys() >= set(names):
        raise argparse.ArgumentTypeError(f"{text!r}: some of {', '.join(known)}")
    return [known[name] for name in names]


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--parts", type=parts_parse, default=list(PARTS), metavar="NAME,...")


if __name__ == "__main__":
    sys.exit(run(name="replica_cost", about=__doc__, measure=measure, arguments=arguments))
