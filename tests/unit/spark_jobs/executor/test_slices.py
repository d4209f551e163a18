"""What the partitions of a source read of the slices that its reader gives."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pyarrow as pa
import pytest
from pyspark.sql.datasource import DataSourceStreamReader, InputPartition

from domain.execution.job import EpochPlan
from domain.topology.spec import OperatorSpec, TopologySpec
from spark_jobs.executor.storage import NodeStorage
from spark_jobs.sources.problems import SourceError
from tests.unit.spark_jobs.executor.layouts import layout_of


class Shards(DataSourceStreamReader):
    """Each slice is a shard, of which there are as many as the option says."""

    def __init__(self, options: dict[str, str]) -> None:
        self.shards = int(options["shards"])

    def partitions(self, start: Any, end: Any) -> list[InputPartition]:
        return [InputPartition(number) for number in range(self.shards)]

    def read(self, partition: InputPartition) -> Any:
        yield pa.record_batch({"ts": [0], "shard": [partition.value]})


@pytest.mark.parametrize(
    ("shards", "expected"),
    [(0, [[], []]), (1, [[0], []]), (2, [[0], [1]]), (3, [[0, 2], [1]]), (5, [[0, 2, 4], [1, 3]])],
)
def test_every_slice_is_read_by_one_partition(tmp_path: Path, shards: int, expected: list[list[int]]) -> None:
    params = {"reader": f"{__name__}.Shards"}
    source = OperatorSpec(name="S", kind="source", parallelism=2, params=params)
    layout = layout_of(TopologySpec(name="t", operators=(source,)), tmp_path, operator_modules=["tests"])
    layout = msgspec.structs.replace(layout, readers={"S": {"shards": shards}})
    plan = EpochPlan(epoch=1, slices={"S": ({}, {})}, watermark=0, previous_watermark=0, at=0.0)
    tables = [NodeStorage(tmp_path, layout, f"S[{index}]", 0).read(plan) for index in (0, 1)]
    assert [table.column("shard").to_pylist() if table else [] for table in tables] == expected


class Tuples(Shards):
    """Gives rows in another way that PySpark knows."""

    def read(self, partition: InputPartition) -> Any:
        yield 0, "text"


def test_rows_that_are_no_batches_are_told(tmp_path: Path) -> None:
    source = OperatorSpec(name="S", kind="source", params={"reader": f"{__name__}.Tuples"})
    layout = layout_of(TopologySpec(name="t", operators=(source,)), tmp_path, operator_modules=["tests"])
    layout = msgspec.structs.replace(layout, readers={"S": {"shards": 1}})
    plan = EpochPlan(epoch=1, slices={"S": ({}, {})}, watermark=0, previous_watermark=0, at=0.0)
    with pytest.raises(
        SourceError, match=r"gave a tuple, not a pyarrow\.RecordBatch\. .*yield record batches"
    ):
        NodeStorage(tmp_path, layout, "S[0]", 0).read(plan)
