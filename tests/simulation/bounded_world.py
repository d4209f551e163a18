"""A topology with a bounded guarantee in the engine's world: an operator that lists, for each key, the rows
that it has counted, so that each row that was lost or counted twice can be named."""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from domain.execution.job import EpochPlan, Job, Layout, TaskReport
from domain.messages import Plan
from domain.topology import Topology, load_topology
from spark_jobs.agent.keeper import Keeper
from spark_jobs.executor.exchange import key_buckets
from spark_jobs.operators.base import EpochContext, Operator
from spark_jobs.operators.catalogue import OperatorCatalogue
from spark_jobs.sinks.committed import committed_files, committed_read
from spark_jobs.state.tables import StateTables
from tests.simulation.engine_cluster import PlayedCluster
from tests.simulation.engine_world import World

MODULES: Final = ("tests.simulation.bounded_world",)
EVERY: Final = 4.0
"""Seconds of input after which changed keys are stored."""
LIMIT: Final = 900
KEYS: Final = "abcdefgh"
COUNTERS: Final = 2


class Numbered(Operator):
    """Gives each row of the source its number, which is in the text, and its key."""

    kind = "numbered"
    keeps_state = False

    @classmethod
    def doubt(cls, params: Mapping[str, Any]) -> str:
        return ""

    def process(
        self, context: EpochContext, inputs: Mapping[str, Sequence[pa.Table]], state: StateTables
    ) -> pa.Table | None:
        tables = [table for name in self.inputs for table in inputs.get(name, ())]
        if not tables:
            return None
        texts = pa.concat_tables(tables).column("text").to_pylist()
        return pa.table(
            {"key": [text.split()[0] for text in texts], "row": [int(text.split()[1]) for text in texts]}
        )


class Listing(Operator):
    """Keeps the rows of each key in a table, and gives all of them for each key that rows come for."""

    kind = "listing"

    @classmethod
    def state_columns(cls, params: Mapping[str, Any]) -> Sequence[str]:
        return ("key",)

    def process(
        self, context: EpochContext, inputs: Mapping[str, Sequence[pa.Table]], state: StateTables
    ) -> pa.Table | None:
        tables = [table for name in self.inputs for table in inputs.get(name, ()) if table.num_rows]
        if not tables:
            return None
        rows = pa.concat_tables(tables).select(["key", "row"])
        state.table("rows").append(rows)
        everything = state.table("rows").read()
        assert everything is not None
        state.table("rows").replace(everything)
        mine = everything.filter(pc.is_in(everything.column("key"), value_set=rows.column("key")))
        listed = mine.group_by("key", use_threads=False).aggregate([("row", "list")])
        return pa.table(
            {
                "key": listed.column("key"),
                "rows": listed.column("row_list"),
                "epoch": pa.repeat(pa.scalar(context.epoch, pa.int64()), listed.num_rows),
            }
        )


def bounded_pipeline(source: Path, every: str) -> Topology:
    def stream(name: str, partitioning: str) -> list[dict[str, Any]]:
        return [{"from": name, "partitioning": partitioning}]

    return load_topology(
        {
            "name": "t",
            "guarantee": "bounded",
            "key_saving": {"every": every, "fetch_wait_s": 60, "failures": 3, "bypass_s": 5},
            "max_epoch_tuples": 20,
            "catch_up_epochs": 4,
            "operators": [
                {
                    "name": "S",
                    "kind": "source",
                    "parallelism": 2,
                    "params": {"path": str(source), "rate": 10, "limit": LIMIT, "pace": "fast"},
                },
                {
                    "name": "P",
                    "kind": "python",
                    "parallelism": 2,
                    "inputs": stream("S", "one_to_one"),
                    "params": {"class": f"{MODULES[0]}.Numbered"},
                    "deterministic": True,
                },
                {
                    "name": "C",
                    "kind": "python",
                    "parallelism": COUNTERS,
                    "inputs": stream("P", "full"),
                    "params": {"class": f"{MODULES[0]}.Listing"},
                    "deterministic": True,
                    "output": True,
                },
            ],
        },
        OperatorCatalogue(MODULES),
    )


def write_rows(path: Path) -> None:
    keys = random.Random(7)
    pq.write_table(pa.table({"text": [f"{keys.choice(KEYS)} {number}" for number in range(LIMIT)]}), path)


@dataclass
class BoundedWorld(World):
    """ran: epoch -> partitions that applied it, in the history that counts. begun: partition -> for each time
    that it began without state, the last epoch that it had applied. epochs_at_once: that a job has run, at
    most. fetched: keys whose state was fetched. plans: the epochs of all jobs."""

    ran: dict[int, set[str]] = field(default_factory=lambda: defaultdict(set))
    begun: dict[str, list[int]] = field(default_factory=lambda: defaultdict(list))
    epochs_at_once: int = 1
    plans: dict[int, EpochPlan] = field(default_factory=dict)
    fetched: int = 0
    keepers: dict[str, Keeper] = field(default_factory=dict)

    def keep(self) -> None:
        """The work of the keepers: all that waits is stored."""
        for name in sorted(self.nodes):
            home = self.root / "nodes" / name
            self.keepers.setdefault(name, Keeper(home, lambda: self.now)).drain(60)

    def took(self, job: Job, reports: Sequence[TaskReport]) -> None:
        """A job ended, and the driver takes its results."""
        results = {p: one for report in reports for p, one in report.partitions.items()}
        self.plans.update((plan.epoch, plan) for plan in job.epochs)
        if job.lane is None:
            return
        reached = {p: one.epoch for p, one in results.items()}
        for epoch in [one for one in self.ran if one > min(job.lane.starts.values())]:
            del self.ran[epoch]  # it runs again
        for partition, start in job.lane.starts.items():
            if partition not in reached or reached[partition] <= start:
                continue
            if job.restore.get(partition) == 0 and start:
                before = [epoch for epoch, names in self.ran.items() if partition in names]
                self.begun[partition].append(max(before, default=0))
            for epoch in range(start + 1, reached[partition] + 1):
                self.ran[epoch].add(partition)
        self.epochs_at_once = max(self.epochs_at_once, job.lane.last - min(job.lane.starts.values()))
        counts = [one.keys for one in results.values() if one.keys is not None]
        self.fetched += sum(one.fetched for one in counts)


class WatchedCluster(PlayedCluster):
    def run(self, layout: Layout, job: Job, obsolete: Callable[[], bool]) -> list[TaskReport]:
        reports = super().run(layout, job, obsolete)
        assert isinstance(self.world, BoundedWorld)
        self.world.took(job, reports)
        return reports


def new_world(root: Path, seed: int, every: str = f"{EVERY:g}s") -> BoundedWorld:
    write_rows(root / "input.parquet")
    topology = bounded_pipeline(root / "input.parquet", every)
    world = BoundedWorld(root=root, topology=topology, random=random.Random(seed), modules=list(MODULES))
    names = [world.join() for _ in range(3)]
    assignment = {p: names[int(p[2])] if p[0] != "C" else names[2 - int(p[2])] for p in topology.partitions}
    world.plan = Plan(generation=1, kind="deploy", deployed=1, assignment=assignment)
    world.turning = world.keep
    return world


def coordinate(world: BoundedWorld) -> None:
    """What is on nodes that are lost goes to others; sometimes what runs is moved."""
    plan = world.plan
    assert plan is not None
    if world.frozen and world.random.random() < 0.4:
        world.thaw()
    dice = world.random.random()
    lost = sorted(set(plan.assignment.values()) - world.nodes.keys())
    if not lost and dice < 0.6:
        return
    if dice < 0.5 or not world.nodes:
        world.join()
    homes = sorted(world.nodes)
    gone = [p for p, node in plan.assignment.items() if node in lost]
    kept = {p: node for p, node in plan.assignment.items() if node not in lost}
    moved = world.random.sample(sorted(kept), 1) if not lost else []
    world.plan = Plan(
        generation=plan.generation + 1,
        kind="move" if moved else "recover",
        deployed=1,
        assignment={**kept, **{p: world.random.choice(homes) for p in [*gone, *moved]}},
        restore=gone or moved,
    )


@cache
def counter_of(key: str) -> str:
    return f"C[{int(key_buckets(pa.chunked_array([[key]]), COUNTERS)[0])}]"


class Ledger:
    """What became of each row of the input, after a run."""

    def __init__(self, world: BoundedWorld) -> None:
        self.world = world
        texts = pq.read_table(world.root / "input.parquet").column("text").to_pylist()
        self.key = {number: text.split()[0] for number, text in enumerate(texts)}
        self.epoch: dict[int, int] = {}
        self.reader: dict[int, int] = {}
        for plan in world.plans.values():
            start, end = (place["tuple"] for place in plan.slices["S"])
            half = (end - start) // 2
            for number in range(start, end):
                self.epoch[number] = plan.epoch
                self.reader[number] = int(number >= start + half)
        table = pa.concat_tables(
            pq.ParquetFile(file).read() for file in sorted((world.root / "outputs" / "t").rglob("*.parquet"))
        )
        self.listed: dict[str, dict[int, list[int]]] = defaultdict(dict)
        for row in table.to_pylist():
            self.listed[row["key"]][row["epoch"]] = row["rows"]

    def shown(self) -> set[tuple[str, int]]:
        """Counter and epoch of the lists that count for readers."""
        directory = self.world.root / "outputs" / "t"
        committed = committed_read(directory)
        assert committed is not None
        tables = [pq.ParquetFile(file).read() for file in committed_files(directory, "C", committed)]
        return {(counter_of(row["key"]), row["epoch"]) for table in tables for row in table.to_pylist()}

    def counted(self, number: int) -> bool:
        """Whether all that a row passes ran in its epoch."""
        ran, reader = self.world.ran[self.epoch[number]], self.reader[number]
        return {f"S[{reader}]", f"P[{reader}]", counter_of(self.key[number])} <= ran

    def at(self, epoch: int) -> float:
        return self.world.plans[epoch].at

    def lost(self) -> list[int]:
        """Rows that were counted and are in no later list of their keys."""
        found: list[int] = []
        for number, key in self.key.items():
            # An attempt that was given up may have left a list, of a state that nothing goes on with.
            kept = (epoch for epoch in self.listed[key] if counter_of(key) in self.world.ran[epoch])
            last = max(kept, default=0)
            if self.counted(number) and self.epoch[number] <= last:
                found += [number] * (number not in self.listed[key][last])
        return found

    def within(self, number: int, seconds: float, epochs: int) -> bool:
        """Whether a row came in the last `epochs` that its counter applied before its state was lost, or at
        most so many seconds of input before these. An epoch may be of many seconds, after failed jobs."""
        epoch, counter = self.epoch[number], counter_of(self.key[number])
        return any(
            begun >= epoch and self.at(max(1, begun - epochs)) - self.at(epoch) <= seconds
            for begun in self.world.begun[counter]
        )
