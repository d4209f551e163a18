"""The source of traffic: locations of users with their speeds, or the incidents that users report.

It needs no file. With one of measured speeds, the segments and how fast users move there are those of the
file.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cached_property
from typing import Any, Final

import numpy as np
import pyarrow as pa
from pyspark.sql.datasource import InputPartition

from spark_jobs.sources.kept import kept
from spark_jobs.sources.numbered import NumberedReader
from spark_jobs.sources.speeds import STEP_US, Speeds, speeds_decoder
from spark_jobs.sources.traffic import Numbers, Roads, jittered, roads_of

STREAMS: Final = ("locations", "incidents")
STREAM_PARAMS: Final = ("stream", "path", "speedup", "users", "segments", "zipf", "seed", "every_s")
BATCH: Final = 65_536
_WHOLE: Final = {
    "users": (1, 10_000_000),
    "segments": (1, 100_000),
    "seed": (0, 1_000_000),
    "every_s": (1, 3_600),
}
_NUMBERS: Final = {"zipf": (0, 4), "speedup": (0.01, 10_000)}


class TrafficReader(NumberedReader):
    """Options: those of `NumberedReader`, and `stream`; `users`, `segments`, `zipf`, `seed`, `every_s`;
    `path` of a copy of a file of speeds, and `speedup`."""

    what = "traffic source"

    def __init__(self, options: Mapping[str, Any]) -> None:
        super().__init__(options)
        self.stream = str(options.get("stream") or "")
        self.path = str(options.get("path") or "")
        self.step_us = max(1, round(STEP_US / float(options.get("speedup") or 1)))
        segments = len(self._table.names) if self.path else int(options.get("segments") or 1_000)
        zipf = options.get("zipf")
        self._facts = (
            int(options.get("users") or 100_000), segments, 0.5 if zipf is None else float(zipf),
            int(options.get("seed") or 0), int(options.get("every_s") or 2) * 1_000_000,
        )  # fmt: skip
        if self.stream == "incidents":
            self.arrivals = self._roads.reports

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        _, start, end = partition.value
        rows = self._incidents if self.stream == "incidents" else self._locations
        for first in range(start, end, BATCH):
            yield rows(first, min(end, first + BATCH))

    def _locations(self, first: int, end: int) -> pa.RecordBatch:
        numbers, times = np.arange(first, end, dtype=np.int64), self.arrival_times(first, end)
        users = self._roads.user_of(numbers)
        segments = self._roads.segment_of(users)
        speeds = jittered(self._speeds(segments, times - self.origin_us), numbers, self._roads.seed)
        return pa.record_batch(
            {"ts": times, "key": self._names(segments), "user_id": users, "speed": speeds.astype(np.int64)}
        )

    def _incidents(self, first: int, end: int) -> pa.RecordBatch:
        roads = self._roads
        _, incidents, places = roads.reports.located(first, end)
        segments = roads.places[incidents]
        users = roads.firsts[segments] + places
        return pa.record_batch(
            {"ts": self.arrival_times(first, end), "key": self._names(segments), "user_id": users}
        )

    def _speeds(self, segments: Numbers, times: Numbers) -> Numbers:
        if not self.path:
            return self._roads.speeds(segments, times)
        found: Numbers = self._measured[times // self.step_us % len(self._measured), segments]
        return found

    @cached_property
    def _measured(self) -> Numbers:
        return np.array(self._table.rows, dtype=np.int64)

    def _names(self, segments: Numbers) -> pa.Array:
        names = self._table.names if self.path else [f"S{number}" for number in range(1, self._facts[1] + 1)]
        return pa.array(names, pa.string()).take(pa.array(segments))

    @property
    def _table(self) -> Speeds:
        return kept(self.path, speeds_decoder)

    @property
    def _roads(self) -> Roads:
        return roads_of(*self._facts)


def traffic_problems(params: Mapping[str, Any]) -> list[str]:
    """What is wrong with the parameters of such a source that others do not have."""
    found: list[str] = []
    if params.get("stream") not in STREAMS:
        found.append(f"stream must be one of {', '.join(STREAMS)}, not {params.get('stream')!r}")
    for name, (low, high) in _WHOLE.items():
        value = params.get(name)
        whole = isinstance(value, int) and not isinstance(value, bool)
        if value is not None and not (whole and low <= value <= high):
            found.append(f"{name} must be a whole number from {low} to {high}, not {value!r}")
    for name, (least, most) in _NUMBERS.items():
        value = params.get(name)
        number = isinstance(value, int | float) and not isinstance(value, bool)
        if value is not None and not (number and least <= value <= most):
            found.append(f"{name} must be a number from {least} to {most}, not {value!r}")
    return found
