"""Writes and reads the files of the sink."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from spark_jobs.sinks.base import Written
from spark_jobs.sinks.committed import deployment_directory
from spark_jobs.sinks.parquet import OutputFiles, partition_path
from spark_jobs.sinks.writing import root_mark

DEPLOYED = 1
"""The deployment whose files these are."""

_ATTEMPT = re.compile(r"part(?:-(\d+))?\.(?:parquet|empty)")


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
    """What a task does that writes nothing else."""
    root_mark(Path(root), force=False)
    outputs = OutputFiles(root, topology, deployed=DEPLOYED, attempt=attempt)
    written = outputs.write(operator, partition, epoch, table)
    for _, failure in outputs.settle().values():
        raise failure
    return written


def epochs_present(root: str | Path, topology: str, operator: str, partition: int) -> list[int]:
    """The epochs that have a file, in order."""
    return [epoch for epoch, _ in _files(partition_path(root, topology, DEPLOYED, operator, partition))]


def read_outputs(
    root: str | Path,
    topology: str,
    operator: str | None = None,
    partition: int | None = None,
    *,
    last_epoch: int | None = None,
) -> pa.Table:
    """Stored rows in order of operator, partition and epoch, with these three as further columns. Operators
    with different columns must be read one at a time. Empty (no columns) if there are no rows."""
    base = deployment_directory(Path(root) / topology, DEPLOYED)
    names = [operator] if operator else sorted(path.name for path in base.glob("*") if path.is_dir())
    tables: list[pa.Table] = []
    for name in names:
        found = sorted(_number(path) for path in (base / name).glob("partition=*"))
        for index in found if partition is None else [partition]:
            for epoch, file in _files(partition_path(root, topology, DEPLOYED, name, index)):
                if last_epoch is None or epoch <= last_epoch:
                    tables.append(_labelled(file, name, index, epoch))
    return pa.concat_tables(tables) if tables else pa.table({})


def _number(path: Path) -> int:
    return int(path.name.partition("=")[2])


def _files(partition: Path) -> Iterator[tuple[int, Path]]:
    """Each epoch with the file of its highest attempt, unless that attempt had no rows."""
    for directory in sorted(partition.glob("epoch=*"), key=_number):
        found = [(_ATTEMPT.fullmatch(path.name), path) for path in directory.iterdir()]
        newest = max(((int(match[1] or 0), path) for match, path in found if match), default=None)
        if newest is not None and newest[1].suffix == ".parquet":
            yield _number(directory), newest[1]


def _labelled(file: Path, operator: str, partition: int, epoch: int) -> pa.Table:
    table = pq.ParquetFile(file).read(use_threads=False)
    size = table.num_rows
    return (
        table.append_column("operator", pa.repeat(pa.scalar(operator), size))
        .append_column("partition", pa.repeat(pa.scalar(partition, pa.int32()), size))
        .append_column("epoch", pa.repeat(pa.scalar(epoch, pa.int64()), size))
    )
