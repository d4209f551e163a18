"""Speeds on segments of roads, as sensors measured them: a column for each segment, a row for each step."""

from __future__ import annotations

import math
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import msgspec

from spark_jobs.sources.csv_files import csv_lines
from spark_jobs.sources.problems import SourceError

STEP_US: Final = 300_000_000
"""How long a row lasts."""
FASTEST: Final = 1_000
MOST_VALUES: Final = 10_000_000
_HINT: Final = "Give a CSV file with the names of segments as header, and their speeds each five minutes."


class Speeds(msgspec.Struct, frozen=True):
    """What a file of speeds holds, in whole miles per hour."""

    names: list[str]
    rows: list[list[int]]


speeds_decoder: Final = msgspec.json.Decoder(Speeds)


def speeds_read(path: Path) -> Speeds:
    """A file of speeds, checked; raises `SourceError` that names the line."""
    with csv_lines(path, _HINT) as lines:
        return _speeds(path, lines)


def _speeds(path: Path, lines: Iterator[list[str]]) -> Speeds:
    names = [name.strip() for name in next(lines, [])]
    if not any(names):
        raise _wrong(path, "the file has no header")
    if "" in names or len(set(names)) < len(names):
        raise _wrong(path, "line 1, the header, has an empty name, or one twice")
    rows: list[list[int]] = []
    for number, line in enumerate(lines, start=2):
        if not line:
            continue
        if len(line) != len(names):
            raise _wrong(path, f"line {number} has {len(line)} fields, the header {len(names)}")
        rows.append([_speed(path, number, text) for text in line])
        if len(rows) * len(names) > MOST_VALUES:
            raise _wrong(path, f"the file has more than {MOST_VALUES} speeds", "Give fewer segments or rows.")
    if not rows:
        raise _wrong(path, "the file has no rows")
    return Speeds(names, rows)


def _speed(path: Path, number: int, text: str) -> int:
    try:
        speed = float(text)
    except ValueError as error:
        raise _wrong(path, f"line {number}: {text!r:.80} is no number") from error
    if not 0 <= speed <= FASTEST:
        raise _wrong(path, f"line {number}: {text} is no speed; it must be from 0 to {FASTEST}")
    return math.floor(speed + 0.5)


def _wrong(path: Path, what: str, hint: str = _HINT) -> SourceError:
    return SourceError(where=str(path), what=what, hint=hint)
