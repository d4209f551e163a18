"""The join of two streams in tumbling windows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from spark_jobs.operators.base import EpochContext, Operator, unknown_params
from spark_jobs.operators.columns import concatenated
from spark_jobs.operators.problems import OperatorError, column_of
from spark_jobs.operators.sql import query_table
from spark_jobs.operators.window import SECOND
from spark_jobs.state.late import leave_out
from spark_jobs.state.tables import StateTables

_WINDOW: Final = "__window"
_ROW: Final = "__row"


class WindowedJoin(Operator):
    """Params: `size_s`; `column`, the one that must be equal (default `key`); `time`, the event-time column
    in microseconds (default `ts`; `window_end` for rows of a window operator). Takes two inputs, left and
    right in the order of the specification, and is correlated: without one of them it has nothing to say.

    When the watermark reaches a window's end, it emits each pair of a left and a right row of that window
    with the same value: window_start, window_end, that column, then the other columns of both sides as
    `left_<name>` and `right_<name>`, ordered by window, value, and the order of arrival of both sides. Rows
    with a null value match nothing; rows of a window that is closed already are left out and counted.
    """

    kind = "windowed_join"
    takes = ("size_s", "column", "time")

    def __init__(self, params: Mapping[str, Any], inputs: Sequence[str]) -> None:
        super().__init__(params, inputs)
        if len(inputs) != 2:
            raise OperatorError(
                f"windowed_join takes two inputs, not {len(inputs)}", "Subscribe it to exactly two operators."
            )
        self.size = round(params["size_s"] * SECOND)
        self.column: str = params.get("column", "key")
        self.time: str = params.get("time", "ts")

    @classmethod
    def problems(cls, params: Mapping[str, Any]) -> list[str]:
        found = unknown_params(params, cls.takes)
        size = params.get("size_s")
        if isinstance(size, bool) or not isinstance(size, int | float) or not 0.001 <= size <= 604_800:
            found.append(
                f"size_s must be a duration between 1 ms and 7 d, such as 30, 15m or 1h, not {size!r}"
            )
        for name in ("column", "time"):
            value = params.get(name, "column")
            if not isinstance(value, str) or not value:
                found.append(f"{name} must be the name of a column, not {value!r}")
        return found

    def process(
        self, context: EpochContext, inputs: Mapping[str, Sequence[pa.Table]], state: StateTables
    ) -> pa.Table | None:
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
        left, right = self._due("left", until, state), self._due("right", until, state)
        return None if left is None or right is None else self._pairs(left, right)

    def _buffer(self, side: str, rows: pa.Table, closed: int | None, state: StateTables) -> None:
        column_of(rows, self.column, self.kind)
        times = column_of(rows, self.time, self.kind).to_numpy()
        windows = times - times % self.size
        number = state.values.get(f"{side}_rows", 0)
        state.values[f"{side}_rows"] = number + len(windows)
        rows = rows.append_column(_WINDOW, pa.array(windows))
        rows = rows.append_column(_ROW, pa.array(np.arange(number, number + len(windows))))
        if closed is not None:
            rows = rows.filter(pc.greater_equal(rows.column(_WINDOW), closed))
            leave_out(state, len(windows) - rows.num_rows)
        if rows.num_rows:
            state.table(side).append(rows, {"low": pc.min(rows.column(_WINDOW)).as_py()})

    def _due(self, side: str, until: int, state: StateTables) -> pa.Table | None:
        """Takes the rows of windows that end by `until` out of the buffer; other chunks stay as they are."""
        table = state.table(side)
        ready = [chunk for chunk in table if chunk.note["low"] < until]
        if not ready:
            return None
        table.keep(lambda note: note["low"] >= until)
        rows = pa.concat_tables([chunk.table for chunk in ready])
        due = pc.less(rows.column(_WINDOW), until)
        rest = rows.filter(pc.invert(due))
        if rest.num_rows:
            table.append(rest, {"low": pc.min(rest.column(_WINDOW)).as_py()})
        return rows.filter(due)

    def _pairs(self, left: pa.Table, right: pa.Table) -> pa.Table:
        on = _quoted(self.column)
        columns = [
            f"l.{_WINDOW} AS window_start",
            f"l.{_WINDOW} + {self.size} AS window_end",
            f"l.{on} AS {on}",
        ]
        for side, table in (("left", left), ("right", right)):
            columns += [
                f"{side[0]}.{_quoted(name)} AS {_quoted(f'{side}_{name}')}"
                for name in table.column_names
                if name not in (self.column, _WINDOW, _ROW)
            ]
        return query_table(
            f"SELECT {', '.join(columns)} FROM left_rows l JOIN right_rows r"  # noqa: S608 - all names are quoted
            f" ON l.{_WINDOW} = r.{_WINDOW} AND l.{on} = r.{on}"
            f" ORDER BY l.{_WINDOW}, l.{on}, l.{_ROW}, r.{_ROW}",
            {"left_rows": left, "right_rows": right},
        )


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'
