"""Reading a user's file, row by row or column by column, without trusting it.

Every format yields `Rows`: text (null where a row has none that can be used), the raw event times if the
file has such a column, and the reasons for the nulls. A row always keeps its number.
"""

from __future__ import annotations

import csv
import gzip
from codecs import BOM_UTF8
from collections.abc import Callable, Generator, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from io import TextIOWrapper
from pathlib import Path
from typing import IO, Any, Final

import msgspec
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from spark_jobs.sources.bounded_lines import LONGEST_ROW, BoundedLines, RowTooLongError
from spark_jobs.sources.problems import SourceError

CHUNK_ROWS: Final = 65_536
CHUNK_TEXT: Final = 64 << 20
"""Characters of text, from which fewer rows of CSV and JSON are a chunk."""
SUFFIXES: Final = {
    ".parquet": "parquet", ".pq": "parquet", ".csv": "csv", ".tsv": "tsv", ".jsonl": "jsonl",
    ".ndjson": "jsonl",
}  # fmt: skip
_NOT_JSON: Final = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)
"""Raised for a line that cannot be read; the last of them where it is nested too deeply."""
Progress = Callable[[int, int], None]


@dataclass(slots=True)
class Rows:
    """Some consecutive rows. `times` has the file's own type; `rejected` holds (row in chunk, reason).
    `part` is the text of the column that decides the source partition, if there is one."""

    text: pa.Array
    times: pa.Array | None
    rejected: list[tuple[int, str]] = field(default_factory=list)
    part: pa.Array | None = None


def file_format(path: Path) -> str:
    """'parquet', 'csv', 'tsv' or 'jsonl', by the name (a trailing .gz does not count)."""
    suffixes = [suffix.lower() for suffix in path.suffixes]
    if suffixes and suffixes[-1] == ".gz":
        suffixes.pop()
    kind = SUFFIXES.get(suffixes[-1]) if suffixes else None
    if kind is None or (kind == "parquet" and path.suffix.lower() == ".gz"):
        raise SourceError(
            where=str(path),
            what=f"the file's name ends in {path.suffix or 'nothing'!r}, which is no format that can be read",
            hint="Give a .parquet, .csv, .tsv, .jsonl or .ndjson file (the text formats also with .gz).",
        )
    return kind


def rows_of(
    path: Path, *, text: str, ts: str, progress: Progress, part: str = ""
) -> Generator[Rows, None, None]:
    """The file's rows in order; raises `SourceError` when the file or one of its columns cannot be read. ts,
    part: columns of event times and of what decides the partition; empty for none."""
    kind = file_format(path)
    if kind == "parquet":
        yield from _parquet(path, text, ts, part, progress)
    elif kind == "jsonl":
        yield from _jsonl(path, text, ts, part, progress)
    else:
        yield from _csv(path, text, ts, part, progress, "\t" if kind == "tsv" else ",")


def _missing_column(path: Path, text: str, present: list[str], parameter: str = "text") -> SourceError:
    listed = ", ".join(f"{name!r:.80}" for name in present[:20]) or "none"
    holds = "holds the text" if parameter == "text" else "decides the partition"
    return SourceError(
        where=str(path),
        what=f"the file has no column {text!r}; its columns are {listed}",
        hint=f"Name the column that {holds} with the source's `{parameter}` parameter, or add one.",
    )


def _parquet(path: Path, text: str, ts: str, part: str, progress: Progress) -> Iterator[Rows]:
    with pq.ParquetFile(path, memory_map=True) as file:
        schema = file.schema_arrow
        for name, parameter in ((text, "text"), (part, "partition_by")):
            if name or parameter == "text":
                _require_text(path, schema, name, parameter)
        timed = bool(ts) and ts in schema.names
        columns = list(dict.fromkeys([text, *([ts] if timed else []), *([part] if part else [])]))
        total, done = file.metadata.num_rows, 0
        at_once = _rows_at_once(path, [name for name in columns if _holds_text(schema.field(name).type)])
        for batch in file.iter_batches(at_once, columns=columns, use_threads=False):
            rows = _checked(batch.column(text), batch.column(ts) if timed else None)
            if part:
                _parted(rows, part, _checked(batch.column(part), None).text)
            yield rows
            done += batch.num_rows
            progress(done, total)


def _rows_at_once(path: Path, names: list[str]) -> int:
    """So many that their text is no more than `CHUNK_TEXT`: a value that the file has once may be that of
    every row. Raises `SourceError` where one is too long."""
    longest = 1
    with pq.ParquetFile(path, memory_map=True, read_dictionary=names) as file:
        for group in range(file.num_row_groups if names else 0):
            first = file.iter_batches(1, row_groups=[group], columns=names, use_threads=False)
            for column in next(first, pa.record_batch({})).columns:
                if isinstance(column, pa.DictionaryArray) and not pa.types.is_null(column.type.value_type):
                    longest = max(longest, pc.max(pc.binary_length(column.dictionary)).as_py() or 0)
    if longest > LONGEST_ROW:
        raise _unreadable(path, f"a row cannot be taken: it is longer than {LONGEST_ROW >> 20} MB")
    return max(1, min(CHUNK_ROWS, CHUNK_TEXT // longest))


def _require_text(path: Path, schema: pa.Schema, name: str, parameter: str) -> None:
    if name not in schema.names:
        raise _missing_column(path, name, schema.names, parameter)
    kind = schema.field(name).type
    if not (_holds_text(kind) or pa.types.is_integer(kind)):
        raise SourceError(
            where=str(path),
            what=f"column {name!r} holds {kind}, not text",
            hint=f"Name a column of strings or whole numbers with the source's `{parameter}` parameter.",
        )


def _parted(rows: Rows, part: str, values: pa.Array) -> None:
    """Add what decides the partition; rows without it are not used."""
    rows.part = values
    known = {row for row, _ in rows.rejected}
    for row, gone in enumerate(values.is_null().to_pylist() if values.null_count else ()):
        if gone and row not in known:
            rows.rejected.append((row, f"there is no {part}, which decides the partition"))
    rows.text = pc.if_else(values.is_valid(), rows.text, pa.scalar(None, pa.string()))


def _holds_text(kind: pa.DataType) -> bool:
    if pa.types.is_dictionary(kind):
        return _holds_text(kind.value_type)
    tests = (pa.types.is_string, pa.types.is_large_string, pa.types.is_string_view, pa.types.is_binary,
             pa.types.is_large_binary, pa.types.is_binary_view, pa.types.is_null)  # fmt: skip
    return any(test(kind) for test in tests)


def _checked(values: pa.Array, times: pa.Array | None) -> Rows:
    """Text as Arrow strings; rows that are null or not UTF-8 become null, with the reason."""
    rejected: list[tuple[int, str]] = []
    if pa.types.is_dictionary(values.type):
        values = values.cast(values.type.value_type)
    if pa.types.is_integer(values.type):
        values = values.cast(pa.string())
    raw = values if pa.types.is_null(values.type) else values.cast(pa.binary())
    try:
        strings = raw.cast(pa.string())
    except pa.ArrowInvalid:
        strings = pa.array([_decoded(value) for value in raw.to_pylist()], pa.string())
    if strings.null_count:
        was_null = raw.is_null().to_pylist()
        for row, missing in enumerate(strings.is_null().to_pylist()):
            if missing:
                rejected.append((row, "the text is null" if was_null[row] else "the text is not UTF-8"))
    return Rows(strings, times, rejected)


def _decoded(value: bytes | None) -> str | None:
    try:
        return None if value is None else value.decode("utf-8")
    except UnicodeDecodeError:
        return None


def _field(value: str) -> str | None:
    """A field of CSV; None if bytes of it are not UTF-8."""
    if value.isascii() or value.isprintable():
        return value
    return _decoded(value.encode("utf-8", "surrogateescape"))


class _Collector:
    """Gathers single rows into chunks."""

    def __init__(self, with_times: bool, part: str) -> None:
        self.with_times = with_times
        self.part = part
        self.clear()

    def clear(self) -> None:
        self.size = 0
        self.text: list[str | None] = []
        self.times: list[Any] = []
        self.parts: list[str | None] = []
        self.rejected: list[tuple[int, str]] = []

    def add(self, text: str | None, time: Any, reason: str = "", part: str | None = None) -> None:
        if reason:
            self.rejected.append((len(self.text), reason))
        self.size += len(text or "")
        self.text.append(text)
        self.times.append(time)
        self.parts.append(part)

    @property
    def full(self) -> bool:
        return len(self.text) == CHUNK_ROWS or self.size >= CHUNK_TEXT

    def take(self) -> Rows:
        times = _time_array(self.times) if self.with_times else None
        rows = Rows(pa.array(self.text, pa.string()), times, self.rejected)
        if self.part:
            _parted(rows, self.part, pa.array(self.parts, pa.string()))
        self.clear()
        return rows


def _time_array(values: list[Any]) -> pa.Array:
    """Numbers or texts as they came; what is neither is null. Columns that no type of numbers holds exactly
    are read as text."""
    plain = [
        value if isinstance(value, str | int | float) and not isinstance(value, bool) else None
        for value in values
    ]
    kinds = {type(value) for value in plain if value is not None}
    if kinds == {float}:
        return pa.array(plain, pa.float64())
    if kinds <= {int}:
        with suppress(OverflowError, pa.ArrowInvalid):
            return pa.array(plain, pa.int64())
    return pa.array([None if value is None else str(value) for value in plain], pa.string())


def _opened(path: Path) -> tuple[IO[bytes], IO[bytes]]:
    """The raw file (whose position tells the progress) and the stream of its content."""
    raw = path.open("rb")
    return raw, (gzip.GzipFile(fileobj=raw) if path.suffix.lower() == ".gz" else raw)  # type: ignore[return-value]


def _lines(path: Path, stream: IO[bytes]) -> Iterator[bytes]:
    """Without a byte-order mark."""
    lines = BoundedLines(stream)
    number = 0
    try:
        for number, line in enumerate(lines, start=1):
            lines.row_ended()
            yield line if number > 1 else line.removeprefix(BOM_UTF8)
    except RowTooLongError as error:
        raise _unreadable(path, f"line {number + 1} cannot be taken: {error}") from error


def _csv(path: Path, text: str, ts: str, part: str, progress: Progress, delimiter: str) -> Iterator[Rows]:
    raw, stream = _opened(path)
    total = path.stat().st_size
    # Bytes that are not UTF-8 survive as surrogates, so that they can be told apart field by field. Also a
    # carriage return ends a line, or one in a single row would be an error of the whole file.
    decoded = TextIOWrapper(stream, encoding="utf-8-sig", errors="surrogateescape", newline="")
    with raw, decoded:
        lines = BoundedLines(decoded)
        limit = csv.field_size_limit(LONGEST_ROW)
        try:
            reader = csv.reader(lines, delimiter=delimiter)
            header = next(reader, [])
            if text not in header:
                raise _missing_column(path, text, header)
            if part and part not in header:
                raise _missing_column(path, part, header, "partition_by")
            at = (header.index(text), header.index(ts) if ts and ts in header else -1)
            part_at = header.index(part) if part else -1
            rows = _Collector(at[1] >= 0, part)
            yield from _csv_rows(
                _each(reader, lines), rows, len(header), (*at, part_at), lambda: progress(raw.tell(), total)
            )
        except RowTooLongError as error:
            raise _unreadable(
                path, f"the row at line {reader.line_num + 1} cannot be taken: {error}"
            ) from error
        except csv.Error as error:
            raise _unreadable(path, f"line {reader.line_num} is not CSV: {error}") from error
        finally:
            csv.field_size_limit(limit)


def _each(reader: Iterator[list[str]], lines: BoundedLines[str]) -> Iterator[list[str]]:
    lines.row_ended()
    for fields in reader:
        lines.row_ended()
        yield fields


def _csv_rows(
    reader: Iterator[list[str]],
    rows: _Collector,
    width: int,
    places: tuple[int, int, int],
    progressed: Callable[[], None],
) -> Iterator[Rows]:
    at, time_at, part_at = places
    for fields in reader:
        if not fields and width > 1:
            continue  # an empty line is no row in CSV
        row = fields or [""]
        if len(row) != width:
            rows.add(None, None, f"fields in the row: {len(row)}, in the header: {width}")
        else:
            value = _field(row[at])
            time = _field(row[time_at]) if time_at >= 0 else None
            part = _field(row[part_at]) if part_at >= 0 else None
            rows.add(value, time, "the text is not UTF-8" if value is None else "", part)
        if rows.full:
            yield rows.take()
            progressed()
    if rows.text:
        yield rows.take()
    progressed()


def _jsonl(path: Path, text: str, ts: str, part: str, progress: Progress) -> Iterator[Rows]:
    decoder = msgspec.json.Decoder()
    total = path.stat().st_size
    rows, seen, found = _Collector(_json_has(path, ts, decoder), part), dict[str, None](), False
    later = False
    raw, stream = _opened(path)
    with raw, stream:
        for line in _lines(path, stream):
            if not line.strip():
                continue
            found = _json_row(rows, line, text, ts, decoder, seen) or found
            if rows.full:
                if not found and not (later := later or _json_has(path, text, decoder)):
                    break
                yield rows.take()
                progress(raw.tell(), total)
    if seen and not found:
        raise _missing_column(path, text, list(seen))
    if rows.text:
        yield rows.take()
    progress(total, total)


def _json_has(path: Path, name: str, decoder: msgspec.json.Decoder[Any]) -> bool:
    """Whether a row of the file has this field; the first one may be far down."""
    raw, stream = _opened(path)
    with raw, stream:
        for line in _lines(path, stream) if name else ():
            with suppress(*_NOT_JSON):
                row = decoder.decode(line)
                if isinstance(row, dict) and name in row:
                    return True
    return False


def _json_row(
    rows: _Collector,
    line: bytes,
    text: str,
    ts: str,
    decoder: msgspec.json.Decoder[Any],
    seen: dict[str, None],
) -> bool:
    """Add one line's row; whether it had the text field at all."""
    try:
        row = decoder.decode(line)
    except _NOT_JSON as error:
        utf8 = _decoded(line) is not None
        rows.add(None, None, f"the line is not JSON: {error}" if utf8 else "the text is not UTF-8")
        return False
    if not isinstance(row, dict):
        rows.add(None, None, "the line is not a JSON object")
        return False
    if len(seen) < 100:
        seen.update(dict.fromkeys(row))
    value, time, part = row.get(text), row.get(ts), row.get(rows.part)
    if isinstance(part, int) and not isinstance(part, bool):
        part = str(part)
    part = part if isinstance(part, str) else None
    if value is None:
        reason = "the text is null" if text in row else f"the row has no field {text!r}"
        rows.add(None, time, reason, part)
    elif not isinstance(value, str):
        rows.add(None, time, "the text is not a string", part)
    else:
        rows.add(value, time, part=part)
    return text in row


def _unreadable(path: Path, what: str) -> SourceError:
    return SourceError(where=str(path), what=what, hint="Check that the file is whole and has this format.")
