"""Writing the Arrow file that source partitions map into memory."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from host.durable import DurableBatch
from spark_jobs.sources.event_time import EventTimes, mean_step
from spark_jobs.sources.formats import Rows
from spark_jobs.sources.problems import SourceError

REJECTED_LISTED: Final = 1_000
"""How many rejected rows are written out; the total counts all."""
_PREFIX: Final = ".input-"
BATCH_ROWS: Final = 1 << 20
BATCH_BYTES: Final = 256 << 20
"""A batch of the copy: few and large, yet far below the 2 GiB that 32-bit string offsets reach."""


class Spool:
    """Rows on their way into the Arrow file: text goes to disk at once, only the times stay in memory."""

    def __init__(self, directory: Path) -> None:
        for left in directory.glob(f"{_PREFIX}*"):  # by a process that was killed: one prepares at a time
            left.unlink(missing_ok=True)
        descriptor, name = tempfile.mkstemp(dir=directory, prefix=_PREFIX, suffix=".arrow")
        os.close(descriptor)
        self.path = Path(name)
        self.rows = 0
        self.rejected = 0
        self.reasons: dict[str, int] = {}
        self.listed: list[tuple[int, str]] = []
        self._times: list[pa.Array] = []
        self._parts = Groups()
        self._pending: list[pa.Array] = []
        self._pending_bytes = 0
        self._schema = pa.schema([("text", pa.string())])
        self._writer = pa.ipc.new_file(str(self.path), self._schema)
        self._closed = False

    def add(self, rows: Rows, times: EventTimes) -> None:
        text, stamps = rows.text, None if rows.times is None else times.of_array(rows.times)
        rejected = dict(rows.rejected)
        if stamps is not None and stamps.null_count:
            for row in np.flatnonzero(stamps.is_null().to_numpy(zero_copy_only=False)).tolist():
                rejected.setdefault(row, "the event time is missing or cannot be read")
            text = _without(text, list(rejected))
        for row, reason in sorted(rejected.items()):
            self.reasons[reason] = self.reasons.get(reason, 0) + 1
            if len(self.listed) < REJECTED_LISTED:
                self.listed.append((self.rows + row, reason))
        self.rejected += len(rejected)
        self.rows += len(text)
        if stamps is not None:
            self._times.append(stamps)
        if rows.part is not None:
            self._parts.add(rows.part)
        self._pending.append(text)
        self._pending_bytes += text.nbytes
        if self._pending_bytes >= BATCH_BYTES or sum(map(len, self._pending)) >= BATCH_ROWS:
            self._flush()

    def _flush(self) -> None:
        if self._pending:
            text = pa.concat_arrays(self._pending)
            self._writer.write_batch(pa.record_batch([text], schema=self._schema))
            self._pending, self._pending_bytes = [], 0

    def event_times(self, where: str, ts: str) -> npt.NDArray[np.int64] | None:
        """The time of each row; a row without one (it has no text either) takes that of the row before."""
        if not self._times:
            return None
        stamps = pa.concat_arrays(self._times)
        if stamps.null_count == len(stamps):
            raise SourceError(
                where=where, what=f"no value of column {ts!r} can be read as a time",
                hint="Use timestamps, ISO 8601 text or numbers, or name another column with the source's `ts`"
                " parameter.",
            )  # fmt: skip
        values = stamps.fill_null(0).to_numpy()
        if not stamps.null_count:
            return values
        valid = stamps.is_valid().to_numpy(zero_copy_only=False)
        latest = np.maximum.accumulate(np.where(valid, np.arange(len(values)), -1))
        latest[latest < 0] = np.argmax(valid)
        return values[latest]

    def finish(self, target: Path, event_times: npt.NDArray[np.int64] | None) -> None:
        """Put the file in its place, with the time columns if there are any; it is on disk then."""
        self._flush()
        self._close()
        groups = self._parts.numbers()
        if event_times is not None or groups is not None:
            wider = self.path.with_suffix(".wider")
            try:
                _write_wider(self.path, wider, event_times, groups)
                wider.replace(self.path)
            finally:
                wider.unlink(missing_ok=True)
        self.path.chmod(0o644)
        batch = DurableBatch(target.parent)
        batch.add(self.path, target)
        for error in batch.settle().values():
            raise error

    def discard(self) -> None:
        with suppress(pa.ArrowException, OSError, ValueError):
            self._close()
        self.path.unlink(missing_ok=True)

    def _close(self) -> None:
        """Once: with a second close the writer appends to the file, which has its name by then."""
        if not self._closed:
            self._closed = True
            self._writer.close()


class Groups:
    """The values of the column that decides the partition, as numbers: their places in order, from 0."""

    def __init__(self) -> None:
        self._codes: dict[str, int] = {}
        self._rows: list[npt.NDArray[np.int32]] = []

    def add(self, values: pa.Array) -> None:
        encoded = values.dictionary_encode()
        codes = [self._codes.setdefault(value, len(self._codes)) for value in encoded.dictionary.to_pylist()]
        # A row without a value has no text either, so it may go anywhere.
        places = encoded.indices.fill_null(len(codes)).to_numpy()
        self._rows.append(np.array([*codes, 0], dtype=np.int32)[places])

    def numbers(self) -> npt.NDArray[np.int32] | None:
        """Of each row; None if there is no such column."""
        if not self._rows:
            return None
        places = np.empty(max(1, len(self._codes)), dtype=np.int32)
        for place, value in enumerate(sorted(self._codes)):
            places[self._codes[value]] = place
        return places[np.concatenate(self._rows)]


def _write_wider(
    spooled: Path,
    target: Path,
    event_times: npt.NDArray[np.int64] | None,
    groups: npt.NDArray[np.int32] | None,
) -> None:
    """Add what there is of `ts`, `watermark` (the least event time from this row to the end of the pass), and
    `part` (the number of what decides the source partition)."""
    added: dict[str, npt.NDArray[Any]] = {}
    metadata = {}
    if event_times is not None:
        span = int(event_times.max() - event_times.min())
        metadata = {"span_us": str(span), "step_us": str(mean_step(span, len(event_times)))}
        added["ts"] = event_times
        added["watermark"] = np.minimum.accumulate(event_times[::-1])[::-1]
    if groups is not None:
        added["part"] = groups
    fields = [("text", pa.string()), *((name, pa.from_numpy_dtype(of.dtype)) for name, of in added.items())]
    schema = pa.schema(fields, metadata=metadata)
    with pa.memory_map(str(spooled)) as mapped, pa.ipc.new_file(str(target), schema) as writer:
        for start, batch in _numbered(pa.ipc.open_file(mapped)):
            rows = slice(start, start + batch.num_rows)
            columns = [batch.column(0), *(pa.array(values[rows]) for values in added.values())]
            writer.write_batch(pa.record_batch(columns, schema=schema))


def _numbered(reader: pa.ipc.RecordBatchFileReader) -> Iterator[tuple[int, pa.RecordBatch]]:
    start = 0
    for index in range(reader.num_record_batches):
        batch = reader.get_batch(index)
        yield start, batch
        start += batch.num_rows


def _without(text: pa.Array, rows: list[int]) -> pa.Array:
    """The same array with these rows null."""
    keep = np.ones(len(text), dtype=bool)
    keep[rows] = False
    return pc.if_else(pa.array(keep), text, pa.scalar(None, pa.string()))
