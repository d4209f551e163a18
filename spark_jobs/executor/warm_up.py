"""What a new executor does before it gets work: the steps of an epoch, on a handful of rows.

The first task of an executor starts a Python process and loads the engine; its first exchange loads Spark's
classes for shuffles and opens connections. On little CPU each takes seconds, and in a job of the topology
every query would wait for them.
"""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa
import pyarrow.compute as pc

import spark_jobs.executor.task  # noqa: F401 - what every task needs
from spark_jobs.executor.exchange import decode_table, encode_table, key_buckets
from spark_jobs.executor.level_context import Message
from spark_jobs.executor.loaded import set_apart

STAGES = 2
ROWS = pa.table({"key": [f"key {number}" for number in range(64)], "value": list(range(64))})


class WarmUp:
    """One stage of the job; what it sends stays on its executor."""

    def __init__(self, stage: int) -> None:
        self.stage = stage

    def __call__(
        self, slot: int, records: Iterator[tuple[int, Message | None]]
    ) -> Iterator[tuple[int, Message]]:
        arrived = [message for _, message in records if message is not None]
        table = next((decode_table(message[-1]) for message in arrived), ROWS) or ROWS
        buckets = key_buckets(table.column("key"), 2)
        counted = table.filter(pa.array(buckets >= 0)).group_by("key").aggregate([("value", "sum")])
        assert pc.sum(counted.column("value_sum")).as_py() == sum(range(64))  # noqa: S101 - it has to be read
        yield slot, (self.stage, [], "", 0, encode_table(table))
        set_apart()
