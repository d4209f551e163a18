"""The file source: a prepared file read again and again, each tuple with its number and its event time.

Tuple n is row n modulo the number of rows. Its event time is origin + n / rate, unless the file has times of
its own; then pass r over the file is shifted by r x (span + step), so that time goes on where the pass before
ended. Everything here is arithmetic on n: two readers with the same options read the same slices, which is
what replay rests on.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadLimit, ReadMaxBytes, ReadMaxRows
from pyspark.sql.types import StructType

from spark_jobs.sources.arrivals import Arrivals, arrivals_of, counts_decoder
from spark_jobs.sources.kept import kept
from spark_jobs.sources.problems import SourceError

SECOND: Final = 1_000_000
MAX_RATE: Final = 100_000_000
SOURCE_SCHEMA: Final = pa.schema([("ts", pa.int64()), ("text", pa.string())])
"""What a source emits: event time in microseconds since the Unix epoch, and the text, null where unusable."""
MAX_TUPLE: Final = 2**63 // SECOND
Offset = dict[str, int]
_OWN_TO_A_PROCESS: Final = ("table", "has_ts", "_period")


class FileSlice(InputPartition):
    """Tuples start (inclusive) to end (exclusive), for source partition `index`."""

    def __init__(self, index: int, start: int, end: int) -> None:
        super().__init__((index, start, end))
        self.index = index
        self.start = start
        self.end = end

    def __eq__(self, other: object) -> bool:
        return isinstance(other, FileSlice) and self.value == other.value

    def __hash__(self) -> int:
        return hash(self.value)


class FileStreamReader(DataSourceStreamReader):
    """Options (text or numbers): `path` of the prepared file, `rate` in tuples per second, `origin_us`,
    `parallelism`, `limit` (absent or empty: endless); `arrivals` (a copy of a file of rates) and `speedup`,
    for rates that change (then `rate` is the mean, if it is given); `partition_by`, if the file was prepared
    with it. Raises `SourceError` for options that make no sense."""

    def __init__(self, options: Mapping[str, Any]) -> None:
        self.path = str(options.get("path") or "")
        if not self.path:
            raise SourceError(
                where="file source", what="no `path` was given", hint="Give the prepared input file."
            )
        self.rate = self._whole(options, "rate", 1_000, 1, MAX_RATE)
        self.origin_us = self._whole(options, "origin_us", 0, 0, 2**60)
        self.parallelism = self._whole(options, "parallelism", 1, 1, 10_000)
        self.limit = self._whole(options, "limit", MAX_TUPLE, 1, MAX_TUPLE)
        self.partition_by = str(options.get("partition_by") or "")
        self.arrivals: Arrivals | None = None
        if options.get("arrivals"):
            counts = kept(str(options["arrivals"]), counts_decoder)
            mean = self.rate if options.get("rate") else None
            self.arrivals = arrivals_of(counts, speedup=float(options.get("speedup") or 1), rate=mean)

    def _whole(self, options: Mapping[str, Any], name: str, default: int, low: int, high: int) -> int:
        raw = options.get(name)
        if raw is None or raw == "":
            return default
        try:
            value = int(raw)
        except (TypeError, ValueError):
            value = low - 1
        if not low <= value <= high:
            raise SourceError(
                where=f"file source, option {name}",
                what=f"{raw!r} is not a whole number from {low} to {high}",
                hint="Correct the source's parameters.",
            )  # fmt: skip
        return value

    # Offsets

    def initialOffset(self) -> Offset:  # noqa: N802 - PySpark's name
        return {"tuple": 0}

    def advance(self, start: Mapping[str, int], rows: int) -> Offset:
        """The offset `rows` tuples on, or the limit if that comes first."""
        return {"tuple": min(start["tuple"] + max(0, rows), self.limit)}

    def latestOffset(self, start: dict[str, int], limit: ReadLimit) -> Offset:  # noqa: N802 - PySpark's name
        """What is due by the wall clock at the rate asked for, within PySpark's read limit."""
        due = self.due(time.time_ns() // 1_000 - self.origin_us)
        end = max(start["tuple"], min(due, self.limit))
        if isinstance(limit, ReadMaxRows):
            end = min(end, start["tuple"] + limit.max_rows)
        elif isinstance(limit, ReadMaxBytes):
            end = min(end, start["tuple"] + max(1, limit.max_bytes * self.rows // max(1, self.table.nbytes)))
        return {"tuple": end}

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802 - PySpark's name
        return ReadAllAvailable()

    def due(self, elapsed_us: int) -> int:
        """How many tuples arrive within so long after the start."""
        if self.arrivals is not None:
            return self.arrivals.due(elapsed_us)
        return elapsed_us * self.rate // SECOND

    def finished(self, offset: Mapping[str, int]) -> bool:
        """Whether nothing comes after this offset."""
        return offset["tuple"] >= self.limit

    # Slices

    def partitions(self, start: Mapping[str, int], end: Mapping[str, int]) -> Sequence[FileSlice]:
        """One contiguous slice for each source partition, some empty when there are fewer tuples. With
        `partition_by` each one goes over all tuples and keeps its own."""
        first, size = start["tuple"], end["tuple"] - start["tuple"]
        if size <= 0:
            return []
        if self.partition_by:
            return [FileSlice(index, first, end["tuple"]) for index in range(self.parallelism)]
        bounds = [first + size * index // self.parallelism for index in range(self.parallelism + 1)]
        return [FileSlice(index, bounds[index], bounds[index + 1]) for index in range(self.parallelism)]

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
        if self.arrivals is not None:
            return self.origin_us + self.arrivals.times(number, number + batch.num_rows)
        numbers = np.arange(number, number + batch.num_rows, dtype=np.int64)
        if SECOND % self.rate == 0:
            return self.origin_us + numbers * (SECOND // self.rate)
        return self.origin_us + numbers * SECOND // self.rate

    # Event time

    def watermark(self, number: int) -> int:
        """The least event time of tuple `number` and all after it: after `number` tuples none is earlier."""
        if not self.has_ts:
            return self._time(number)
        return int(self.table.column("watermark")[number % self.rows].as_py()) + self._shift(number)

    def last_ts(self, number: int) -> int:
        """The greatest event time of the first `number` (at least one) tuples."""
        if not self.has_ts:
            return self._time(number - 1)
        rows = (number - 1) % self.rows + 1
        return int(pc.max(self.table.column("ts").slice(0, rows)).as_py()) + self._shift(number - 1)

    def _time(self, number: int) -> int:
        """The event time of a tuple of a file without times."""
        if self.arrivals is not None:
            return self.origin_us + self.arrivals.time(number)
        return self.origin_us + number * SECOND // self.rate

    def _shift(self, number: int) -> int:
        return number // self.rows * self._period

    # The prepared file

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
