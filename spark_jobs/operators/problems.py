"""Errors of operators whose input does not fit their parameters."""

from __future__ import annotations

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
