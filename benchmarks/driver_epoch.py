"""CPU seconds of the driver for an epoch of one full shuffle. Spark is not measured: a simulated cluster
reports every partition as done at once."""

from __future__ import annotations

import statistics
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import structlog
from rich.table import Table

from benchmarks.runner import Report, Session, at_most, run
from domain.execution.checkpoints import Checkpoints
from domain.execution.job import EpochPlan, Job, Layout, PartitionReport, TaskReport
from domain.messages import Control, Plan
from domain.topology import InputSpec, OperatorSpec, Topology, TopologySpec
from host.environment import read
from spark_jobs.driver.cluster import Executor
from spark_jobs.driver.epoch_log import EpochLog
from spark_jobs.driver.loop import EpochLoop
from spark_jobs.sinks.registry import sink_create

SIZES = (1_000, 4_000, 10_000)
NODES = 100
LIMIT = 0.3


def shuffle(partitions: int) -> Topology:
    """Half of the partitions are sources; each of the others receives from all sources."""
    half = partitions // 2
    operators = (
        OperatorSpec(name="S", kind="source", parallelism=half),
        OperatorSpec(
            name="A",
            kind="k",
            parallelism=half,
            inputs=(InputSpec(source="S", partitioning="full"),),
            output=True,
        ),
    )
    return Topology(TopologySpec(name="t", operators=operators))


class IdleCluster:
    """Runs no job: it reports that every partition of a job has applied its last epoch. Nothing replays."""

    replaying = False

    def __init__(self, topology: Topology) -> None:
        self.topology = topology
        self.known = frozenset(Executor(str(n), f"10.0.0.{n}") for n in range(NODES))

    def executors(self) -> frozenset[Executor]:
        return self.known

    def ready(self, executors: frozenset[Executor]) -> frozenset[Executor]:
        return executors

    def pin(self, addresses: list[str], obsolete: Callable[[], bool]) -> None: ...

    def pinned(self, addresses: list[str]) -> bool:
        return False

    def prepared(self, addresses: list[str]) -> bool:
        return True

    def replayed(self) -> None: ...

    def run(self, layout: Layout, job: Job, obsolete: Callable[[], bool]) -> list[TaskReport]:
        by_task: dict[tuple[int, int], dict[str, PartitionReport]] = {}
        for partition in job.lane.starts if job.lane is not None else ():
            task = (layout.levels[partition], layout.slots[partition])
            report = PartitionReport(epoch=job.epochs[-1].epoch, cpu_seconds=0.001, rows_in=10, rows_out=10)
            by_task.setdefault(task, {})[partition] = report
        return [
            TaskReport(slot=slot, level=level, node=layout.nodes[slot], partitions=partitions)
            for (level, slot), partitions in by_task.items()
        ]


class IdleCoordination:
    """ZooKeeper with one plan that never changes."""

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self.spec = SimpleNamespace(desired="running")
        self.control = Control()
        self.latest = None
        self.session = "1"
        self.changed = SimpleNamespace(wait=lambda seconds: None, set=lambda: None)
        self.superseded = 0
        self.addresses = {f"node-{n}": f"10.0.0.{n}" for n in range(NODES)}

    def refresh(self) -> bool:
        return True

    def gone_addresses(self) -> frozenset[str]:
        return frozenset()

    def publish(self, status: object) -> None: ...

    def read_costs(self) -> dict[str, float]:
        return {}


class NextEpoch:
    """An input that always has one more epoch due."""

    realtime = False
    finished = False
    options: dict[str, dict[str, Any]] = {}  # noqa: RUF012 - never changed

    def __init__(self, log: EpochLog) -> None:
        self.log = log

    def start(self) -> None:
        self.log.start(at=0.0, origin_us=0)

    def due_at(self, epoch: int) -> float:
        return 0.0

    def plan_due(self, *, ahead: int, reached: int) -> None:
        if self.log.head <= reached:
            epoch = self.log.head + 1
            slices = {"S": ({"tuple": epoch - 1}, {"tuple": epoch})}
            plan = EpochPlan(
                epoch=epoch, slices=slices, watermark=epoch, previous_watermark=epoch - 1, at=0.0
            )
            self.log.plan([plan])


def epoch_seconds(partitions: int, epochs: int, step: Callable[[], None]) -> list[float]:
    """CPU seconds of this process for each of `epochs` epochs."""
    topology = shuffle(partitions)
    assignment = {p: f"node-{index % NODES}" for index, p in enumerate(topology.partitions)}
    coordination: Any = IdleCoordination(Plan(generation=1, kind="deploy", assignment=assignment))
    cluster: Any = IdleCluster(topology)
    retention: Any = None
    with tempfile.TemporaryDirectory() as name:
        log = EpochLog(Path(name) / "epochs.log")
        planner: Any = NextEpoch(log)
        loop = EpochLoop(
            topology=topology,
            coordination=coordination,
            cluster=cluster,
            epoch_log=log,
            planner=planner,
            send=lambda message: None,
            checkpoints=Checkpoints(
                topology="t", partitions=topology.partitions, interval=1e9, since=time.time()
            ),
            retention=retention,
            sink=sink_create(topology.spec, name),
            settings=read({}),
            clock=time.time,
            stop=threading.Event(),
        )
        for _ in range(3):
            loop.iterate()
        seconds: list[float] = []
        for _ in range(epochs):
            before, started = log.committed, time.process_time()
            loop.iterate()
            seconds.append(time.process_time() - started)
            assert log.committed == before + 1, "a turn is an epoch here"  # noqa: S101 - or it measures nothing
            step()
        log.close()
    return seconds


def measure(session: Session) -> Report:
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(40))
    epochs = 5 if session.quick else 30
    rows: list[dict[str, Any]] = []
    with session.progress("epochs", epochs * len(SIZES)) as step:
        for partitions in SIZES:
            seconds = epoch_seconds(partitions, epochs, step)
            median, worst = statistics.median(seconds), max(seconds)
            rows.append({"partitions": partitions, "median": round(median, 4), "worst": round(worst, 4)})
    table = Table(title="Driver CPU for an epoch of one full shuffle", title_justify="left")
    for column in ("partitions", "channels", "median ms", "worst ms"):
        table.add_column(column, justify="right")
    for row in rows:
        channels = (row["partitions"] // 2) ** 2
        figures = (f"{1e3 * row['median']:.1f}", f"{1e3 * row['worst']:.1f}")
        table.add_row(f"{row['partitions']:,}", f"{channels:,}", *figures)
    return Report(
        parameters={"sizes": list(SIZES), "nodes": NODES, "epochs": epochs},
        results={"epochs": rows},
        criteria=[at_most(f"CPU s at {SIZES[-1]:,} partitions, median", rows[-1]["median"], LIMIT)],
        tables=[table],
    )


if __name__ == "__main__":
    sys.exit(run(name="driver_epoch", about=__doc__, measure=measure))
