"""What readers share that know each tuple by its number: offsets, slices, and when a tuple is due."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadLimit, ReadMaxBytes, ReadMaxRows

from spark_jobs.sources.arrivals import SECOND, Arrivals
from spark_jobs.sources.problems import SourceError

MAX_RATE: Final = 100_000_000
MAX_TUPLE: Final = 2**63 // SECOND
Offset = dict[str, int]


class TupleSlice(InputPartition):
    """Tuples start (inclusive) to end (exclusive), for source partition `index`."""

    def __init__(self, index: int, start: int, end: int) -> None:
        super().__init__((index, start, end))
        self.index = index
        self.start = start
        self.end = end

    def __eq__(self, other: object) -> bool:
        return isinstance(other, TupleSlice) and self.value == other.value

    def __hash__(self) -> int:
        return hash(self.value)


class NumberedReader(DataSourceStreamReader):
    """Options (text or numbers): `rate` in tuples per second, `origin_us`, `parallelism`, `limit` (absent or
    empty: endless). Raises `SourceError` for options that make no sense."""

    what: str
    """Of errors: the kind of source."""
    arrivals: Arrivals | None = None
    """When tuples arrive, if not at a constant rate."""

    def __init__(self, options: Mapping[str, Any]) -> None:
        self.rate = self._whole(options, "rate", 1_000, 1, MAX_RATE)
        self.origin_us = self._whole(options, "origin_us", 0, 0, 2**60)
        self.parallelism = self._whole(options, "parallelism", 1, 1, 10_000)
        self.limit = self._whole(options, "limit", MAX_TUPLE, 1, MAX_TUPLE)

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
                where=f"{self.what}, option {name}",
                what=f"{raw!r} is not a whole number from {low} to {high}",
                hint="Correct the source's parameters.",
            )  # fmt: skip
        return value

    # Offsets

    @property
    def end(self) -> int:
        """How many tuples there are."""
        return self.limit

    def initialOffset(self) -> Offset:  # noqa: N802 - PySpark's name
        return {"tuple": 0}

    def advance(self, start: Mapping[str, int], rows: int) -> Offset:
        """The offset `rows` tuples on, or the end if that comes first."""
        return {"tuple": min(start["tuple"] + max(0, rows), self.end)}

    def latestOffset(self, start: dict[str, int], limit: ReadLimit) -> Offset:  # noqa: N802 - PySpark's name
        """What is due by the wall clock at the rate asked for, within PySpark's read limit."""
        due = self.due(time.time_ns() // 1_000 - self.origin_us)
        end = max(start["tuple"], min(due, self.end))
        if isinstance(limit, ReadMaxRows):
            end = min(end, start["tuple"] + limit.max_rows)
        elif isinstance(limit, ReadMaxBytes):
            end = min(end, start["tuple"] + max(1, limit.max_bytes // max(1, self.row_bytes)))
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
        return offset["tuple"] >= self.end

    @property
    def row_bytes(self) -> int:
        """About how many bytes a tuple takes."""
        return 32

    # Slices

    def partitions(self, start: Mapping[str, int], end: Mapping[str, int]) -> Sequence[TupleSlice]:
        """One contiguous slice for each source partition, some empty when there are fewer tuples."""
        first, size = start["tuple"], end["tuple"] - start["tuple"]
        if size <= 0:
            return []
        bounds = [first + size * index // self.parallelism for index in range(self.parallelism + 1)]
        return [TupleSlice(index, bounds[index], bounds[index + 1]) for index in range(self.parallelism)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        raise NotImplementedError

    # Event time

    def watermark(self, number: int) -> int:
        """The least event time of tuple `number` and all after it: after `number` tuples none is earlier."""
        return self.time(number)

    def last_ts(self, number: int) -> int:
        """The greatest event time of the first `number` (at least one) tuples."""
        return self.time(number - 1)

    def arrival_times(self, first: int, end: int) -> npt.NDArray[np.int64]:
        """`time` of tuples `first` (inclusive) to `end` (exclusive)."""
        if self.arrivals is not None:
            return self.origin_us + self.arrivals.times(first, end)
        numbers = np.arange(first, end, dtype=np.int64)
        if SECOND % self.rate == 0:
            return self.origin_us + numbers * (SECOND // self.rate)
        return self.origin_us + numbers * SECOND // self.rate

    def time(self, number: int) -> int:
        """When a tuple arrives, which is its event time unless it brings one of its own."""
        if self.arrivals is not None:
            return self.origin_us + self.arrivals.time(number)
        return self.origin_us + number * SECOND // self.rate
