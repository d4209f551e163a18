"""The original input, read again: texts and event times by row, in the simplest way."""

from __future__ import annotations

import csv
import gzip
import io
import json
import math
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import IO, Any, NoReturn

import pyarrow as pa
import pyarrow.parquet as pq

from controlplane.verification.problems import VerificationError

Row = tuple[bytes | str | None, Any, Any]
MICROSECONDS = {"s": 1_000_000, "ms": 1_000, "us": 1}
_FARTHEST_US = 2**60


@dataclass(frozen=True, slots=True)
class Original:
    """By row: texts (None for an unusable row); if the file has the column, event times in microseconds since
    the Unix epoch; if a column was asked for that decides the partition, its values."""

    texts: list[str | None]
    times: list[int] | None
    parts: list[str | None] | None


def original_read(path: Path, *, text: str, ts: str, ts_unit: str, part: str = "") -> Original:
    """Raises `VerificationError`."""
    texts: list[str | None] = []
    times: list[Any] = []
    parts: list[str | None] = []
    try:
        rows, timed = _rows(path, text, ts, part)
        for value, time, group in rows:
            whole = isinstance(group, int) and not isinstance(group, bool)
            parts.append(_text(str(group) if whole else group) if part else None)
            texts.append(None if part and parts[-1] is None else _text(value))
            times.append(time)
    except (OSError, EOFError, ValueError, KeyError, csv.Error, zlib.error, pa.ArrowException) as error:
        raise VerificationError(
            where=str(path),
            what=f"the original input cannot be read: {error}",
            hint="Put the file back, or name a copy of it with --input.",
        ) from error
    return Original(texts, _times(texts, times, ts_unit) if timed else None, parts if part else None)


def _rows(path: Path, text: str, ts: str, part: str) -> tuple[Iterator[Row], bool]:
    """Row by row: what a file holds besides may be much larger than the columns that are needed."""
    name = path.name.lower().removesuffix(".gz")
    if name.endswith((".parquet", ".pq")):
        timed = bool(ts) and ts in pq.read_schema(path).names
        return _parquet_rows(path, text, ts if timed else None, part), timed
    if name.endswith((".jsonl", ".ndjson")):
        timed = bool(ts) and any(ts in row for row in _json_objects(path))
        return ((row.get(text), row.get(ts), row.get(part)) for row in _json_objects(path)), timed
    table = _csv_table(path, "\t" if name.endswith(".tsv") else ",")
    header = next(table, [])
    timed = bool(ts) and ts in header
    places = (header.index(text), header.index(ts) if timed else None, header.index(part) if part else None)
    return _csv_rows(table, len(header), places), timed


def _opened(path: Path) -> IO[bytes]:
    if path.name.lower().endswith(".gz"):
        return gzip.open(path, "rb")  # type: ignore[return-value]  # typeshed has no IO for it
    return path.open("rb")


def _json_objects(path: Path) -> Iterator[dict[str, Any]]:
    with _opened(path) as file:
        for number, line in enumerate(file):
            line = line if number else line.removeprefix(b"\xef\xbb\xbf")
            if line.strip():
                yield _json_object(line)


def _csv_table(path: Path, delimiter: str) -> Iterator[list[str]]:
    csv.field_size_limit(1 << 30)
    with io.TextIOWrapper(_opened(path), "utf-8-sig", "surrogateescape", newline="") as decoded:
        yield from csv.reader(decoded, delimiter=delimiter)


def _parquet_rows(path: Path, text: str, ts: str | None, part: str) -> Iterator[Row]:
    with pq.ParquetFile(path) as file:
        for batch in file.iter_batches(columns=list({text, ts or text, part or text})):
            values = _parquet_texts(batch.column(text))
            times = _parquet_times(batch.column(ts)) if ts else [None] * len(values)
            parts = _parquet_texts(batch.column(part)) if part else times
            yield from zip(values, times, parts, strict=True)


def _parquet_texts(column: pa.Array) -> list[Any]:
    if pa.types.is_dictionary(column.type):
        column = column.dictionary_decode()
    if pa.types.is_integer(column.type):
        return [None if value is None else str(value) for value in column.to_pylist()]
    return list(column.cast(pa.large_binary()).to_pylist())


def _parquet_times(column: pa.Array) -> list[Any]:
    """Timestamps become datetimes' microseconds as a tagged number, everything else stays as it is."""
    if pa.types.is_dictionary(column.type):
        column = column.dictionary_decode()
    if pa.types.is_date(column.type):
        dates = column.cast(pa.date32()).cast(pa.int32()).to_pylist()
        return [None if day is None else _Micros(day * 86_400_000_000) for day in dates]
    if not pa.types.is_timestamp(column.type):
        return list(column.to_pylist())
    per = {"s": 1_000_000, "ms": 1_000, "us": 1, "ns": 0}[column.type.unit]
    counts = column.cast(pa.int64()).to_pylist()
    return [None if n is None else _Micros(n * per if per else n // 1_000) for n in counts]


class _Micros(int):
    """A number that is in microseconds already."""


def _csv_rows(
    table: Iterator[list[str]], width: int, places: tuple[int, int | None, int | None]
) -> Iterator[Row]:
    place, time_place, part_place = places
    for fields in table:
        if not fields:
            if width == 1:
                yield "", None, ""
            continue
        if len(fields) != width:
            yield None, None, None
            continue
        value = fields[place].encode("utf-8", "surrogateescape")
        part = None if part_place is None else fields[part_place].encode("utf-8", "surrogateescape")
        yield value, None if time_place is None else fields[time_place], part


def _json_object(line: bytes) -> dict[str, Any]:
    try:
        row = json.loads(line.decode("utf-8"), parse_constant=_refuse, parse_float=_fraction)
        if b"\\u" in line:
            json.dumps(row, ensure_ascii=False).encode()  # half of a surrogate pair is no text
    except (ValueError, RecursionError):
        return {}
    return row if isinstance(row, dict) else {}


def _refuse(text: str) -> NoReturn:
    raise ValueError(f"{text} is no number in JSON")


def _fraction(text: str) -> float:
    number = float(text)
    return number if math.isfinite(number) else _refuse(text)


def _text(value: Any) -> str | None:
    if isinstance(value, bytes):
        try:
            return value.decode("utf-8")
        except UnicodeDecodeError:
            return None
    return value if isinstance(value, str) else None


def _times(texts: list[str | None], values: list[Any], unit: str) -> list[int]:
    """Microseconds by row. A row without a time of its own has no text either, and takes the time of the row
    before (of the first row with one, at the beginning)."""
    plain = [_number(value) for value in values]
    if unit == "auto":
        numbers = (n for n in plain if isinstance(n, int | float) and not isinstance(n, _Micros))
        first = next((n for n in numbers if abs(n) < _FARTHEST_US * 1_000), 0)  # else no time in any unit
        unit = next(
            (name for name, top in (("s", 1e11), ("ms", 1e14), ("us", 1e17)) if abs(first) < top), "ns"
        )
    micros = [_scaled(number, unit) for number in plain]
    known = next((time for time in micros if time is not None), 0)
    for row, time in enumerate(micros):
        if time is None:
            texts[row] = None
        else:
            known = time
        micros[row] = known
    return [time for time in micros if time is not None]


def _number(value: Any) -> int | float | None:
    """A time as a number (`_Micros` if its unit is settled)."""
    if isinstance(value, bool) or value is None:
        return None
    if isinstance(value, Decimal) and value == value.to_integral_value():
        return int(value)
    if isinstance(value, int | float):
        return value if math.isfinite(value) else None
    text = value.decode("utf-8", "replace") if isinstance(value, bytes) else str(value)
    for kind in (int, float):
        try:
            return _number(kind(text.strip()))
        except ValueError:
            continue
    try:
        moment = datetime.fromisoformat(text.strip())
    except ValueError:
        return None
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    delta = moment - datetime(1970, 1, 1, tzinfo=UTC)
    return _Micros((delta.days * 86_400 + delta.seconds) * 1_000_000 + delta.microseconds)


def _scaled(number: int | float | None, unit: str) -> int | None:
    time: int | None
    if number is None or isinstance(number, _Micros):
        time = number
    elif unit == "ns":
        time = number // 1_000 if isinstance(number, int) else round(number / 1_000)
    else:
        time = number * MICROSECONDS[unit] if isinstance(number, int) else round(number * MICROSECONDS[unit])
    return None if time is None or abs(time) >= _FARTHEST_US else int(time)
