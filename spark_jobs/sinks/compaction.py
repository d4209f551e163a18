"""Putting the small files of many epochs into one, and removing what is older or larger than may be kept.

Each epoch makes a file for every query that has rows. When none of a span of epochs can be written again,
their rows go into one file for each partition, in the order of epochs. `committed.json` then names the span,
and the small files go some minutes later: a reader that has just listed them still finds them.
"""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import msgspec
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from host.durable import DurableBatch, temporary_name
from spark_jobs.sinks.base import SinkError
from spark_jobs.sinks.committed import SPAN_FILE, Committed, Span, epoch_file, span_name
from spark_jobs.sinks.parquet import INSTANT, write_table
from spark_jobs.sinks.tentative import DIRECTORY

WINDOW_END = "window_end"
GRACE = 300.0
"""Seconds in which who has listed the small files of a span can still read them."""


def spans_due(done: int, *, settled: int, length: int) -> list[tuple[int, int]]:
    """First and last epoch of the spans after epoch `done` that are whole. settled: the last epoch that will
    not be written again. Spans end at multiples of `length`, so the first one may be shorter."""
    found = []
    while (last := (done // length + 1) * length) <= settled:
        found.append((done + 1, last))
        done = last
    return found


def compact(directory: Path, first: int, last: int, *, writing: Path, force: bool = True) -> Span:
    """Write the files of a span, of all operators that have any: an earlier version may have had others. The
    small ones stay. Done again, after a crash, it writes the same rows. `directory` is that of the
    deployment's outputs. writing: where files are until they are whole; the next driver empties it. force: as
    for `DurableBatch`. Raises `SinkError`."""
    span = Span(first=first, last=last)
    until: dict[str, int] = {}
    batch = DurableBatch(directory.parent, force=force)
    with ExitStack() as on_the_way:
        for partition in sorted(directory.glob("*/partition=*")):
            files = [epoch_file(partition / f"epoch={epoch}") for epoch in range(first, last + 1)]
            tables = [_read(file) for file in files if file is not None]
            if tables:
                target = partition / span_name(span) / SPAN_FILE
                target.parent.mkdir(exist_ok=True)
                temporary = temporary_name(writing / f"{partition.name}.{span_name(span)}")
                on_the_way.callback(temporary.unlink, missing_ok=True)
                table = _write(temporary, tables, target)
                batch.add(temporary, target)
                _reach(until, partition.parent.name, table)
        for target, error in batch.settle().items():
            hint = "Its epochs stay in files of their own; it is written again with the next checkpoint."
            raise SinkError(str(target), f"it cannot be written: {error.strerror or error}", hint) from error
    return msgspec.structs.replace(span, until=until)


def spans_found(directory: Path) -> list[Span]:
    """The spans whose small files have gone, so they were in use; for where `committed.json` was damaged or
    removed. Those whose small files are still there are written again."""
    found: dict[tuple[int, int], dict[str, int]] = {}
    small: set[int] = set()
    for path in directory.glob("*/partition=*/epoch*=*"):
        name, _, number = path.name.partition("=")
        first, _, last = number.rpartition("-")
        if name == "epoch" and number.isdigit():
            small.add(int(number))
        elif first.isdigit() and last.isdigit() and (path / SPAN_FILE).is_file():
            until = found.setdefault((int(first), int(last)), {})
            _reach(until, path.parent.parent.name, _read(path / SPAN_FILE))
    return [
        Span(first=first, last=last, until=until)
        for (first, last), until in sorted(found.items())
        if small.isdisjoint(range(first, last + 1))
    ]


def remove_replaced(directory: Path, committed: Committed, *, grace: float = GRACE) -> int:
    """Remove the files of epochs that have been in a span for `grace` seconds, with the tentative ones, and
    those of spans that do not count any more; returns how many directories went."""
    gone, replaced = 0, committed.removed
    for span in committed.spans:
        if time.time() - _measured(directory, span)[1] < grace:
            break
        replaced = span.last
    found = ("*/partition=*/epoch=*", "*/partition=*/epochs=*-*", f"{DIRECTORY}/*/partition=*/epoch=*")
    for path in [path for pattern in found for path in directory.glob(pattern)]:
        name, _, number = path.name.partition("=")
        last = number.rpartition("-")[2]
        limit = replaced if name == "epoch" else committed.removed
        if last.isdigit() and int(last) <= limit:
            shutil.rmtree(path, ignore_errors=True)
            gone += 1
    return gone


@dataclass(frozen=True, slots=True)
class Bounds:
    """What may be kept: seconds since a span was written, and bytes of all spans together."""

    age: float = float("inf")
    size: float = float("inf")


def retire(
    directory: Path, committed: Committed, bounds: Bounds, *, now: Callable[[], float] = time.time
) -> Committed:
    """What counts without the oldest spans, as far as the bounds want that. Nothing is removed yet: readers
    have to be told first."""
    measured = [_measured(directory, span) for span in committed.spans]
    total = sum(size for size, _ in measured)
    count = 0
    for size, written in measured:
        if total <= bounds.size and now() - written <= bounds.age:
            break
        total -= size
        count += 1
    if not count:
        return committed
    until = dict(committed.removed_until)
    for span in committed.spans[:count]:
        until |= span.until
    return msgspec.structs.replace(
        committed,
        removed=committed.spans[count - 1].last,
        removed_until=until,
        spans=committed.spans[count:],
    )


def small_files_stay(directory: Path, committed: Committed, first: int) -> bool:
    """Whether the files of the epochs from `first` on are all there still, for two minutes or more, although
    some may be in spans by now."""
    if first <= committed.removed:
        return False
    merged = [_measured(directory, span)[1] for span in committed.spans if span.last >= first]
    return all(not written or time.time() - written < GRACE / 2 for written in merged)


def _measured(directory: Path, span: Span) -> tuple[int, float]:
    """Bytes of a span's files, and when the youngest was written; a span without rows is as old as any."""
    found = [path.stat() for path in directory.glob(f"*/partition=*/{span_name(span)}/{SPAN_FILE}")]
    return sum(one.st_size for one in found), max((one.st_mtime for one in found), default=0.0)


def _read(file: Path) -> pa.Table:
    try:
        return pq.ParquetFile(file).read(use_threads=False)
    except (OSError, pa.ArrowException) as error:
        hint = "The epochs of its span stay in files of their own. `manage.py verify` tells what is missing."
        raise SinkError(str(file), f"it cannot be read: {error}", hint) from error


def _write(temporary: Path, tables: Sequence[pa.Table], target: Path) -> pa.Table:
    """Write the rows of all tables into one file: columns go together by their names, and a row without one
    has null there. Returns the rows."""
    same = all(table.schema.equals(tables[0].schema) for table in tables)
    try:
        # Only tables of one schema may have two columns of one name.
        table = pa.concat_tables(tables, promote_options="none" if same else "permissive").combine_chunks()
        for name in set[str]().union(*(one.column_names for one in tables if not same)):
            kinds = {one.schema.field(name).type for one in tables if name in one.column_names}
            if any(_rounds(kind, table.schema.field(name).type) for kind in kinds):
                shown = ", ".join(sorted(map(str, kinds)))
                raise pa.ArrowTypeError(f"column {name!r} has {shown}, which no one type holds exactly")
        write_table(temporary, table)
        return table
    except pa.ArrowException as error:
        hint = (
            "This span and those after it stay in small files, and are not removed by their age or size."
            " Have the operator give each column one type, and deploy the topology again."
        )
        what = f"the rows of its epochs cannot be put into one file: {error}"
        raise SinkError(str(target), what, hint) from error


def _rounds(kind: pa.DataType, common: pa.DataType) -> bool:
    """Whether values may become others in the common type that Arrow finds: it makes fractions of decimals,
    and checks all other values. Readers take decimals of 128 bits only."""
    if pa.types.is_decimal(kind):
        return not (pa.types.is_decimal128(common) or kind.equals(common))
    places = [kind.field(place) for place in range(kind.num_fields)]
    if pa.types.is_struct(kind):
        return any(_rounds(one.type, common.field(one.name).type) for one in places)
    return any(_rounds(one.type, common.field(place).type) for place, one in enumerate(places))


def _reach(until: dict[str, int], operator: str, table: pa.Table) -> None:
    """Note the last window of the rows, in microseconds; rows without such a column of instants have none."""
    if WINDOW_END not in table.column_names or not pa.types.is_timestamp(table.schema.field(WINDOW_END).type):
        return
    last = pc.max(table.column(WINDOW_END)).cast(INSTANT, safe=False).value
    if last is not None:
        until[operator] = max(until.get(operator, last), last)
