"""The join of two streams, in tumbling windows or by the windows that they are of."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from domain.topology.continuation import EVERY_COLUMN
from spark_jobs.operators.base import EpochContext, Operator, unknown_params
from spark_jobs.operators.columns import concatenated
from spark_jobs.operators.problems import (
    OperatorError,
    column_of,
    column_problems,
    duration_problems,
    times_of,
)
from spark_jobs.operators.sql import query_table
from spark_jobs.operators.window import SECOND
from spark_jobs.state.chunks import rows_of
from spark_jobs.state.late import leave_out
from spark_jobs.state.tables import StateTables

WINDOW: Final = ("window_start", "window_end")
_WINDOW: Final = "__window"
_ROW: Final = "__row"


class WindowedJoin(Operator):
    """Params: `size_s`; `column`, the one that must be equal (default `key`); `time`, the event-time column
    in microseconds (default `ts`; `window_end` for rows of a window operator). Takes two inputs, left and
    right in the order of the specification, and is correlated: without one of them it has nothing to say.

    When the watermark reaches a window's end, it emits each pair of a left and a right row of that window
    with the same value: window_start, window_end, that column, then the other columns of both sides as
    `left_<name>` and `right_<name>`, ordered by window, value, and the order of arrival of both sides. Rows
    with a null value match nothing, those without a time are in no window; rows of a window that is closed
    already are left out and counted.

    Without `size_s` and `time` the inputs are rows of windows (of any size and slide, the same on both
    sides), and those of the same window are joined. They close in the same epoch, so nothing is kept.
    """

    kind = "windowed_join"
    takes = ("size_s", "column", "time")
    state_by_input = True
    inputs_taken = 2
    joins = True

    def __init__(self, params: Mapping[str, Any], inputs: Sequence[str]) -> None:
        super().__init__(params, inputs)
        if len(inputs) != 2:
            raise OperatorError(
                f"windowed_join takes two inputs, not {len(inputs)}", "Subscribe it to exactly two operators."
            )
        self.size = round(params.get("size_s", 0) * SECOND)
        self.column: str = params.get("column", "key")
        self.time: str = params.get("time", "ts")

    @classmethod
    def problems(cls, params: Mapping[str, Any]) -> list[str]:
        found = unknown_params(params, cls.takes)
        if "size_s" not in params:
            if "time" in params:
                found.append("time needs size_s; without both, rows of the same windows are joined")
        else:
            found += duration_problems("size_s", params["size_s"])
        for name in ("column", "time"):
            found += column_problems(name, params.get(name, "column"))
        return found

    @classmethod
    def carries(cls, params: Mapping[str, Any], column: str) -> str:
        return column if column == params.get("column", "key") else ""

    @classmethod
    def state_columns(cls, params: Mapping[str, Any]) -> Sequence[str]:
        return (EVERY_COLUMN,)

    def state_input(self, table: str) -> str:
        return self.inputs[("left", "right").index(table)]

    def restore(self, context: EpochContext | None, state: StateTables, saved: StateTables) -> None:
        """Of windows that were closed meanwhile nothing is added: none closes twice."""
        if context is not None and self.size:
            passed = context.previous_watermark - context.previous_watermark % self.size
            closed = saved.values["closed"] = max(state.values.get("closed", passed), passed)
            for side in ("left", "right"):
                self._take_due(side, closed, saved)
        super().restore(context, state, saved)

    def process(
        self, context: EpochContext, inputs: Mapping[str, Sequence[pa.Table]], state: StateTables
    ) -> pa.Table | None:
        if not self.size:
            return self._same_windows(inputs)
        closed = state.values.get("closed")
        for side, name in zip(("left", "right"), self.inputs, strict=True):
            rows = concatenated([table for table in inputs.get(name, ()) if table.num_rows], self.kind)
            if rows is not None:
                self._buffer(side, rows, closed, state)
        until = context.watermark - context.watermark % self.size
        if context.final:
            until = 2**62
        if closed is not None and until <= closed:
            return None
        state.values["closed"] = until
        left, right = self._take_due("left", until, state), self._take_due("right", until, state)
        if left is None or right is None:
            return None
        joined = self._pairs(left, right, (_WINDOW,))
        ends = pc.add(joined.column(_WINDOW), pa.scalar(self.size))
        return joined.rename_columns(["window_start", *joined.column_names[1:]]).add_column(
            1, "window_end", ends
        )

    def _same_windows(self, inputs: Mapping[str, Sequence[pa.Table]]) -> pa.Table | None:
        sides = []
        for name in self.inputs:
            rows = concatenated([table for table in inputs.get(name, ()) if table.num_rows], self.kind)
            if rows is None:
                return None
            for column in (*WINDOW, self.column):
                column_of(rows, column, self.kind)
            sides.append(rows.append_column(_ROW, pa.array(np.arange(rows.num_rows))))
        return self._pairs(sides[0], sides[1], WINDOW)

    def _buffer(self, side: str, rows: pa.Table, closed: int | None, state: StateTables) -> None:
        column_of(rows, self.column, self.kind)
        times = times_of(rows, self.time, self.kind)
        rows, moments = rows.filter(times.is_valid()), times.drop_null().to_numpy()
        windows = moments - moments % self.size
        number = state.values.get(f"{side}_rows", 0)
        state.values[f"{side}_rows"] = number + len(windows)
        rows = rows.append_column(_WINDOW, pa.array(windows))
        rows = rows.append_column(_ROW, pa.array(np.arange(number, number + len(windows))))
        if closed is not None:
            rows = rows.filter(pc.greater_equal(rows.column(_WINDOW), closed))
            leave_out(state, len(windows) - rows.num_rows)
        if rows.num_rows:
            state.table(side).append(rows, {"low": pc.min(rows.column(_WINDOW)).as_py()})

    def _take_due(self, side: str, until: int, state: StateTables) -> pa.Table | None:
        """Takes the rows of windows that end by `until` out of the buffer; other chunks stay as they are."""
        table = state.table(side)
        ready = [chunk for chunk in table if chunk.note["low"] < until]
        if not ready:
            return None
        table.keep(lambda note: note["low"] >= until)
        rows = rows_of(ready)
        due = pc.less(rows.column(_WINDOW), until)
        rest = rows.filter(pc.invert(due))
        if rest.num_rows:
            table.append(rest, {"low": pc.min(rest.column(_WINDOW)).as_py()})
        return rows.filter(due)

    def _pairs(self, left: pa.Table, right: pa.Table, window: Sequence[str]) -> pa.Table:
        """The pairs of rows with equal `window` and join column: these columns, then the others."""
        equal = (*window, self.column)
        columns, names = [f"l.{_named(left, name)}" for name in equal], list(equal)
        for side, table in (("left", left), ("right", right)):
            others = [name for name in table.column_names if name not in (*equal, _ROW)]
            columns += [f"{side[0]}.{_named(table, name)}" for name in others]
            names += [f"{side}_{name}" for name in others]
        on = " AND ".join(f"l.{_named(left, name)} = r.{_named(right, name)}" for name in equal)
        order = ", ".join([*columns[: len(equal)], f"l.{_named(left, _ROW)}", f"r.{_named(right, _ROW)}"])
        pairs = query_table(
            f"SELECT {', '.join(columns)} FROM left_rows l JOIN right_rows r ON {on} ORDER BY {order}",  # noqa: S608 - all names are quoted
            {"left_rows": _numbered(left), "right_rows": _numbered(right)},
        )
        return pairs.rename_columns(names)


def _numbered(table: pa.Table) -> pa.Table:
    """With names that DuckDB tells apart: to it, names that differ in case only are the same."""
    return table.rename_columns([f"{name} {at}" for at, name in enumerate(table.column_names)])


def _named(table: pa.Table, name: str) -> str:
    """What a column is called then, in quotes."""
    return '"' + f"{name} {table.column_names.index(name)}".replace('"', '""') + '"'
