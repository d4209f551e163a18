"""The Parquet sink: one file for each query and epoch, put in place by an atomic rename.

    <root>/<topology>/deployed=<generation>/<operator>/partition=<i>/epoch=<e>/part.parquet

The same rows give the same bytes, so writing an epoch again after a rollback changes nothing. An epoch
without rows has no file; the file of an abandoned attempt is removed. The outputs of a task are forced to
disk and get their names together, before the task says how far its partitions are: an epoch that the epoch
log calls committed survives the loss of power. The generation is that of the plan that deployed the topology:
a task of an earlier deployment that goes on writes into another directory. One of an earlier driver can write
nothing more (`spark_jobs.sinks.writing`).

Operators that are not deterministic give other rows in a replay. Their files are named after the attempt,
`part-<attempt>.parquet`, or `.empty` without rows. The highest attempt counts and removes lower ones: output
of a node that was declared lost and resumes later is never read. Each is settled at once, because what is
sent on must not differ from what an epoch that is run again would write.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Final

import pyarrow as pa
import pyarrow.parquet as pq

from domain.topology import partition_directory, partition_id, split_partition
from host.durable import PARTIAL, DurableBatch
from spark_jobs.sinks.base import SinkError, Written
from spark_jobs.sinks.committed import ATTEMPT, deployment_directory
from spark_jobs.sinks.tentative import tentative_path, tentative_table
from spark_jobs.sinks.writing import Writing, mount_hint, root_marked

FILE_NAME: Final = "part.parquet"
INSTANT: Final = pa.timestamp("us", tz="UTC")
INSTANTS: Final = ("ts", "window_start", "window_end")
"""Columns that hold microseconds since the Unix epoch inside the engine and instants in the files."""
FINAL: Final = "final"
_REPETITIVE: Final = (*INSTANTS, "count", "status")
"""Columns of few distinct values. A dictionary shrinks them; for keys it would cost more time than everything
else."""


def partition_path(root: str | Path, topology: str, deployed: int, operator: str, partition: int) -> Path:
    return deployment_directory(Path(root) / topology, deployed) / operator / f"partition={partition}"


def instants_table(table: pa.Table) -> pa.Table:
    """The rows with instants as timestamps in UTC."""
    for name in INSTANTS:
        index = table.schema.get_field_index(name)
        if index >= 0 and table.schema.field(index).type == pa.int64():
            table = table.set_column(index, name, table.column(index).cast(INSTANT))
    return table


def output_table(table: pa.Table) -> pa.Table:
    """The rows as they are stored: instants as timestamps in UTC, `status` final unless given."""
    table = instants_table(table)
    if "status" not in table.column_names:
        table = table.append_column("status", pa.repeat(pa.scalar(FINAL), table.num_rows))
    return table.combine_chunks()


class OutputFiles:
    """The outputs of one task of a deployment. attempt: grows with every replay if rows may differ between
    replays, else 0. life: number of the driver that the task works for. force: see `DurableBatch`."""

    def __init__(
        self,
        root: str | Path,
        topology: str,
        *,
        deployed: int,
        attempt: int = 0,
        life: int = 0,
        force: bool = True,
    ) -> None:
        self._root = Path(root)
        self._topology = topology
        self._deployed = deployed
        self._attempt = attempt
        self._writing = Writing(deployment_directory(self._root / topology, deployed), life)
        self._batch = DurableBatch(self._root, force=force)
        self._pending: dict[Path, tuple[str, int]] = {}

    def write(self, operator: str, partition: int, epoch: int, table: pa.Table | None) -> Written:
        """Write one epoch's rows of one query, to replace those that exist. Raises `SinkError`."""
        place = partition_path(self._root, self._topology, self._deployed, operator, partition)
        directory = place / f"epoch={epoch}"
        name = partition_id(operator, partition)
        try:
            written = self._write(directory, name, epoch, table)
        except (OSError, pa.ArrowException) as error:
            raise self._sink_error(error, directory, name, epoch) from error
        if self._attempt:
            for _, failure in self.settle().values():
                raise failure
        return written

    def write_tentative(
        self, operator: str, partition: int, epoch: int, table: pa.Table | None, fidelity: float
    ) -> Written:
        """Write one epoch's tentative rows of one query, to replace those that exist. Raises `SinkError`."""
        directory = tentative_path(self._root, self._topology, self._deployed, operator, partition)
        directory /= f"epoch={epoch}"
        name = partition_id(operator, partition)
        try:
            if table is None or not table.num_rows:
                self._writing.take_away(directory)
                return Written(0, 0)
            rows = tentative_table(instants_table(table), fidelity)
            temporary = self._writing.fill(
                f"{partition_directory(name)}.{epoch}", lambda path: write_table(path, rows)
            )
            try:
                size = temporary.stat().st_size
                directory.mkdir(parents=True, exist_ok=True)
                temporary.rename(directory / FILE_NAME)
            except OSError:
                with suppress(OSError):
                    temporary.unlink(missing_ok=True)
                raise
        except (OSError, pa.ArrowException) as error:
            raise self._sink_error(error, directory, name, epoch) from error
        return Written(table.num_rows, size)

    def leave_out(self, epochs: Mapping[str, range]) -> None:
        """Write that queries have no rows in these epochs, in one batch. Raises `SinkError`."""
        for name, numbers in epochs.items():
            place = partition_path(self._root, self._topology, self._deployed, *split_partition(name))
            for epoch in numbers:
                directory = place / f"epoch={epoch}"
                try:
                    self._write(directory, name, epoch, None)
                except OSError as error:
                    raise self._sink_error(error, directory, name, epoch) from error
        for _, failure in self.settle().values():
            raise failure

    def settle(self) -> dict[str, tuple[int, SinkError]]:
        """Put what was written in its place. Returns, for each partition for which that failed, the first
        epoch of which the output is not in its place, and why."""
        pending, self._pending = self._pending, {}
        failures: dict[str, tuple[int, SinkError]] = {}
        failed = self._batch.settle()
        for target, error in failed.items():
            name, epoch = pending[target]
            if name not in failures or epoch < failures[name][0]:
                failures[name] = epoch, self._sink_error(error, target.parent, name, epoch)
        for target in pending.keys() - failed.keys() if self._attempt else ():
            for other, file in _attempts(target.parent):
                if other <= self._attempt and file.name != target.name:
                    file.unlink(missing_ok=True)
        return failures

    def _write(self, directory: Path, name: str, epoch: int, table: pa.Table | None) -> Written:
        rows = table is not None and table.num_rows > 0
        if not rows and not self._attempt:
            if self._writing.take_away(directory):
                self._batch.changed(directory.parent)
            return Written(0, 0)
        kind = "parquet" if rows else "empty"
        target = directory / (f"part-{self._attempt}.{kind}" if self._attempt else FILE_NAME)

        def fill(path: Path) -> None:
            if table is not None and rows:
                write_table(path, output_table(table))
            else:
                path.touch()

        temporary = self._writing.fill(f"{partition_directory(name)}.{epoch}", fill)
        try:
            size = temporary.stat().st_size
            directory.mkdir(parents=True, exist_ok=True)
        except BaseException:
            temporary.unlink(missing_ok=True)
            raise
        self._batch.add(temporary, target)
        self._pending[target] = name, epoch
        return Written(table.num_rows if table is not None else 0, size)

    def _sink_error(
        self, error: OSError | pa.ArrowException, directory: Path, name: str, epoch: int
    ) -> SinkError:
        if not isinstance(error, OSError):
            return SinkError(
                name,
                f"the rows of epoch {epoch} cannot be put into a Parquet file: {error}",
                "Have the operator give columns of other types, such as `CAST(... AS VARCHAR)` in `sql`, and "
                "deploy the topology again.",
            )
        gone = isinstance(error, FileNotFoundError) and not self._writing.directory.exists()
        if gone and not root_marked(self._root):
            what = f"the output of {name} for epoch {epoch} cannot be written: nothing is there"
            return SinkError(str(self._root), what, mount_hint(self._root))
        if gone:
            return SinkError(
                str(self._writing.directory),
                f"the output of {name} for epoch {epoch} cannot be written: a later driver of the topology "
                "has closed this directory, or it was removed",
                "Where no later driver runs, make the directory again; the epoch is written then.",
            )
        # The name of a file that is being written is another one each time, and the problem is the same.
        named = str(error.filename or directory)
        return SinkError(
            str(directory) if named.endswith(PARTIAL) else named,
            f"the output of {name} for epoch {epoch} cannot be written: {error.strerror or error}",
            "Check that the directory is writable and has space; the epoch is written again when it is.",
        )


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


def write_table(path: Path, table: pa.Table) -> None:
    """Write a file as outputs are."""
    present = set(table.column_names)
    with pq.ParquetWriter(
        str(path), table.schema, compression="snappy", store_schema=False,
        use_dictionary=[name for name in _REPETITIVE if name in present],
        write_statistics=[name for name in INSTANTS if name in present],
    ) as writer:  # fmt: skip
        writer.write_table(table)
