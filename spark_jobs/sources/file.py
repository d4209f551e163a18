"""The file source: a prepared file read again and again, each tuple with its number and its event time.

Tuple n is row n modulo the number of rows. Its event time is origin + n / rate, unless the file has times of
its own; then pass r over the file is shifted by r x (span + step), so that time goes on where the pass before
ended. Everything here is arithmetic on n: two readers with the same options read the same slices, which is
what replay rests on.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql.datasource import DataSource, InputPartition
from pyspark.sql.types import StructType

from spark_jobs.sources.arrivals import arrivals_of, counts_decoder
from spark_jobs.sources.event_time import passes_that_fit
from spark_jobs.sources.kept import kept
from spark_jobs.sources.numbered import NumberedReader, TupleSlice
from spark_jobs.sources.problems import SourceError

SOURCE_SCHEMA: Final = pa.schema([("ts", pa.int64()), ("text", pa.string())])
"""What a source emits: event time in microseconds since the Unix epoch, and the text, null where unusable."""
_OWN_TO_A_PROCESS: Final = ("table", "has_ts", "_period", "_fitting")


class FileStreamReader(NumberedReader):
    """Options (text or numbers): `path` of the prepared file, `rate` in tuples per second, `origin_us`,
    `parallelism`, `limit` (absent or empty: endless); `arrivals` (a copy of a file of rates) and `speedup`,
    for rates that change (then `rate` is the mean, if it is given); `partition_by`, if the file was prepared
    with it. Raises `SourceError` for options that make no sense."""

    what = "file source"

    def __init__(self, options: Mapping[str, Any]) -> None:
        self.path = str(options.get("path") or "")
        if not self.path:
            raise SourceError(
                where="file source", what="no `path` was given", hint="Give the prepared input file."
            )
        super().__init__(options)
        self.partition_by = str(options.get("partition_by") or "")
        if options.get("arrivals"):
            counts = kept(str(options["arrivals"]), counts_decoder)
            mean = self.rate if options.get("rate") else None
            self.arrivals = arrivals_of(counts, speedup=float(options.get("speedup") or 1), rate=mean)

    # Slices

    def partitions(self, start: Mapping[str, int], end: Mapping[str, int]) -> Sequence[TupleSlice]:
        """As of all readers; with `partition_by` each one goes over all tuples and keeps its own."""
        slices = super().partitions(start, end)
        if not (slices and self.partition_by):
            return slices
        return [TupleSlice(index, start["tuple"], end["tuple"]) for index in range(self.parallelism)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """The tuples of a slice as `SOURCE_SCHEMA` batches; the text is not copied."""
        index, number, end = partition.value
        while number < end:
            row = number % self.rows
            size = min(end - number, self.rows - row)
            for batch in self.table.slice(row, size).to_batches():
                times = self._times(number, batch)
                rows = pa.record_batch([pa.array(times), batch.column("text")], schema=SOURCE_SCHEMA)
                if self.partition_by:
                    mine = batch.column("part").to_numpy() % self.parallelism == index
                    rows = rows.filter(pa.array(mine))
                yield rows
                number += batch.num_rows

    def _times(self, number: int, batch: pa.RecordBatch) -> npt.NDArray[np.int64]:
        """Event times of consecutive tuples of one pass, the first of which is `number`."""
        if self.has_ts:
            times: npt.NDArray[np.int64] = batch.column("ts").to_numpy() + self._shift(number)
            return times
        return self.arrival_times(number, number + batch.num_rows)

    @property
    def end(self) -> int:
        """As of all readers; a file with times is not repeated after the last pass whose times fit."""
        return min(self.limit, self._fitting) if self.has_ts else self.limit

    # Event time

    def watermark(self, number: int) -> int:
        """The least event time of tuple `number` and all after it: after `number` tuples none is earlier."""
        if not self.has_ts:
            return super().watermark(number)
        return int(self.table.column("watermark")[number % self.rows].as_py()) + self._shift(number)

    def last_ts(self, number: int) -> int:
        """The greatest event time of the first `number` (at least one) tuples."""
        if not self.has_ts:
            return super().last_ts(number)
        rows = (number - 1) % self.rows + 1
        return int(pc.max(self.table.column("ts").slice(0, rows)).as_py()) + self._shift(number - 1)

    def _shift(self, number: int) -> int:
        return number // self.rows * self._period

    # The prepared file

    @property
    def row_bytes(self) -> int:
        return int(self.table.nbytes) // max(1, self.rows)

    @cached_property
    def table(self) -> pa.Table:
        return _opened(self.path, *_identity(self.path))

    @property
    def rows(self) -> int:
        return int(self.table.num_rows)

    @cached_property
    def has_ts(self) -> bool:
        return self.arrivals is None and "ts" in self.table.column_names

    @cached_property
    def _period(self) -> int:
        metadata = self.table.schema.metadata
        return int(metadata[b"span_us"]) + int(metadata[b"step_us"])

    @cached_property
    def _fitting(self) -> int:
        last = int(pc.max(self.table.column("ts")).as_py())
        return passes_that_fit(last, self._period) * self.rows

    def __getstate__(self) -> dict[str, Any]:
        """Without the table, which each process maps for itself."""
        return {name: value for name, value in self.__dict__.items() if name not in _OWN_TO_A_PROCESS}


class FileDataSource(DataSource):
    """The same reader for plain Structured Streaming: `spark.readStream.format("resurge_file")`."""

    @classmethod
    def name(cls) -> str:
        return "resurge_file"

    def schema(self) -> str:
        return "ts bigint, text string"

    def streamReader(self, schema: StructType) -> FileStreamReader:  # noqa: N802 - PySpark's name
        return FileStreamReader(self.options)


def _identity(path: str) -> tuple[int, int]:
    try:
        status = Path(path).stat()
    except OSError as error:
        raise SourceError(
            where=path, what=f"the prepared input cannot be opened: {error.strerror}",
            hint="Deploy the topology again; the file is made when it is deployed.",
        ) from error  # fmt: skip
    return status.st_ino, status.st_mtime_ns


@lru_cache(maxsize=16)
def _opened(path: str, inode: int, mtime_ns: int) -> pa.Table:
    """The mapped file, shared by all readers of this process; `inode` and `mtime_ns` tell copies apart."""
    try:
        return pa.ipc.open_file(pa.memory_map(path)).read_all()
    except (pa.ArrowException, OSError) as error:
        raise SourceError(
            where=path, what=f"the prepared input cannot be read: {error}",
            hint="Remove it and deploy the topology again.",
        ) from error  # fmt: skip
