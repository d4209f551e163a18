"""Jobs of a real Spark with one executor: a stage that runs again although every executor lives, because a
task could not fetch what it sent; patterns, whose process is one more beside Spark's Python worker; and a
cycle, epoch by epoch."""

from __future__ import annotations

import itertools
import os
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from domain.execution.faults import Faults
from domain.execution.instructions import TellProblem
from domain.execution.job import EpochPlan, Job, Layout, TaskReport, placed_levels
from domain.execution.lanes import Coverage, Lane, present_lane
from domain.topology import Topology, load_topology
from spark_jobs.driver.__main__ import prepare_spark_environment
from spark_jobs.driver.cluster import Cluster
from spark_jobs.operators.base import EpochContext, Operator
from spark_jobs.operators.catalogue import OperatorCatalogue
from spark_jobs.sinks.parquet import partition_path
from spark_jobs.sinks.writing import root_mark
from spark_jobs.sources.prepare import prepare
from spark_jobs.state.tables import StateTables
from tests.java import java_end

MODULES: Final = ["tests.integration"]
NODE: Final = "node-1"
LOOPBACK: Final = "127.0.0.1"


class Losing(Operator):
    """Removes, once, all that was sent to the tasks of its stage which have not begun."""

    kind = "losing"

    def process(
        self, context: EpochContext, inputs: Mapping[str, Sequence[pa.Table]], state: StateTables
    ) -> pa.Table | None:
        wanted = Path(self.params["wanted"])
        if wanted.exists():
            wanted.unlink()
            for file in wanted.parent.rglob("shuffle_*"):
                file.unlink()
        return pa.concat_tables([table for group in inputs.values() for table in group])


ENDLESS: Final = r"(\w+\s?)+$"
TEXTS: Final = [*(f"row {n}" for n in range(19)), "a" * 60 + "!"]
"""On the last one `ENDLESS` takes exponential time."""


class Bench:
    """One executor that runs one task at a time. Tasks of the second slot find themselves on another node."""

    def __init__(self, root: Path, cluster: Cluster) -> None:
        self.cluster, self.wanted = cluster, root / "wanted"
        pq.write_table(pa.table({"text": TEXTS}), root / "in.parquet")
        self.input = prepare(root / "in.parquet", root / "input.arrow").path
        self.root = root
        root_mark(root / "outputs", force=False)
        self.attempts = itertools.count(1)

    def topology(self) -> Topology:
        stream = [{"from": "S", "partitioning": "full", "key": "text"}]
        params = {"class": f"{__name__}.Losing", "params": {"wanted": str(self.wanted)}}
        return load_topology(
            {
                "name": "t",
                "operators": [
                    {"name": "S", "kind": "source", "params": {"rate": 10, "path": self.input}},
                    {"name": "M", "kind": "python", "parallelism": 2, "inputs": stream, "params": params,
                     "output": True},
                ],
            },
            OperatorCatalogue(MODULES),
        )  # fmt: skip

    def patterns(self) -> Topology:
        """Two queries on one node: one pattern that does not end, and after it one that does."""
        stream = [{"from": "S", "partitioning": "full", "key": "text"}]
        words = {"pattern": r"[a-z]+\s(\d+)$"}
        return load_topology(
            {
                "name": "patterns",
                "operators": [
                    {"name": "S", "kind": "source", "params": {"rate": 10, "path": self.input}},
                    *(
                        {"name": name, "kind": "flat_map_regex", "inputs": stream, "params": params,
                         "output": True}
                        for name, params in (("E", {"pattern": ENDLESS}), ("P", words))
                    ),
                ],
            },
            OperatorCatalogue(MODULES),
        )  # fmt: skip

    def cycle(self) -> Topology:
        """Rows follow one another in a chain; which hang together goes round a feedback stream."""
        operators: list[dict[str, Any]] = [
            {"name": "S", "kind": "source", "params": {"rate": 10, "path": self.input}},
            {"name": "T", "kind": "transitions", "params": {"column": "text"},
             "inputs": [{"from": "S", "key": "text"}]},
            {"name": "G", "kind": "components", "parallelism": 2,
             "inputs": [{"from": "T"}, {"from": "G", "feedback": True}]},
            {"name": "L", "kind": "least", "inputs": [{"from": "G"}], "output": True},
        ]  # fmt: skip
        return load_topology({"name": "cycle", "operators": operators}, OperatorCatalogue(MODULES))

    def run_cycle(self) -> tuple[int, int]:
        """Epochs until nothing goes round, and a final one: how many there were, and how many rows went
        round."""
        topology = self.cycle()
        layout, sent, rows = self.layout(topology, dict.fromkeys(topology.partitions, NODE)), 1, 0
        self.cluster.pin([LOOPBACK, LOOPBACK], lambda: False)
        for epoch in itertools.count(1):
            progress = dict.fromkeys(topology.partitions, epoch - 1)
            slices = {"S": ({"tuple": 0 if epoch == 1 else 20}, {"tuple": 20})}
            plan = EpochPlan(
                epoch=epoch, slices=slices, watermark=0, previous_watermark=0, at=0.0, final=not sent
            )
            lane = present_lane(
                topology, progress, absent=(), coverage=Coverage(), head=epoch, limit=4, join=0
            )
            assert lane is not None
            job = Job(lane=lane, epochs=[plan], progress=progress)
            reports = self.cluster.run(layout, job, lambda: False)
            found = {name: one for report in reports for name, one in report.partitions.items()}
            assert {one.error for one in found.values()} == {""}
            assert {name: one.epoch for name, one in found.items()} == dict.fromkeys(progress, epoch)
            sent = sum(one.sent_back for one in found.values())
            rows += sent
            if plan.final:
                break
        return epoch, rows

    def layout(self, topology: Topology, assignment: Mapping[str, str]) -> Layout:
        """Slot 0 is the node, slot 1 another one."""
        reader = {"path": self.input, "rate": 10, "origin_us": 0, "parallelism": 1}
        return Layout(
            spec=topology.spec,
            generation=1,
            nodes=[NODE, "elsewhere"],
            slots={partition: int(node != NODE) for partition, node in assignment.items()},
            levels=placed_levels(topology, assignment),
            outputs=str(self.root / "outputs"),
            checkpoints=f"file://{self.root}/checkpoints",
            readers={"S": reader},
            operator_modules=MODULES,
        )

    def run(self, *, deterministic: bool) -> list[TaskReport]:
        assignment = {"S[0]": NODE, "M[0]": NODE, "M[1]": "elsewhere"}
        return self.run_job(self.topology(), assignment, deterministic=deterministic)

    def run_job(
        self, topology: Topology, assignment: Mapping[str, str], *, deterministic: bool = True
    ) -> list[TaskReport]:
        """The first epoch, with all rows of the input."""
        layout = self.layout(topology, assignment)
        slices = {"S": ({"tuple": 0}, {"tuple": 20})}
        plan = EpochPlan(epoch=1, slices=slices, watermark=0, previous_watermark=0, at=time.time())
        job = Job(
            lane=Lane(1, 1, dict.fromkeys(assignment, 0)),
            epochs=[plan],
            progress=dict.fromkeys(assignment, 0),
            restore=dict.fromkeys(assignment, 0),
            attempt=0 if deterministic else next(self.attempts),
        )
        self.cluster.pin([LOOPBACK, LOOPBACK], lambda: False)
        return self.cluster.run(layout, job, lambda: False)


@pytest.fixture(scope="module")
def bench(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bench]:
    root = tmp_path_factory.mktemp("bench")
    before = dict(os.environ)
    prepare_spark_environment()
    os.environ |= {"NODE_ID": NODE, "NODE_HOME": str(root / "node"), "SPARK_LOCAL_IP": LOOPBACK}
    (root / "node").mkdir()
    cluster = Cluster(
        topology="t", master="local[1]", host=LOOPBACK, executor_memory="512m", local_dir=str(root), secret=""
    )
    gateway: Any = cluster.context._gateway
    try:
        yield Bench(root, cluster)
    finally:
        cluster.stop()
        java_end(gateway)
        os.environ.clear()
        os.environ |= before


def test_a_master_with_workers_of_its_own_starts_no_executors_there(bench: Bench) -> None:
    assert bench.cluster.context.getConf().get("spark.cores.max") == "0"


@pytest.mark.parametrize("lost", [False, True])
def test_a_stage_that_ran_again_is_noticed(bench: Bench, lost: bool) -> None:
    if lost:
        bench.wanted.touch()
    reports = bench.run(deterministic=False)
    assert not bench.wanted.exists()
    assert sorted((report.level, report.slot) for report in reports) == [(0, 0), (1, 0), (1, 1)]
    assert {name for report in reports for name in report.partitions} == {"S[0]", "M[0]"}
    assert {report.repeated for report in reports} == {lost}


def test_where_outputs_are_the_same_it_does_not_matter(bench: Bench) -> None:
    bench.wanted.touch()
    reports = bench.run(deterministic=True)
    assert not bench.wanted.exists()
    assert {report.repeated for report in reports} == {False}


def test_a_pattern_that_does_not_end_is_told_and_its_neighbours_go_on(bench: Bench) -> None:
    """The kernel ends the process that matches; the next pattern of the same task gets another one."""
    reports = bench.run_job(bench.patterns(), dict.fromkeys(("S[0]", "E[0]", "P[0]"), NODE))
    found = {name: one for report in reports for name, one in report.partitions.items()}
    assert {name: one.epoch for name, one in found.items()} == {"S[0]": 1, "E[0]": 0, "P[0]": 1}
    (shown,) = (one for one in Faults().take(found, at=0.0) if isinstance(one, TellProblem))
    assert shown.where == "E[0]"
    problem = f"OperatorError: the pattern {ENDLESS!r} took more than 5 s of processor time for 20 rows"
    assert shown.what.startswith(problem)
    assert "no repetition within a repetition" in shown.hint
    assert (found["P[0]"].error, found["P[0]"].rows_out) == ("", 19)
    rows = pq.ParquetFile(
        partition_path(bench.root / "outputs", "patterns", 0, "P", 0) / "epoch=1/part.parquet"
    )
    assert rows.read().column("key").to_pylist() == [str(n) for n in range(19)]


def test_a_cycle_goes_round_until_it_comes_to_rest(bench: Bench) -> None:
    """The least name of twenty that follow one another is known to all of them in the end."""
    epochs, rows = bench.run_cycle()
    assert epochs > 10
    assert rows > 3 * len(TEXTS)
    file = partition_path(bench.root / "outputs", "cycle", 0, "L", 0) / f"epoch={epochs}" / "part.parquet"
    found = pq.ParquetFile(file).read().to_pylist()
    assert {row["key"]: row["label"] for row in found} == dict.fromkeys(sorted(TEXTS), min(TEXTS))
