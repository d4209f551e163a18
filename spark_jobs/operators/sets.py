"""Streams as sets: everything from several inputs, and each row only once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from spark_jobs.operators.base import EpochContext, Operator, unknown_params
from spark_jobs.operators.columns import concatenated
from spark_jobs.operators.problems import column_of, duration_problems, times_of
from spark_jobs.operators.window import SECOND
from spark_jobs.state.chunks import one_dictionary_each, rows_of
from spark_jobs.state.late import leave_out
from spark_jobs.state.tables import StateTables

_ROW: Final = "__row"
_WINDOW: Final = "__window"
_MERGE_FROM: Final = 64
"""Chunks of remembered values before those of a window are merged into one."""


class Union(Operator):
    """All rows of all inputs, in the order of the inputs; they must have the same columns. These are in the
    order of the first rows of the epoch: operators and sinks behind it go by names."""

    kind = "union"
    takes = ()
    keeps_state = False

    @classmethod
    def problems(cls, params: Mapping[str, Any]) -> list[str]:
        return unknown_params(params, cls.takes)

    @classmethod
    def carries(cls, params: Mapping[str, Any], column: str) -> str:
        return column

    def process(
        self, context: EpochContext, inputs: Mapping[str, Sequence[pa.Table]], state: StateTables
    ) -> pa.Table | None:
        return concatenated(self.tables(inputs), self.kind)


class Distinct(Operator):
    """Params: `columns` (default: `key`), `size_s` (optional). Passes the first row with each combination of
    values; with `size_s`, the first in each tumbling window of that many seconds (aligned to the Unix epoch),
    after which the values are forgotten; rows without a time are in no window, and those of a window that is
    closed already are left out and counted.
    Without it they are remembered for ever, in a table by key, which may be larger than memory."""

    kind = "distinct"
    takes = ("columns", "size_s")

    def __init__(self, params: Mapping[str, Any], inputs: Sequence[str]) -> None:
        super().__init__(params, inputs)
        self.columns: list[str] = list(params.get("columns", ["key"]))
        self.size = round(params["size_s"] * SECOND) if params.get("size_s") else 0

    @classmethod
    def problems(cls, params: Mapping[str, Any]) -> list[str]:
        found = unknown_params(params, cls.takes)
        columns = params.get("columns", ["key"])
        if not isinstance(columns, list) or not columns or not all(isinstance(name, str) for name in columns):
            found.append(f"columns must be a list of column names, not {columns!r}")
        if params.get("size_s") is not None:
            found += duration_problems("size_s", params["size_s"])
        return found

    @classmethod
    def carries(cls, params: Mapping[str, Any], column: str) -> str:
        return column

    @classmethod
    def state_columns(cls, params: Mapping[str, Any]) -> Sequence[str]:
        return list(params.get("columns", ["key"]))

    def process(
        self, context: EpochContext, inputs: Mapping[str, Sequence[pa.Table]], state: StateTables
    ) -> pa.Table | None:
        rows = concatenated(self.tables(inputs), self.kind)
        rows = one_dictionary_each(rows) if rows is not None else None
        if not self.size:
            return self._first_ever(rows, state) if rows is not None and rows.num_rows else None
        if rows is not None:
            rows = self._open(rows, state)
        first = self._first_in_window(rows, state) if rows is not None and rows.num_rows else None
        closed = context.watermark - context.watermark % self.size
        state.values["closed"] = max(closed, state.values.get("closed", closed))
        state.table("seen").keep(lambda note: note["high"] >= closed)
        return first

    def _first_in_window(self, rows: pa.Table, state: StateTables) -> pa.Table:
        values = self._values(rows)
        known = state.table("seen").read()
        numbered = values.append_column(_ROW, pa.array(range(rows.num_rows), pa.int64()))
        if known is not None:
            before = known.append_column(_ROW, pa.repeat(pa.scalar(-1, pa.int64()), known.num_rows))
            together = pa.concat_tables([before, numbered], promote_options="permissive")
            numbered = one_dictionary_each(together)
        groups = numbered.group_by(values.column_names, use_threads=False).aggregate([(_ROW, "min")])
        fresh = pc.greater_equal(groups.column(f"{_ROW}_min"), 0)
        positions = groups.column(f"{_ROW}_min").filter(fresh).combine_chunks()
        positions = positions.take(pc.sort_indices(positions))
        self._remember(values.take(positions), state)
        return rows.take(positions)

    def _first_ever(self, rows: pa.Table, state: StateTables) -> pa.Table:
        """The first row of each combination of values that no row before had."""
        values = pa.table({name: column_of(rows, name, self.kind) for name in self.columns})
        numbered = values.append_column(_ROW, pa.array(np.arange(rows.num_rows)))
        groups = numbered.group_by(values.column_names, use_threads=False).aggregate([(_ROW, "min")])
        positions = np.sort(groups.column(f"{_ROW}_min").to_numpy())
        seen = state.keyed("seen", self.columns)
        fresh = positions[seen.find(values.take(pa.array(positions))).missing]
        seen.put(values.take(pa.array(fresh)))
        return rows.take(pa.array(fresh))

    def _open(self, rows: pa.Table, state: StateTables) -> pa.Table:
        """The rows that are in a window which is not closed: of the others the values are forgotten."""
        rows = rows.filter(times_of(rows, "ts", self.kind).is_valid())
        closed = state.values.get("closed")
        if closed is None:
            return rows
        timely = rows.filter(pc.greater_equal(times_of(rows, "ts", self.kind), closed))
        leave_out(state, rows.num_rows - timely.num_rows)
        return timely

    def _values(self, rows: pa.Table) -> pa.Table:
        values = pa.table({name: column_of(rows, name, self.kind) for name in self.columns})
        ts = times_of(rows, "ts", self.kind).to_numpy()
        return values.append_column(_WINDOW, pa.array(ts - ts % self.size))

    def _remember(self, values: pa.Table, state: StateTables) -> None:
        seen = state.table("seen")
        seen.append(values, self._note(values))
        if len(seen.chunks) < _MERGE_FROM:
            return
        everything = rows_of(seen.chunks)
        seen.replace(None)
        for window in sorted(pc.unique(everything.column(_WINDOW)).to_pylist()):
            part = everything.filter(pc.equal(everything.column(_WINDOW), window))
            seen.append(part, self._note(part))

    def _note(self, values: pa.Table) -> dict[str, int]:
        """The last window of a chunk, which tells when it can be dropped."""
        return {"high": pc.max(values.column(_WINDOW)).as_py()} if values.num_rows else {}
