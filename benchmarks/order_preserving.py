"""What order-preserving processing and adaptive buffering cost (Figure 18): latency and throughput with every
output of every channel buffered on disk, as for targets that do not follow, and without buffering, in turn on
the same cluster; and the time that the bookkeeping of Algorithm 1 takes.

The topology is that of Figure 17 (one source, four parsers, two windows of four partitions), checkpoints
every 20 s. INPUT=<file> reads real tweets.
"""

from __future__ import annotations

import os
import statistics
import sys
import time
from collections.abc import Callable
from itertools import chain
from typing import TYPE_CHECKING, Any

import msgspec
import pyarrow as pa
from rich.table import Table

from benchmarks.engine import NODES, advance, running
from benchmarks.recovery.course import percentile
from benchmarks.runner import COLOURS, Report, Session, at_least, figure, ratio_of_medians, run
from domain.execution.footprint import Footprint
from domain.execution.job import Job, Layout, TaskReport
from domain.execution.lanes import Lane
from domain.execution.partition import Batch, PartitionRuntime, Process, Processed
from domain.messages import EpochReport
from domain.topology import Topology, load_topology
from spark_jobs.driver.loop import EpochLoop
from spark_jobs.executor.exchange import Routed, encode_table, route
from spark_jobs.executor.task import Level, LevelTask
from spark_jobs.operators.catalogue import catalogue

if TYPE_CHECKING:
    from matplotlib.figure import Figure

CHECKPOINT_INTERVAL = 20.0
RATES = (1_000, 10_000, 50_000, 100_000)
QUICK_RATES = (1_000, 20_000)
FAST_EPOCH = 100_000
CAUGHT_UP, MOST_TO_CATCH_UP = 3.0, 120
"""A block begins when an epoch is less than this many seconds late, or after this many epochs."""
VARIANTS = ("off", "on")
P = ("p50", "p99")


class BufferingLevel(Level):
    """Buffers all outputs for all targets, although the targets follow."""

    def emit(self, lane: Lane, partition: str, epoch: int, table: pa.Table | None) -> Routed:
        routed = route(self.topology, partition, table, self.operators)
        for targets, rows in routed:
            following = [target for target in targets if epoch > lane.starts.get(target, epoch)]
            nearby = [target for target in following if self._is_here(target)]
            for target in nearby:
                self.arrived.setdefault(target, []).append(Batch(partition, epoch, rows))
            payload = encode_table(rows)
            self._send([t for t in following if t not in nearby], partition, epoch, payload)
            self.buffers.append(partition, targets, epoch, payload)
        return routed


class BufferingTask(LevelTask):
    level_class = BufferingLevel


class Switch:
    """Turns forced buffering of a running loop on and off. While it is on, the loop runs as in a recovery, so
    that the next global checkpoint drops the buffers."""

    def __init__(self, loop: EpochLoop) -> None:
        self.loop = loop
        self.reports: list[EpochReport] = []
        self._plain = loop.cluster.run
        loop.cluster.run = self._run  # type: ignore[method-assign]
        loop.send = self._send
        self.on = False

    def _run(self, layout: Layout, job: Job, obsolete: Callable[[], bool]) -> list[TaskReport]:
        if not self.on:
            return self._plain(layout, job, obsolete)
        encoded = msgspec.json.encode(layout), msgspec.json.encode(job)
        everywhere = Footprint(tuple(range(len(layout.nodes))), tuple(range(layout.level_count)))
        tasks = [BufferingTask(level, *encoded, everywhere) for level in everywhere.levels]
        return self.loop.cluster.exchange(tasks)

    def _send(self, message: object) -> None:
        if isinstance(message, EpochReport):
            self.reports.append(message)

    def latencies(self) -> list[float]:
        """Of all queries, in seconds, since the reports were last cleared."""
        return [query.latency for report in self.reports for query in report.queries.values()]

    def catch_up(self) -> None:
        """Run epochs until those are done that had to wait for the start of Spark or for the block before."""
        for _ in range(MOST_TO_CATCH_UP):
            self.reports.clear()
            self.advance(1)
            if max(self.latencies(), default=0.0) < CAUGHT_UP:
                return

    def advance(self, epochs: int) -> int:
        """As `engine.advance`, one epoch after the other; returns the tuples in them."""
        tuples = 0
        for _ in range(epochs):
            self.loop.machine.tracker.buffering = self.on
            tuples += advance(self.loop, 1)
        return tuples


def topology_of(*, rate: int, pace: str, epoch_tuples: int = 1_000_000) -> Topology:
    """Figure 17."""
    window = {"kind": "sliding_window", "parallelism": 4, "output": True}
    data = {
        "name": "order",
        "epoch_interval": 1.0,
        "checkpoint_interval": CHECKPOINT_INTERVAL,
        "max_epoch_tuples": epoch_tuples,
        "operators": [
            {
                "name": "Source",
                "kind": "source",
                "parallelism": 1,
                "params": {
                    "reader": "file", "rate": rate, "pace": pace, "path": os.environ.get("INPUT") or None,
                },
            },
            {
                "name": "Parser",
                "kind": "flat_map_regex",
                "parallelism": 4,
                "inputs": [{"from": "Source", "partitioning": "full", "key": "text"}],
                "params": {"pattern": r"#(\w+)", "field": "text", "group": 1, "fold": "lower"},
            },
            *(
                {
                    **window,
                    "name": name,
                    "inputs": [{"from": "Parser", "partitioning": "full", "key": "key"}],
                    "params": {"size_s": size, "slide_s": slide},
                }
                for name, size, slide in (("Win1", 10, 5), ("Win2", 30, 10))
            ),
        ],
    }  # fmt: skip
    return load_topology(data, catalogue)


def latency_at(session: Session, rate: int, *, blocks: int, epochs: int) -> dict[str, Any]:
    """At a fixed rate: latencies of all queries and tuples per second, for both variants in turn."""
    latencies: dict[str, list[list[float]]] = {name: [] for name in VARIANTS}
    throughput: dict[str, list[float]] = {name: [] for name in VARIANTS}
    label = f"{rate:,} tweets/s"
    with (
        running(topology_of(rate=rate, pace="realtime")) as loop,
        session.progress(label, 2 * blocks) as step,
    ):
        switch = Switch(loop)
        switch.advance(20)
        for block in range(blocks):
            # The order alternates, so that a slow change of the machine's speed affects both alike.
            for name in VARIANTS if block % 2 == 0 else VARIANTS[::-1]:
                switch.on = name == "on"
                switch.catch_up()
                switch.reports.clear()
                started = time.perf_counter()
                tuples = switch.advance(epochs)
                throughput[name].append(tuples / (time.perf_counter() - started))
                latencies[name].append(switch.latencies())
                step()
    return {
        "rate": rate,
        "tweets_per_second": throughput,
        "latency": {
            name: {
                "p50": percentile([*chain(*found)], 0.5),
                "p99": percentile([*chain(*found)], 0.99),
                "p50_of_blocks": [percentile(values, 0.5) for values in found],
            }
            for name, found in latencies.items()
        },
    }


def fastest(session: Session, *, blocks: int, epochs: int) -> dict[str, list[float]]:
    """Tweets per second as fast as the engine can."""
    rates: dict[str, list[float]] = {name: [] for name in VARIANTS}
    topology = topology_of(rate=FAST_EPOCH, pace="fast", epoch_tuples=FAST_EPOCH)
    with running(topology) as loop, session.progress("as fast as possible", 2 * blocks) as step:
        switch = Switch(loop)
        switch.advance(15)
        for block in range(blocks):
            for name in VARIANTS if block % 2 == 0 else VARIANTS[::-1]:
                switch.on = name == "on"
                switch.advance(1)
                started = time.perf_counter()
                tuples = switch.advance(epochs)
                rates[name].append(tuples / (time.perf_counter() - started))
                step()
    return rates


def bookkeeping(*, inputs: int = 4, epochs: int = 2_000) -> float:
    """Seconds that Algorithm 1 takes for one partition and epoch: order, sequence numbers, duplicates."""
    names = [f"Parser[{index}]" for index in range(inputs)]
    runtime: PartitionRuntime[None] = PartitionRuntime("Win1[0]", names, 0)
    started = time.perf_counter()
    for epoch in range(1, epochs + 1):
        for name in reversed(names):
            for instruction in runtime.handle(Batch(name, epoch, None)):
                if isinstance(instruction, Process):
                    runtime.handle(Processed(instruction.epoch))
    return (time.perf_counter() - started) / epochs


def measure(session: Session) -> Report:
    rates = QUICK_RATES if session.quick else RATES
    blocks, epochs = (2, 8) if session.quick else (4, 12)
    at_rates = [latency_at(session, rate, blocks=blocks, epochs=epochs) for rate in rates]
    fast = fastest(session, blocks=blocks, epochs=6 if session.quick else 12)
    order = bookkeeping()
    ratio = ratio_of_medians(fast["on"], fast["off"])
    table = Table(title=f"Figure 17 on {NODES} nodes; buffering off / on", title_justify="left")
    for column in ("input rate", "tweets/s", "latency p50 s", "latency p99 s"):
        table.add_column(column, justify="right")
    for row in at_rates:
        done = [statistics.median(row["tweets_per_second"][name]) for name in VARIANTS]
        table.add_row(
            f"{row['rate']:,}",
            " / ".join(f"{value:,.0f}" for value in done),
            *(" / ".join(f"{row['latency'][name][share]:.2f}" for name in VARIANTS) for share in P),
        )
    done = [statistics.median(fast[name]) for name in VARIANTS]
    table.add_row("as fast as possible", " / ".join(f"{value:,.0f}" for value in done), "", "")
    return Report(
        parameters={
            "nodes": NODES,
            "rates": list(rates),
            "blocks": blocks,
            "epochs": epochs,
            "fast_epoch_tuples": FAST_EPOCH,
            "checkpoint_interval": CHECKPOINT_INTERVAL,
        },
        results={
            "rates": at_rates,
            "fastest": fast,
            "throughput_ratio": ratio,
            "bookkeeping_us_per_partition_and_epoch": round(1e6 * order, 1),
        },
        # The paper: "both can achieve a maximal throughput of 12,000 tuples per second".
        criteria=[at_least("throughput with buffering / without, ratio of medians", ratio, 0.9)],
        tables=[table],
    )


def draw(results: dict[str, Any]) -> Figure:
    """Median latency against throughput, as Figure 18."""
    drawn, axes = figure(2)
    for number, name in enumerate(VARIANTS):
        label = f"buffering {name}"
        done = [statistics.median(row["tweets_per_second"][name]) for row in results["rates"]]
        for axis, share in zip(axes.flat, P, strict=True):
            latency = [row["latency"][name][share] for row in results["rates"]]
            axis.plot(done, latency, "o-", color=COLOURS[number], linewidth=1.2, markersize=4, label=label)
    for axis, share in zip(axes.flat, P, strict=True):
        axis.set_title(f"latency, {share}", loc="left")
        axis.set_xlabel("tweets/s")
        axis.set_ylabel("seconds")
        axis.set_xscale("log")
        axis.set_ylim(bottom=0)
        axis.legend(fontsize=7, frameon=False)
    return drawn


if __name__ == "__main__":
    sys.exit(run(name="order_preserving", about=__doc__, measure=measure, draw=draw))
