"""Outputs of a seeded query, as its sink writes them."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa

from domain.topology.spec import ParquetSinkSpec
from spark_jobs.sinks.parquet_sink import ParquetSink

KEYS = "abcd"
BEGIN_US = 1_790_000_000_000_000


def outputs_write(home: Path, topology: str, operator: str, *, windows: int) -> None:
    """Windows of 10 s, one an epoch, with four keys each: in window n they count 4n, 3n, 2n and n."""
    sink = ParquetSink(home / "outputs", topology, ParquetSinkSpec(), operators=[operator], force=False)
    sink.prepare(deployed=1, life=1)
    for epoch in range(1, windows + 1):
        end = pa.array([BEGIN_US + epoch * 10_000_000] * len(KEYS), pa.timestamp("us", "UTC"))
        counts = [epoch * n for n in range(len(KEYS), 0, -1)]
        task = sink.outputs(deployed=1, attempt=0, life=1)
        task.write(operator, 0, epoch, pa.table({"window_end": end, "key": list(KEYS), "count": counts}))
        assert not task.settle()
    sink.commit(epoch=windows)
    sink.close()
