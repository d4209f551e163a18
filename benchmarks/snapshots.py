"""What snapshots cost: none, asynchronous barrier snapshots and synchronous ones, at several intervals.

The counterpart of Figure 6 of asynchronous barrier snapshots: six operators with as many partitions as nodes
and three full shuffles, at full speed. Blocks of all kinds run in turn on one data plane, each beside a block
without snapshots before it, with which it is compared. Checkpoints go to another file system than the nodes'
states (CHECKPOINTS=<directory>, default /dev/shm): there every file is copied, where a hard link would cost
nothing. Each epoch ends with a barrier here, also without snapshots, so the baseline carries the alignment.
A synchronous snapshot waits for the agents, which look for snapshots every 0.2 s.

Then the same on fewer nodes, with asynchronous snapshots every 3 s; all nodes share the cores of this
machine. In the end the latency of epochs at a set rate (`benchmarks.snapshot_latency`). Figures 19 and 20 of
incremental recovery are the first and the last plot.
"""

from __future__ import annotations

import os
import statistics
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.table import Table

from benchmarks.engine import NODES, running
from benchmarks.forcing import NEVER, Block, Measured, run_block
from benchmarks.runner import COLOURS, MARKERS, Report, Session, at_least, at_most, figure, run
from benchmarks.snapshot_latency import OF_THROUGHPUT, by_interval
from benchmarks.stack import stopping_in_order
from domain.topology import Topology, load_topology
from spark_jobs.driver.loop import EpochLoop
from spark_jobs.operators.catalogue import catalogue

if TYPE_CHECKING:
    from matplotlib.figure import Figure

INTERVALS = (1.0, 3.0, 10.0, 20.0)
QUICK_INTERVALS = (1.0, 3.0)
EPOCH_TUPLES, EPOCH = 20_000, 0.5
WARM_UP = 60
BY_NODES = 3.0
"""Seconds between two snapshots where the number of nodes varies."""
KEPT, LOSS = 0.95, 0.25
"""What asynchronous snapshots every 3 s keep of the throughput, at least, and what they lose every 1 s at
most, relative to synchronous ones."""
MODES = ("asynchronous", "synchronous")
FEWER = (1, 2)
"""Nodes of further runs."""


def topology_of(nodes: int, *, rate: int | None = None) -> Topology:
    """Source, parser and four aggregates by key, three of which need a full shuffle. rate: tuples per second
    that come; None: as many as are asked for."""

    def operator(name: str, kind: str, source: str, *, key: str = "", **more: Any) -> dict[str, Any]:
        full = {"partitioning": "full", "key": key} if key else {"partitioning": "one_to_one"}
        return {
            "name": name,
            "kind": kind,
            "parallelism": nodes,
            "inputs": [{"from": source, **full}],
            **more,
        }

    source: dict[str, Any] = {"reader": "file", "rate": rate or int(EPOCH_TUPLES / EPOCH)}
    if rate is None:
        source["pace"] = "fast"
    if os.environ.get("INPUT"):
        source["path"] = os.environ["INPUT"]
    return load_topology(
        {
            "name": "snapshots",
            "epoch_interval": EPOCH,
            "max_epoch_tuples": EPOCH_TUPLES,
            "operators": [
                {"name": "Source", "kind": "source", "parallelism": nodes, "params": source},
                operator("Words", "flat_map_regex", "Source", params={"pattern": r"\w+", "fold": "lower"}),
                operator("Counts", "sliding_window", "Words", key="key", params={"size_s": 60, "slide_s": 5}),
                operator("Changes", "latest", "Counts", key="key"),
                operator("Top", "top_k", "Changes", key="window_end", params={"k": 1000}),
                operator("Newest", "latest", "Top", output=True),
            ],
        },
        catalogue,
    )


def measure(session: Session) -> Report:
    rounds, intervals = (1, QUICK_INTERVALS) if session.quick else (3, INTERVALS)
    kinds = [(mode, interval) for interval in intervals for mode in MODES]
    pairs: dict[tuple[str, float], list[tuple[Measured, Measured]]] = {kind: [] for kind in kinds}
    with stopping_in_order(), copying() as storage:
        with running(topology_of(NODES)) as loop, session.progress("blocks", rounds * len(kinds) * 2) as step:
            run_block(loop, Block(epochs=WARM_UP, interval=NEVER))
            for number in range(rounds):
                for mode, interval in kinds if number % 2 == 0 else reversed(kinds):
                    base = run_block(loop, Block(epochs=_epochs(session), interval=NEVER))
                    step()
                    pairs[mode, interval].append((base, _block(loop, mode, interval, session)))
                    step()
        files = copies(storage)
        by_nodes = [_nodes_row(NODES, pairs["asynchronous", BY_NODES])]
        for nodes in FEWER:
            with running(topology_of(nodes), nodes=nodes) as loop:
                by_nodes.append(_nodes_row(nodes, _pairs(loop, rounds, session)))
        none = statistics.median(_rate(base) for found in pairs.values() for base, _ in found)
        rate = round(none * OF_THROUGHPUT, -3)
        epochs = 20 if session.quick else 120
        with (
            running(topology_of(NODES, rate=int(rate))) as loop,
            session.progress("latencies", len(intervals) + 1) as step,
        ):
            latency = by_interval(loop, intervals, NEVER, epochs=epochs, step=step)
    ratios = {kind: _ratios(found) for kind, found in pairs.items()}
    bases = [base for found in pairs.values() for base, _ in found]
    blocks = [block for found in pairs.values() for _, block in found]
    kept = statistics.median(ratios["asynchronous", 3.0])
    return Report(
        parameters={
            "nodes": NODES, "epoch_tuples": EPOCH_TUPLES, "epoch": EPOCH, "rounds": rounds,
            "intervals": list(intervals), "storage": str(storage.parent),
        },
        results={
            "relative_throughput": [
                {"mode": mode, "interval": interval, "median": statistics.median(found), "all": found}
                for (mode, interval), found in ratios.items()
            ],
            "tuples_per_second": statistics.median(map(_rate, bases)),
            "checkpoints": sum(block.checkpoints for block in blocks),
            "by_nodes": sorted(by_nodes, key=lambda row: row["nodes"]),
            "latency_rate": rate,
            "latency": latency,
            "files": len(files),
            "bytes": sum(file.st_size for file in files),
        },
        criteria=[
            at_least("asynchronous, 3 s: throughput / without", kept, KEPT),
            at_most("1 s: loss, asynchronous / synchronous", _losses(ratios, 1.0), LOSS),
            at_least(
                "checkpoints in a block that has some, least",
                min(block.checkpoints for block in blocks), 2,
            ),
            at_most("checkpoints in blocks without", sum(base.checkpoints for base in bases), 0),
            at_least("files copied", len(files), 1),
            at_most("of them hard links", sum(file.st_nlink > 1 for file in files), 0),
        ],
        tables=[table_of(ratios, pairs), *more_tables(by_nodes, rate, latency)],
    )  # fmt: skip


def _pairs(loop: EpochLoop, rounds: int, session: Session) -> list[tuple[Measured, Measured]]:
    """Blocks without snapshots, each with one with asynchronous ones after it."""
    run_block(loop, Block(epochs=WARM_UP, interval=NEVER))
    found: list[tuple[Measured, Measured]] = []
    for _ in range(rounds):
        base = run_block(loop, Block(epochs=_epochs(session), interval=NEVER))
        found.append((base, _block(loop, "asynchronous", BY_NODES, session)))
    return found


def _nodes_row(nodes: int, found: Sequence[tuple[Measured, Measured]]) -> dict[str, Any]:
    return {
        "nodes": nodes,
        "none": round(statistics.median(_rate(base) for base, _ in found)),
        "asynchronous": round(statistics.median(_rate(block) for _, block in found)),
        "relative": round(statistics.median(_ratios(found)), 4),
        "checkpoints": sum(block.checkpoints for _, block in found),
    }


def _epochs(session: Session) -> int:
    return 20 if session.quick else 40


def _block(loop: EpochLoop, mode: str, interval: float, session: Session) -> Measured:
    """At least as many epochs as a block without snapshots has, and two checkpoints."""
    loop.machine.checkpoints.synchronous = mode == "synchronous"
    found = run_block(loop, Block(epochs=_epochs(session), checkpoints=2, interval=interval))
    while loop.machine.checkpoints.under_way:  # it is not of the next block
        loop.iterate()
    return found


def _rate(block: Measured) -> float:
    return block.tuples / block.seconds


def _ratios(found: Sequence[tuple[Measured, Measured]]) -> list[float]:
    return [round(_rate(block) / _rate(base), 4) for base, block in found]


def _losses(ratios: Mapping[tuple[str, float], Sequence[float]], interval: float) -> float:
    asynchronous, synchronous = (1 - statistics.median(ratios[mode, interval]) for mode in MODES)
    return max(0.0, asynchronous) / max(synchronous, 1e-9)


@contextmanager
def copying() -> Iterator[Path]:
    """A directory for checkpoints, on another file system than states."""
    parent = os.environ.get("CHECKPOINTS", "/dev/shm")  # noqa: S108 - the name below it is our own
    with tempfile.TemporaryDirectory(prefix="resurge-checkpoints-", dir=parent) as name:
        before = os.environ.get("RESURGE_CHECKPOINTS")
        os.environ["RESURGE_CHECKPOINTS"] = f"file://{name}"
        try:
            yield Path(name)
        finally:
            del os.environ["RESURGE_CHECKPOINTS"]
            if before is not None:
                os.environ["RESURGE_CHECKPOINTS"] = before


def copies(storage: Path) -> list[os.stat_result]:
    """What is known of the files of states that are there."""
    return [path.stat() for path in storage.rglob("*") if path.is_file() and "files" in path.parts]


def table_of(
    ratios: Mapping[tuple[str, float], Sequence[float]],
    pairs: Mapping[tuple[str, float], Sequence[tuple[Measured, Measured]]],
) -> Table:
    title = f"Six operators, three shuffles, {NODES} nodes: throughput relative to none"
    table = Table(title=title, title_justify="left")
    for column in ("snapshots", "every", "median", "min", "max", "tuples/s", "taken"):
        table.add_column(column, justify="right")
    for (mode, interval), found in ratios.items():
        blocks = [block for _, block in pairs[mode, interval]]
        spread = statistics.median(found), min(found), max(found)
        table.add_row(
            mode, f"{interval:g} s", *(f"{one:.3f}" for one in spread),
            f"{statistics.median(map(_rate, blocks)):,.0f}", f"{sum(block.checkpoints for block in blocks)}",
        )  # fmt: skip
    return table


def more_tables(
    by_nodes: Sequence[Mapping[str, Any]], rate: float, latency: Sequence[Mapping[str, Any]]
) -> list[Table]:
    nodes = Table(title=f"Every {BY_NODES:g} s, by nodes: tuples/s", title_justify="left")
    for column in ("nodes", "none", "asynchronous", "relative", "taken"):
        nodes.add_column(column, justify="right")
    for row in by_nodes:
        rates = f"{row['none']:,}", f"{row['asynchronous']:,}"
        nodes.add_row(f"{row['nodes']}", *rates, f"{row['relative']:.3f}", f"{row['checkpoints']}")
    times = Table(title=f"Latency of epochs at {rate:,.0f} tuples/s", title_justify="left")
    for column in ("snapshot every", "epochs", "taken", "p50", "p99"):
        times.add_column(column, justify="right")
    for row in latency:
        every = f"{row['interval']:g} s" if row["interval"] else "none"
        counts = f"{row['epochs']}", f"{row['checkpoints']}"
        times.add_row(every, *counts, f"{row['p50']:.3f} s", f"{row['p99']:.3f} s")
    return [nodes, times]


def draw(results: Mapping[str, Any]) -> Figure:
    drawn, axes = figure(3)
    throughput, nodes, latency = axes[0]
    for mode, colour, marker in zip(MODES, COLOURS, MARKERS, strict=False):
        rows = [row for row in results["relative_throughput"] if row["mode"] == mode]
        medians = [row["median"] for row in rows]
        throughput.plot([row["interval"] for row in rows], medians, color=colour, marker=marker, label=mode)
    throughput.axhline(1.0, color=COLOURS[-1], linewidth=0.8, linestyle=":", label="none")
    throughput.set(xlabel="seconds between snapshots", ylabel="throughput, relative to none", ylim=(0, None))
    counts = [row["nodes"] for row in results["by_nodes"]]
    for name, colour, marker in zip(("none", "asynchronous"), COLOURS[::-1], MARKERS, strict=False):
        nodes.plot(
            counts, [row[name] for row in results["by_nodes"]], color=colour, marker=marker, label=name
        )
    nodes.set(xlabel="nodes, on the same cores", ylabel="tuples/s", ylim=(0, None), xticks=counts)
    rows = [row for row in results["latency"] if row["interval"]]
    for name, colour, marker in zip(("p50", "p99"), COLOURS, MARKERS, strict=False):
        intervals = [row["interval"] for row in rows]
        latency.plot(intervals, [row[name] for row in rows], color=colour, marker=marker, label=name)
        none = next(row[name] for row in results["latency"] if not row["interval"])
        latency.axhline(none, color=colour, linewidth=0.8, linestyle=":", label=f"{name} without")
    latency.set(xlabel="seconds between snapshots", ylabel="latency, s", ylim=(0, None))
    for axis in axes[0]:
        axis.legend()
    return drawn


if __name__ == "__main__":
    sys.exit(run(name="snapshots", about=__doc__, measure=measure, draw=draw))
