"""Errors of operators whose input does not fit their parameters, and what is wrong with parameters."""

from __future__ import annotations

from typing import Any

import pyarrow as pa


class OperatorError(ValueError):
    """The operator cannot go on with these rows; `hint` says what to change."""

    def __init__(self, what: str, hint: str) -> None:
        super().__init__(what, hint)
        self.what = what
        self.hint = hint

    def __str__(self) -> str:
        return self.what


def column_of(table: pa.Table, name: str, kind: str) -> pa.ChunkedArray:
    """The column, or an `OperatorError` that lists those there are."""
    if name not in table.column_names:
        raise OperatorError(
            f"{kind} needs a column {name!r}, but its input has {', '.join(table.column_names)}",
            "Correct the operator's parameters, or the operator before it.",
        )
    return table.column(name)


def text_of(table: pa.Table, name: str, kind: str) -> pa.ChunkedArray:
    """The column as plain strings, whatever kind of text it is."""
    column = column_of(table, name, kind)
    if column.type == pa.string():
        return column
    if not _is_text(column.type):
        raise OperatorError(
            f"{kind} needs text in column {name!r}, but it is {column.type}",
            "Convert it in the operator before it, such as `CAST(... AS VARCHAR)` in `sql`.",
        )
    return column.cast(pa.string())


def times_of(table: pa.Table, name: str, kind: str) -> pa.ChunkedArray:
    """The column of event times, in microseconds; a row may be without."""
    column = column_of(table, name, kind)
    if not (pa.types.is_integer(column.type) or pa.types.is_null(column.type)):
        convert = "epoch_us(...)" if pa.types.is_temporal(column.type) else "CAST(... AS BIGINT)"
        raise OperatorError(
            f"{kind} needs whole microseconds in column {name!r}, but it is {column.type}",
            f"Convert it in the operator before it, such as `{convert}` in `sql`.",
        )
    return column.cast(pa.int64())


def column_problems(parameter: str, value: Any) -> list[str]:
    if isinstance(value, str) and value:
        return []
    return [f"{parameter} must be the name of a column, not {value!r}"]


def duration_problems(parameter: str, value: Any) -> list[str]:
    if not isinstance(value, bool) and isinstance(value, int | float) and 0.001 <= value <= 604_800:
        return []
    return [f"{parameter} must be a duration between 1 ms and 7 d, such as 30, 15m or 1h, not {value!r}"]


def _is_text(kind: pa.DataType) -> bool:
    if pa.types.is_dictionary(kind):
        return _is_text(kind.value_type)
    tests = (pa.types.is_string, pa.types.is_large_string, pa.types.is_string_view, pa.types.is_null)
    return any(test(kind) for test in tests)
