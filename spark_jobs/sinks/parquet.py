"""The Parquet sink: one file for each query and epoch, put in place by an atomic rename.

    <root>/<topology>/<operator>/partition=<i>/epoch=<e>/part.parquet

The same rows give the same bytes, so writing an epoch again after a rollback changes nothing. An epoch
without rows has no file; the file of an abandoned attempt is removed. Files are not synced to the disk: after
the loss of a machine the epoch is replayed from a checkpoint, like its state.

Operators that are not deterministic give other rows in a replay. Their files are named after the attempt,
`part-<attempt>.parquet`, or `.empty` without rows. The highest attempt counts and removes lower ones: output
of a node that was declared lost and resumes later is never read.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pyarrow as pa
import pyarrow.parquet as pq

from spark_jobs.sinks.base import SinkError, Written
from spark_jobs.sinks.committed import ATTEMPT

FILE_NAME: Final = "part.parquet"
INSTANT: Final = pa.timestamp("us", tz="UTC")
INSTANTS: Final = ("ts", "window_start", "window_end")
"""Columns that hold microseconds since the Unix epoch inside the engine and instants in the files."""
FINAL: Final = "final"
_REPETITIVE: Final = (*INSTANTS, "count", "status")
"""Columns of few distinct values. A dictionary shrinks them; for keys it would cost more time than everything
else."""


def partition_path(root: str | Path, topology: str, operator: str, partition: int) -> Path:
    return Path(root) / topology / operator / f"partition={partition}"


def output_table(table: pa.Table) -> pa.Table:
    """The rows as they are stored: instants as timestamps in UTC, `status` final unless given."""
    for name in INSTANTS:
        index = table.schema.get_field_index(name)
        if index >= 0 and table.schema.field(index).type == pa.int64():
            table = table.set_column(index, name, table.column(index).cast(INSTANT))
    if "status" not in table.column_names:
        table = table.append_column("status", pa.repeat(pa.scalar(FINAL), table.num_rows))
    return table.combine_chunks()


def write_epoch(
    root: str | Path,
    topology: str,
    operator: str,
    partition: int,
    epoch: int,
    table: pa.Table | None,
    *,
    attempt: int = 0,
) -> Written:
    """Store one epoch's rows of one query, replacing those that exist. attempt: grows with every replay if
    rows may differ between replays, else 0. Raises `SinkError`."""
    directory = partition_path(root, topology, operator, partition) / f"epoch={epoch}"
    try:
        if table is not None and table.num_rows:
            name = f"part-{attempt}.parquet" if attempt else FILE_NAME
            written = write_table(directory, output_table(table), name)
        elif attempt:
            name, written = f"part-{attempt}.empty", Written(0, 0)
            directory.mkdir(parents=True, exist_ok=True)
            (directory / name).touch()
        else:
            shutil.rmtree(directory, ignore_errors=True)
            if directory.exists():
                (directory / FILE_NAME).unlink()
            return Written(0, 0)
        for other, file in _attempts(directory) if attempt else ():
            if other <= attempt and file.name != name:
                file.unlink(missing_ok=True)
        return written
    except OSError as error:
        raise SinkError(
            str(error.filename or directory),
            f"the output of {operator}[{partition}] for epoch {epoch} cannot be written:"
            f" {error.strerror or error}",
            "Check that the directory is writable and has space; the epoch is written again when it is.",
        ) from error


def _attempts(directory: Path) -> Iterator[tuple[int, Path]]:
    """The files of an epoch with their attempts."""
    try:
        names = os.listdir(directory)
    except (FileNotFoundError, NotADirectoryError):
        return
    for name in names:
        found = ATTEMPT.fullmatch(name)
        if found:
            yield int(found[1] or 0), directory / name


def write_table(directory: Path, table: pa.Table, name: str) -> Written:
    """Put a file in place at once, whole or not at all."""
    present = set(table.column_names)
    temporary = directory / f".{name}.{os.getpid()}"
    directory.mkdir(parents=True, exist_ok=True)
    try:
        with pq.ParquetWriter(
            str(temporary), table.schema, compression="snappy", store_schema=False,
            use_dictionary=[name for name in _REPETITIVE if name in present],
            write_statistics=[name for name in INSTANTS if name in present],
        ) as writer:  # fmt: skip
            writer.write_table(table)
        size = temporary.stat().st_size
        temporary.replace(directory / name)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
    return Written(table.num_rows, size)
