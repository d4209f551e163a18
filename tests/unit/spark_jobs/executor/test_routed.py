"""What a partition routes to each target is counted once, in the rows that the partition gave."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pyarrow as pa
import pytest

from domain.execution.job import Job, PartitionReport
from domain.execution.lanes import Lane
from domain.topology.spec import InputSpec, OperatorSpec, TopologySpec
from spark_jobs.executor.exchange import encode_table, key_buckets
from spark_jobs.executor.level_context import LevelContext
from spark_jobs.executor.partition_run import PartitionRun
from tests.unit.spark_jobs.executor.layouts import epochs_to, layout_of

SPEC = TopologySpec(
    name="t",
    operators=(
        OperatorSpec(name="S", kind="source"),
        OperatorSpec(
            name="V",
            kind="sql",
            params={"query": "SELECT ts, key FROM input"},
            inputs=(InputSpec(source="S", partitioning="one_to_one"),),
        ),
        OperatorSpec(
            name="C",
            kind="tumbling_window",
            params={"size_s": 10},
            parallelism=3,
            inputs=(InputSpec(source="V", key="key"),),
            output=True,
        ),
        OperatorSpec(
            name="P", kind="sql", parallelism=2, params={"query": "SELECT key FROM input"},
            inputs=(InputSpec(source="V", key="key"),), output=True,
        ),
        OperatorSpec(
            name="One", kind="sql", params={"query": "SELECT key FROM input"},
            inputs=(InputSpec(source="V", key="key"),), output=True,
        ),
    ),
)  # fmt: skip
KEYS = ["a"] * 70 + ["b"] * 20 + ["c", "d", "e"] * 3


def report_of(root: Path, *, partition: str = "V[0]", progress: int = 0, last: int = 2) -> PartitionReport:
    """Of epochs up to `last`; those up to `progress` were applied before and are computed again."""
    layout = layout_of(SPEC, root, "V[0]", "V~[0]", shadowed=["V"])
    targets = ["C[0]", "C[1]", "C[2]", "P[0]", "P[1]", "One[0]"]
    lane = Lane(1, last, {partition: 0})
    known = {**dict.fromkeys(targets, 0), "S[0]": 2, "V[0]": progress, "V~[0]": progress}
    job = Job(lane=lane, epochs=epochs_to(last), progress=known)
    level = LevelContext(1, 0, msgspec.json.encode(layout), msgspec.json.encode(job))
    for epoch in range(1, last + 1):
        rows = pa.table({"ts": pa.array([0] * len(KEYS), pa.int64()), "key": KEYS})
        level.deliver((1, [partition], "S[0]", epoch, encode_table(rows)))
    return PartitionRun(level, lane, partition).execute()


@pytest.fixture(autouse=True)
def _home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NODE_HOME", str(tmp_path / "node-1"))


def expected(count: int, epochs: int = 2) -> list[int]:
    buckets = key_buckets(pa.chunked_array([KEYS]), count).tolist()
    return [epochs * buckets.count(one) for one in range(count)]


def test_partial_aggregates_count_as_the_rows_that_they_stand_for(tmp_path: Path) -> None:
    report = report_of(tmp_path)
    assert (report.error, report.epoch, report.rows_out) == ("", 2, 2 * len(KEYS))
    assert report.routed == {"C": expected(3), "P": expected(2)}
    assert sum(report.routed["C"]) == report.rows_out, "One[0] reads everything: there is nothing to count"


def test_what_is_computed_again_is_not_counted_again(tmp_path: Path) -> None:
    assert report_of(tmp_path, last=1).routed == {"C": expected(3, 1), "P": expected(2, 1)}
    again = report_of(tmp_path, progress=1, last=2)
    assert (again.error, again.epoch) == ("", 2)
    assert again.routed == {"C": expected(3, 1), "P": expected(2, 1)}


def test_a_shadow_counts_nothing(tmp_path: Path) -> None:
    report = report_of(tmp_path, partition="V~[0]")
    assert (report.error, report.epoch, report.rows_out) == ("", 2, 2 * len(KEYS))
    assert report.routed == {}
