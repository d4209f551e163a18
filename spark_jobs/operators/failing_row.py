"""The row that an operator failed on, where that can be found out.

An operator gets whole tables, and most errors do not say which row they are about. Where a kind treats rows
one by one, halves of the input are tried until one row is left that fails alone, in the same way. That costs
about what the input took twice, and is given up after a second.
"""

from __future__ import annotations

import contextlib
import json
import time
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from math import isfinite
from typing import Any, Final

import pyarrow as pa

from domain.masking import row_masked

ONE_BY_ONE: Final = frozenset({"flat_map_regex", "filter", "project", "sql", "map"})
"""Kinds without state, of which the same row fails again when it comes alone. A query or a function may treat
rows together; then no row fails alone, and none is named."""
PATIENCE: Final = 1.0
"""Seconds."""
LONGEST: Final = 1_000
"""Bytes of a row as it is told."""
OTHERS: Final = 8
"""Further rows that are tried: if they all fail, too, it is not for one row that the operator fails."""
REMEMBERED: Final = 64

_found: OrderedDict[tuple[Any, ...], str] = OrderedDict()
"""What was found before in this process: a partition that fails is tried again every few seconds."""

Process = Callable[[Mapping[str, Sequence[pa.Table]]], object]


def failing_row(
    key: tuple[Any, ...],
    kind: str,
    inputs: Mapping[str, Sequence[pa.Table]],
    process: Process,
    error: Exception,
    took: float,
    masked: Sequence[str] = (),
) -> str:
    """The row as JSON text, empty where it is not known. key: what failed, to look for it once. took: the
    seconds until it failed. masked: columns whose values are not told."""
    if kind not in ONE_BY_ONE or took > PATIENCE:
        return ""
    if key not in _found:
        _found[key] = ""
        with contextlib.suppress(Exception):  # the operator's own error is what counts
            _found[key] = _searched(inputs, process, type(error), time.monotonic() + PATIENCE, masked)
        if len(_found) > REMEMBERED:
            _found.popitem(last=False)
    return _found[key]


def _searched(
    inputs: Mapping[str, Sequence[pa.Table]],
    process: Process,
    kind: type[Exception],
    until: float,
    masked: Sequence[str],
) -> str:
    for name, tables in inputs.items():
        for table in tables:

            def fails(rows: pa.Table, name: str = name) -> bool:
                try:
                    process({name: [rows]})
                except Exception as error:
                    return type(error) is kind
                return False

            row = _first(table, fails, until)
            if row is not None:
                return row_text(row_masked(row, masked))
    return ""


def _first(rows: pa.Table, fails: Callable[[pa.Table], bool], until: float) -> dict[str, Any] | None:
    """The first row that fails alone, if these rows do."""
    if not rows.num_rows or time.monotonic() > until or not fails(rows):
        return None
    every, start = rows, 0
    while rows.num_rows > 1:
        middle = rows.num_rows // 2
        halves = ((0, rows.slice(0, middle)), (middle, rows.slice(middle)))
        failing = next((half for half in halves if time.monotonic() <= until and fails(half[1])), None)
        if failing is None:
            return None
        start, rows = start + failing[0], failing[1]
    step = max(1, every.num_rows // OTHERS)
    others = [at for at in range(0, every.num_rows, step) if at != start]
    if others and all(time.monotonic() <= until and fails(every.slice(at, 1)) for at in others):
        return None
    found: dict[str, Any] = rows.to_pylist()[0]
    return found


def row_text(row: Mapping[str, Any]) -> str:
    """A row as JSON of at most `LONGEST` bytes: long values are cut, and then columns left out."""
    for longest in (400, 100, 30):
        text = json.dumps({name: _shown(value, longest) for name, value in row.items()}, ensure_ascii=False)
        if len(text.encode(errors="replace")) <= LONGEST:
            return text
    names = list(row)
    return row_text({name: row[name] for name in names[:-1]}) if len(names) > 1 else ""


def _shown(value: Any, longest: int) -> Any:
    if value is None or isinstance(value, bool | int) or (isinstance(value, float) and isfinite(value)):
        return value
    text = str(value).encode(errors="replace").decode()
    return text if len(text) <= longest else f"{text[:longest]}…"
