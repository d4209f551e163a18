"""Columns of the files of results: which there are, and how pages show their values."""

# Queries are put together from names of columns, which are quoted here.
# ruff: noqa: S608

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Final

import duckdb

from controlplane.results.messages import Column
from domain.masking import MASK

MEMORY: Final = "256MB"
LONGEST: Final = 1_000
"""Characters of a text that are shown."""
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_INTEGERS = ("TINYINT", "SMALLINT", "INTEGER", "BIGINT", "HUGEINT")
NUMBERS = (*_INTEGERS, *(f"U{name}" for name in _INTEGERS), "FLOAT", "DOUBLE")

DATABASE: Final[dict[str, str | bool | int | float | list[str]]] = {
    "threads": 1,
    "memory_limit": MEMORY,
    "temp_directory": "",
    "preserve_insertion_order": False,
}
SOURCE: Final = "read_parquet($files, hive_partitioning = false, union_by_name = true)"


class Columns:
    """The columns of rows, known from the newest file. masked: those whose values are hidden."""

    def __init__(self, database: duckdb.DuckDBPyConnection, newest: Path, masked: Collection[str]) -> None:
        self._database = database
        self.types = self._types_of([str(newest)])
        # DuckDB numbers names that differ in case only: `email` behind `Email` becomes `email_1`.
        self.told = [
            Column(name=name, type=_kind(given), masked=written in masked)
            for (name, given), written in zip(self.types.items(), self._names_written(newest), strict=True)
        ]
        self._makers: list[tuple[str, Callable[[Any], Any]]] = [
            (column.name, instant_or_none if column.type == "time" and not column.masked else _plain)
            for column in self.told
        ]

    def _types_of(self, files: Sequence[str]) -> dict[str, str]:
        """The columns of all of these files together, with their types."""
        described = self._database.execute(f"DESCRIBE SELECT * FROM {SOURCE}", {"files": files}).fetchall()
        return {row[0]: row[1] for row in described}

    def _names_written(self, file: Path) -> list[str]:
        """The names of the columns as the file has them. What is in a column follows it."""
        root, *rest = self._database.execute(
            "SELECT name, coalesce(num_children, 0) FROM parquet_schema($file)", {"file": str(file)}
        ).fetchall()
        names: list[str] = []
        left = [root[1]]
        for name, children in rest:
            if len(left) == 1:
                names.append(name)
            left[-1] -= 1
            left.append(children)
            while len(left) > 1 and not left[-1]:
                left.pop()
        return names

    def selected(self, files: Sequence[str]) -> str:
        """The columns as they are shown: instants in microseconds, long texts cut, masked values hidden. The
        rows of `files` may lack columns of the newest file, or have them with other types."""
        types = self._types_of(files)
        parts = []
        for column in self.told:
            value, given = quoted(column.name), types.get(column.name)
            if given is None:
                parts.append("NULL")
            elif column.masked:
                parts.append(f"CASE WHEN {value} IS NULL THEN NULL ELSE '{MASK}' END")
            elif column.type == "time" == _kind(given):
                parts.append(_micros(value, given))
            elif column.type in ("number", "boolean") and column.type == _kind(given):
                parts.append(value)
            else:
                text = value if given == "VARCHAR" else f"{value}::VARCHAR"
                cut = f"left({text}, {LONGEST}) || '…'"
                parts.append(f"CASE WHEN length({text}) > {LONGEST} THEN {cut} ELSE {text} END")
        return ", ".join(parts)

    def micros(self, name: str) -> str:
        """Microseconds since the Unix epoch of a column of instants."""
        return _micros(quoted(name), self.types[name])

    def row(self, values: Sequence[Any]) -> dict[str, Any]:
        """A row that was read as `selected` says, as JSON has it."""
        return {name: make(value) for (name, make), value in zip(self._makers, values, strict=True)}


def _micros(value: str, given: str) -> str:
    """Microseconds since the Unix epoch of an instant of this type."""
    return f"epoch_us({value}::TIMESTAMPTZ)" if given == "TIMESTAMPTZ_NS" else f"epoch_us({value})"


def _kind(given: str) -> str:
    if given.startswith("TIMESTAMP"):
        return "time"
    if given == "BOOLEAN":
        return "boolean"
    return "number" if given in NUMBERS else "text"


def quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def _plain(value: Any) -> Any:
    """JSON has no number for what is infinite or undefined."""
    return str(value) if isinstance(value, float) and not math.isfinite(value) else value


def instant(micros: int) -> str:
    try:
        return (_EPOCH + timedelta(microseconds=micros)).isoformat().replace("+00:00", "Z")
    except OverflowError:
        return str(micros)


def instant_or_none(micros: int | str | None) -> str | None:
    """A text is a value of rows in which the column holds no instants."""
    return instant(micros) if isinstance(micros, int) else micros
