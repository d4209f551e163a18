"""The last rows that a partition gave, left for those who look at them (`spark_jobs.state.sample_files`)."""

from __future__ import annotations

import contextlib
import os
import time
from pathlib import Path
from typing import Final

import pyarrow as pa
import pyarrow.parquet as pq
import structlog

from spark_jobs.sinks.parquet import instants_table
from spark_jobs.state.sample_files import EPOCH, MOST_ROWS, WANTED_FOR, sample_path, wanted_path

log = structlog.get_logger()

MOST_BYTES: Final = 1_000_000
"""Of the rows in memory; fewer are kept where they are larger, and none where one alone is."""


def sample_keep(home: Path, topology: str, partition: str, epoch: int, table: pa.Table | None) -> None:
    """Keep the last rows of an epoch, if a user looks at them; remove them when none does any more.

    Nothing that goes wrong here concerns the partition.
    """
    marker = wanted_path(home, topology, partition)
    try:
        age = time.time() - os.stat(marker).st_mtime
    except OSError:  # no user has asked, which is the rule
        return
    path = sample_path(home, topology, partition)
    try:
        if age > WANTED_FOR:
            marker.unlink(missing_ok=True)
            path.unlink(missing_ok=True)
        elif table is not None and table.num_rows:
            _write(path, epoch, table)
    except Exception as error:
        log.warning("rows not kept for those who look", partition=partition, error=str(error))


def _write(path: Path, epoch: int, table: pa.Table) -> None:
    rows = instants_table(_last(table))
    # Another attempt may run in another process.
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        with pq.ParquetWriter(str(temporary), rows.schema, compression="none", store_schema=False) as writer:
            writer.write_table(rows)
            writer.add_key_value_metadata({EPOCH: str(epoch)})
        temporary.rename(path)
    except BaseException:
        with contextlib.suppress(OSError):
            temporary.unlink(missing_ok=True)
        raise


def _last(table: pa.Table) -> pa.Table:
    """The last rows, copied: a slice would keep and count the whole."""
    rows = table.slice(max(0, table.num_rows - MOST_ROWS))
    rows = rows.take(pa.array(range(rows.num_rows), pa.int64()))
    while rows.nbytes > MOST_BYTES and rows.num_rows:
        rows = rows.slice((rows.num_rows + 1) // 2)
        rows = rows.take(pa.array(range(rows.num_rows), pa.int64()))
    return rows
