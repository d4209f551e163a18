"""State that is larger than the memory of an executor, through Spark: throughput by its size, the latency of
epochs while a checkpoint is under way, and a recovery.

One node with an executor of 1 GB holds a row for each key; the state grows to `--gigabytes`. At each size on
the way, epochs that change one key of a thousand at random are timed. At 1 GB the latency of epochs is
compared, from when checkpoints upload little of the state: blocks in which the next checkpoint begins when
one is complete, and blocks without any. Uploads are spread out as with the default interval of checkpoints;
what agents write while an epoch runs is counted. Epochs begin at a steady rate, as where input keeps coming,
and then as soon as the one before has ended, as where input is caught up with. Checkpoints go to another file
system (CHECKPOINTS=<directory>, default /dev/shm), so every file is copied. In the end the node is killed by
SIGKILL, its disk is removed, and another node restores everything from the newest checkpoint. What the run
has given is compared with what it should have.

`--quick`: a state of 300 MB, latencies at 100 MB.
"""

from __future__ import annotations

import argparse
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from rich.table import Table

from benchmarks.engine import Deployment, advance, deployed
from benchmarks.held_rows import HeldRows, Numbers, faults, key_texts
from benchmarks.memory import processes
from benchmarks.runner import COLOURS, Report, Session, at_least, at_most, figure, run
from benchmarks.snapshots import copying
from benchmarks.stack import stopping_in_order
from domain.messages import Plan
from domain.topology import Topology, load_topology
from host import environment
from host.environment import Delay
from spark_jobs.driver.loop import EpochLoop
from spark_jobs.operators.catalogue import catalogue
from spark_jobs.sinks.committed import committed_files, committed_read
from spark_jobs.state.store import StateStore
from workers.providers.local import LocalNodeProvider

if TYPE_CHECKING:
    from matplotlib.figure import Figure

NAME, PARTITIONS = "large", 2
ROW, OTHERS = 400, 40
"""Bytes of a row's text; about so many more for its key, its count, its hash and offsets."""
GROWING, LAST = 50_000, 5_000
"""Tuples of an epoch while the state grows, and when it has nearly its size."""
EPOCHS = 40
"""In a block, and timed at each size."""
SHARE = 0.001
"""Of the keys, changed in an epoch."""
STEADY = 0.2
"""Seconds from the begin of an epoch to that of the next, at a steady rate: about half of it is busy."""
SLOWER = 1.15
SETTLED, MOST_SETTLING = 0.2, 20
"""Latencies are compared once a checkpoint uploads at most this share of the state: before, most of it is
what growing has left behind. At most so many checkpoints are awaited."""
INTERVAL, NEVER = 10.0, 1e9
STORED = 50_000
"""Bytes that an agent writes within an epoch: then it uploads. Without uploads it writes less."""
GIGABYTE = 1_000_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Course:
    """What comes: `sequence` of keys, and where parts of it end: the state has `sizes[i]` bytes from tuple
    `grown[i]` on, and until `changed[i]` its keys change at random."""

    sequence: Numbers
    sizes: Sequence[int]
    grown: Sequence[int]
    changed: Sequence[int]


@dataclass(slots=True)
class Latencies:
    """Seconds of epochs `with_one` (a checkpoint under way) and `without`; of the former, bytes that agents
    `wrote` while each ran. every: seconds between their begins; 0: each begins when the one before has
    ended."""

    every: float
    with_one: list[float] = field(default_factory=list)
    wrote: list[int] = field(default_factory=list)
    without: list[float] = field(default_factory=list)
    checkpoints: int = 0

    @property
    def beside(self) -> list[float]:
        """Of epochs in which agents stored something."""
        return [seconds for seconds, wrote in zip(self.with_one, self.wrote, strict=True) if wrote >= STORED]

    @property
    def row(self) -> dict[str, Any]:
        return {
            "every_s": self.every,
            "epochs_with_a_checkpoint": len(self.with_one),
            "epochs_without": len(self.without),
            "epochs_with_uploads": len(self.beside),
            "uploaded_in_epochs_mb": round(sum(self.wrote) / 1e6),
            "checkpoints": self.checkpoints,
            "p99_with": round(p99(self.with_one), 4), "p99_without": round(p99(self.without), 4),
            "p99_ratio": round(p99(self.with_one) / p99(self.without), 4),
            "p99_ratio_with_uploads": round(p99(self.beside) / p99(self.without), 4),
            "median_with": round(statistics.median(self.with_one), 4),
            "median_without": round(statistics.median(self.without), 4),
        }  # fmt: skip


def course_of(sizes: Sequence[int], compared: int, blocks: int) -> Course:
    """At size `compared` there are epochs for so many pairs of blocks."""
    dice = np.random.default_rng(7)
    parts: list[Numbers] = []
    grown: list[int] = []
    changed: list[int] = []
    keys = count = 0
    for size in sizes:
        new = size // (ROW + OTHERS) - keys
        parts.append(dice.permutation(np.arange(keys, keys + new)))
        keys += new
        grown.append(count + new)
        # What is planned ahead, and epochs that are not timed, are within the slack.
        epochs = 3 * EPOCHS + (size == compared) * (10 * blocks + MOST_SETTLING) * EPOCHS
        parts.append(dice.integers(0, keys, epochs * changes(size)))
        count += new + epochs * changes(size)
        changed.append(count)
    return Course(sequence=np.concatenate(parts), sizes=sizes, grown=grown, changed=changed)


def changes(size: int) -> int:
    """Tuples of an epoch at this size."""
    return max(1, round(size / (ROW + OTHERS) * SHARE))


def topology_of(path: Path) -> Topology:
    source = {"reader": "file", "rate": 100_000, "pace": "fast", "path": str(path)}
    held = {"class": f"{HeldRows.__module__}.{HeldRows.__name__}", "params": {"bytes": ROW}}
    return load_topology(
        {
            "name": NAME,
            "epoch_interval": 1.0,
            "max_epoch_tuples": GROWING,
            "operators": [
                {"name": "Source", "kind": "source", "parallelism": 1, "params": source},
                {
                    "name": "Held", "kind": "python", "parallelism": PARTITIONS, "params": held,
                    "deterministic": True, "output": True,
                    "inputs": [{"from": "Source", "partitioning": "full", "key": "text"}],
                },
            ],
        },
        catalogue,
    )  # fmt: skip


def measure(session: Session) -> Report:
    options = session.options
    largest = 0.3 if session.quick else options.gigabytes
    compared = round(GIGABYTE * min(largest, 0.1 if session.quick else 1.0))
    blocks = 2 if session.quick else 12
    sizes = sorted(
        {compared, *(round(GIGABYTE * one) for one in (0.1, 0.3, 1.0, 2.0, largest) if one <= largest)}
    )
    course = course_of(sizes, compared, blocks)
    before = os.environ.get("RESURGE_OPERATOR_MODULES")
    os.environ["RESURGE_OPERATOR_MODULES"] = "spark_jobs.operators,benchmarks.held_rows"
    try:
        with tempfile.TemporaryDirectory(prefix="resurge-large-") as name, copying():
            path = Path(name) / "keys.parquet"
            pq.write_table(pa.table({"text": key_texts(course.sequence)}), path)
            return _measured(session, course, topology_of(path), compared, blocks)
    finally:
        del os.environ["RESURGE_OPERATOR_MODULES"]
        if before is not None:
            os.environ["RESURGE_OPERATOR_MODULES"] = before


def _measured(session: Session, course: Course, topology: Topology, compared: int, blocks: int) -> Report:
    assignment = dict.fromkeys(topology.partitions, "node-1")
    found: list[dict[str, Any]] = []
    steady, at_once = Latencies(STEADY), Latencies(0.0)
    uploaded = 1.0
    with stopping_in_order(), deployed(topology, nodes=2, assignment=assignment) as deployment:
        loop = deployment.loop
        loop.machine.checkpoints.set_interval(NEVER, loop.clock())
        steps = len(course.sizes) * 2 + 2 * blocks + 1
        with session.progress("growing, changing, comparing, recovering", steps) as step:
            for size, grown, changed in zip(course.sizes, course.grown, course.changed, strict=True):
                growth = grow(loop, grown)
                step()
                limit(loop, changes(size))
                first = checkpoint(loop)  # all that is new; what growing has left behind goes
                seconds = timed(loop, EPOCHS)
                if size == compared:
                    uploaded = settle(loop, size)
                    compare(loop, steady, blocks, step)
                    compare(loop, at_once, blocks, step)
                found.append(size_row(loop, size, growth, seconds, first))
                if tuples(loop) >= changed:
                    raise RuntimeError("keys of the next size came too early")
                step()
            checkpoint(loop)
            newest = loop.machine.checkpoints.latest
            row = recovery(deployment, topology)
            step()
        if tuples(loop) > len(course.sequence):
            raise RuntimeError("the input has begun again: more epochs came than were reckoned with")
        given = rows_given(environment.read().home)
        wrong = faults(given, course.sequence[: tuples(loop)])
        restored = state_bytes(environment.read().home, "node-2", loop.log.committed)
    node = max(one["executors_mb"] for one in found)
    return Report(
        parameters={
            "gigabytes": course.sizes[-1] / GIGABYTE, "partitions": PARTITIONS, "row_bytes": ROW,
            "executor_memory": "1g", "compared_at_mb": compared / 1e6, "epochs_in_a_block": EPOCHS,
            "blocks": blocks,
        },
        results={
            "sizes": found,
            "uploaded_before_share": round(uploaded, 4),
            "latencies": [steady.row, at_once.row],
            "recovery": row,
        },
        criteria=[
            at_most(
                "p99 of an epoch at a steady rate, with a checkpoint under way / without",
                steady.row["p99_ratio"],
                SLOWER,
            ),
            at_least(
                "epochs with a checkpoint under way, of each kind",
                min(len(steady.with_one), len(at_once.with_one)),
                blocks * EPOCHS // 2,
            ),
            at_least(
                "epochs in which agents uploaded, of each kind",
                min(len(steady.beside), len(at_once.beside)),
                blocks * EPOCHS // 8,
            ),
            at_least(
                "checkpoints in the blocks that have some, of each kind",
                min(steady.checkpoints, at_once.checkpoints),
                2,
            ),
            at_least("state of the node / asked for", found[-1]["state_mb"] * 1e6 / course.sizes[-1], 0.95),
            at_most("memory of executors' Java processes, MB, greatest", node, 1600),
            at_least("checkpoint that was restored", newest, 1),
            at_least("state restored / asked for", restored / course.sizes[-1], 0.95),
            at_least("rows compared", given.num_rows, 1),
            at_most("rows given twice", wrong["twice"], 0),
            at_most("keys with another count", wrong["different"], 0),
        ],
        tables=[table_of(found), latency_table([steady.row, at_once.row])],
    )  # fmt: skip


def p99(seconds: Sequence[float]) -> float:
    return float(np.quantile(seconds, 0.99))


def limit(loop: EpochLoop, most: int) -> None:
    """Of the tuples in epochs that are planned from now on."""
    spec = msgspec.structs.replace(loop.planner.topology.spec, max_epoch_tuples=most)
    loop.planner.topology = Topology(spec)


def grow(loop: EpochLoop, last: int) -> float:
    """Go on until so many tuples are committed; returns how many there were in a second of large epochs."""
    limit(loop, GROWING)
    advance(loop, 1)
    began, first = time.perf_counter(), tuples(loop)
    while planned(loop) + 2 * GROWING < last:
        advance(loop, 1)
    rate = (tuples(loop) - first) / (time.perf_counter() - began)
    limit(loop, LAST)
    while tuples(loop) < last:
        advance(loop, 1)
    return rate


def planned(loop: EpochLoop) -> int:
    return int(loop.log.plans[loop.log.head].slices["Source"][1]["tuple"])


def tuples(loop: EpochLoop) -> int:
    """Of all committed epochs."""
    plan = loop.log.plans.get(loop.log.committed)
    return int(plan.slices["Source"][1]["tuple"]) if plan is not None else 0


def timed(loop: EpochLoop, epochs: int, every: float = 0.0) -> list[float]:
    """Seconds of each. every: seconds from the begin of one to that of the next, at least."""
    found: list[float] = []
    for _ in range(epochs):
        if found:
            time.sleep(max(0.0, every - found[-1]))
        began = time.perf_counter()
        advance(loop, 1)
        found.append(time.perf_counter() - began)
    return found


def compare(loop: EpochLoop, latencies: Latencies, blocks: int, step: Callable[[], None]) -> None:
    """In turn, blocks without checkpoints, and blocks in which the next one begins when one is complete."""
    checkpoints, agents = loop.machine.checkpoints, agents_io()
    for _ in range(blocks):
        latencies.without += timed(loop, EPOCHS, latencies.every)
        latest = checkpoints.latest
        for _ in range(EPOCHS):
            under_way = bool(checkpoints.under_way)
            if not under_way:
                checkpoints.set_interval(INTERVAL, loop.clock() - INTERVAL)
            before = written(agents)
            seconds = timed(loop, 1)
            wrote = written(agents) - before
            time.sleep(max(0.0, latencies.every - seconds[0]))
            if under_way or checkpoints.under_way:
                latencies.with_one += seconds
                latencies.wrote.append(wrote)
            latencies.checkpoints += checkpoints.latest != latest
            latest = checkpoints.latest
        checkpoints.set_interval(NEVER, loop.clock())
        while checkpoints.under_way:
            advance(loop, 1)
        step()


def agents_io() -> list[Path]:
    """`/proc/<pid>/io` of the agents."""
    found = [
        directory / "io"
        for directory, _ in processes(str(environment.read().home))
        if b"spark_jobs.agent" in (directory / "cmdline").read_bytes()
    ]
    if not found:
        raise RuntimeError("no agent runs")
    return found


def written(agents: Sequence[Path]) -> int:
    """Bytes that these processes have written so far, to files and connections."""
    lines = [line for path in agents for line in path.read_text().splitlines()]
    return sum(int(line.split()[1]) for line in lines if line.startswith("wchar:"))


def settle(loop: EpochLoop, size: int) -> float:
    """Go on until checkpoints upload little; returns the share of the state that the last one did."""
    for _ in range(MOST_SETTLING):
        advance(loop, EPOCHS // 2)
        checkpoint(loop)
        share = uploaded_bytes(loop) / size
        if share <= SETTLED:
            return share
    raise RuntimeError(f"checkpoints still upload {share:.0%} of the state")


def uploaded_bytes(loop: EpochLoop) -> int:
    """Of the newest checkpoint."""
    acks = loop.coordination.acknowledgements(loop.machine.checkpoints.latest, loop.log.deployed)
    if len(acks) < len(loop.topology.partitions):
        raise RuntimeError(f"the newest checkpoint has {len(acks)} acknowledgements")
    return sum(ack.uploaded_bytes for ack in acks)


def checkpoint(loop: EpochLoop) -> list[float]:
    """One more, until it is complete; returns the seconds of epochs while it was under way."""
    checkpoints = loop.machine.checkpoints
    before = checkpoints.latest
    checkpoints.set_interval(0.0, loop.clock())  # and so as quickly as it can be made
    while not checkpoints.under_way:
        advance(loop, 1)
    checkpoints.set_interval(NEVER, loop.clock())
    found: list[float] = []
    while checkpoints.under_way:
        found += timed(loop, 1)
    if checkpoints.latest == before:
        raise RuntimeError("the checkpoint has failed")
    return found


def recovery(deployment: Deployment, topology: Topology) -> dict[str, Any]:
    """Kill the node, and have another one start from the newest checkpoint."""
    loop = deployment.loop
    provider = LocalNodeProvider(
        home=environment.read().home, delay=Delay(0, 0), environment=dict(os.environ)
    )
    committed, began = loop.log.committed, time.perf_counter()
    provider.fail("node-1")
    provider.release("node-1")
    deployment.plan_publish(
        Plan(
            generation=2, kind="recover", deployed=1, assignment=dict.fromkeys(topology.partitions, "node-2"),
            rollback=True, checkpoint=loop.machine.checkpoints.latest, restore=list(topology.partitions),
        ),
    )  # fmt: skip
    while loop.log.committed <= committed or loop.machine.generation < 2:
        loop.iterate()
    seconds = time.perf_counter() - began
    advance(loop, EPOCHS)
    return {"seconds": round(seconds, 1), "node": "node-2", "epochs_after": EPOCHS}


def rows_given(home: Path) -> pa.Table:
    directory = home / "outputs" / NAME
    committed = committed_read(directory)
    if committed is None:
        raise RuntimeError(f"{directory} has no committed outputs")
    return pa.concat_tables(
        pq.ParquetFile(file).read(columns=["key", "count"])
        for file in committed_files(directory, "Held", committed)
    )


def state_bytes(home: Path, node: str, epoch: int) -> int:
    """Of all partitions on a node, after an epoch."""
    stores = (home / "nodes" / node / "state" / NAME).glob("*/Held*")
    return sum(StateStore(directory).manifest(epoch).bytes for directory in stores)


def size_row(
    loop: EpochLoop, size: int, growth: float, seconds: Sequence[float], first: Sequence[float]
) -> dict[str, Any]:
    home = str(environment.read().home)
    memory: dict[str, int] = {}
    for directory, what in processes(home):
        memory[what] = memory.get(what, 0) + own_memory(directory)
    return {
        "keys": size // (ROW + OTHERS),
        "state_mb": round(state_bytes(Path(home), "node-1", loop.log.committed) / 1e6, 1),
        "growing_tuples_per_s": round(growth),
        "changes": changes(size),
        "epoch_median_s": round(statistics.median(seconds), 4),
        "epoch_p99_s": round(p99(seconds), 4),
        "checkpoint_epochs": len(first),
        "checkpoint_s": round(sum(first), 1),
        "checkpoint_epoch_median_s": round(statistics.median(first or [0.0]), 4),
        "tuples_per_s": round(changes(size) / statistics.median(seconds)),
        "executors_mb": round(memory.get("executors", 0) / 1e6),
        "python_workers_mb": round(memory.get("python workers", 0) / 1e6),
    }


def own_memory(directory: Path) -> int:
    """Bytes of a process that are no mapped file; 0 if it has ended."""
    try:
        lines = (directory / "status").read_text().splitlines()
    except OSError:
        return 0
    found = [int(line.split()[1]) << 10 for line in lines if line.startswith("RssAnon:")]
    return found[0] if found else 0


def table_of(found: Sequence[Mapping[str, Any]]) -> Table:
    table = Table(title="One node, an executor of 1 GB: by the size of the state", title_justify="left")
    headings = ("keys", "state MB", "growing, tuples/s", "epoch of", "median", "p99", "Java MB", "Python MB")
    for heading in headings:
        table.add_column(heading, justify="right")
    for one in found:
        table.add_row(
            f"{one['keys']:,}", f"{one['state_mb']:,.0f}", f"{one['growing_tuples_per_s']:,}",
            f"{one['changes']:,}", f"{one['epoch_median_s']:.3f} s", f"{one['epoch_p99_s']:.3f} s",
            f"{one['executors_mb']:,}", f"{one['python_workers_mb']:,}",
        )  # fmt: skip
    return table


def latency_table(rows: Sequence[Mapping[str, Any]]) -> Table:
    table = Table(title="Latency of epochs beside a checkpoint and without", title_justify="left")
    for heading in ("an epoch every", "median with", "without", "p99 with", "without", "p99 ratio",
                    "with uploads"):  # fmt: skip
        table.add_column(heading, justify="right")
    for row in rows:
        seconds = (row[name] for name in ("median_with", "median_without", "p99_with", "p99_without"))
        every = f"{row['every_s']} s" if row["every_s"] else "at once"
        table.add_row(every, *(f"{one:.3f} s" for one in seconds), f"{row['p99_ratio']:.2f}",
                      f"{row['p99_ratio_with_uploads']:.2f}")  # fmt: skip
    return table


def draw(results: Mapping[str, Any]) -> Figure:
    drawn, axes = figure(3)
    sizes = [one["state_mb"] for one in results["sizes"]]
    series = (
        ("growing_tuples_per_s", "new keys per second, large epochs"),
        ("tuples_per_s", "changed keys per second, small epochs"),
        ("python_workers_mb", "MB of the Python workers, without mapped files"),
    )
    for axis, (name, label), colour in zip(axes[0], series, COLOURS, strict=False):
        axis.plot(sizes, [one[name] for one in results["sizes"]], marker="o", color=colour)
        axis.set(xscale="log", xlabel="state of the node, MB", ylabel=label, ylim=(0, None))
    return drawn


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--gigabytes", type=float, default=4.0, help="the largest state (default 4)")


if __name__ == "__main__":
    sys.exit(run(name="large_state", about=__doc__, measure=measure, draw=draw, arguments=arguments))
