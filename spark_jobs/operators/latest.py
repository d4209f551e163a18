"""A maintained view of the window aggregates an operator subscribes to."""

from __future__ import annotations

import weakref
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from spark_jobs.operators.base import EpochContext, Operator, unknown_params
from spark_jobs.operators.window import ROWS, as_rows, newer
from spark_jobs.state.chunks import TableState
from spark_jobs.state.tables import StateTables


class Latest(Operator):
    """Keeps, for each subscribed window aggregate, the table key -> count of its newest closed window, and
    emits what changed: every key whose count differs from the window before (absent counts as 0), a key that
    left with count 0. A consumer that applies the rows in order always holds the newest window.

    A window without any tuple sends no rows, so "before" means the newest earlier window that had some. Rows
    of a window that is not newer than the newest are left out and counted.
    """

    kind = "latest"
    takes = ()
    state_by_input = True

    @classmethod
    def problems(cls, params: Mapping[str, Any]) -> list[str]:
        return unknown_params(params, cls.takes)

    @classmethod
    def carries(cls, params: Mapping[str, Any], column: str) -> str:
        return "key" if column == "key" else ""

    @classmethod
    def state_columns(cls, params: Mapping[str, Any]) -> Sequence[str]:
        return ("key",)

    def state_input(self, table: str) -> str:
        return table

    def process(
        self, context: EpochContext, inputs: Mapping[str, Sequence[pa.Table]], state: StateTables
    ) -> pa.Table | None:
        changes: list[pa.Table] = []
        for name in self.inputs:
            given = [table for table in inputs.get(name, ()) if table.num_rows]
            if not given:
                continue
            rows = newer(name, pa.concat_tables([as_rows(table, self.kind) for table in given]), state)
            if rows.num_rows:
                whole = len(given) == 1 and rows.num_rows == given[0].num_rows
                changed, current = _step(state.table(name), rows, given[0] if whole else None)
                state.table(name).replace(current)
                changes += changed
        return pa.concat_tables(changes) if changes else None


class _Step(NamedTuple):
    """What the windows of an epoch change in a view, and the view after them."""

    changes: list[pa.Table]
    current: pa.Table


_steps: dict[tuple[int, str], tuple[weakref.ref[pa.Table], _Step]] = {}
"""Of rows that are still in memory, by their identity and the checksum of the view before them."""


def _step(view: TableState, rows: pa.Table, given: pa.Table | None) -> _Step:
    """Partitions of one task receive the very same table, and most have the same view before it: what it
    changes is then worked out once. given: the table that `rows` are all rows of, if there is one."""
    entry = view.chunks[0].entry if len(view.chunks) == 1 else None
    if given is None or entry is None or not entry.checksum:
        return _worked_out(view.read(), rows)
    key = id(given), entry.checksum
    if key not in _steps:
        step = _worked_out(view.read(), rows)
        _steps[key] = weakref.ref(given, lambda _: _steps.pop(key, None)), step
    return _steps[key][1]


def _worked_out(current: pa.Table | None, rows: pa.Table) -> _Step:
    """One input's closed windows, in order of window_end."""
    changes: list[pa.Table] = []
    ends = sorted(pc.unique(rows.column("window_end")).to_pylist())
    for end in ends:
        window = rows if len(ends) == 1 else rows.filter(pc.equal(rows.column("window_end"), end))
        window = window.combine_chunks()
        changes.append(_difference(current, window))
        current = window.select(["key", "count"])
    return _Step([change for change in changes if change.num_rows], current)


def _difference(before: pa.Table | None, window: pa.Table) -> pa.Table:
    """Rows of `window` whose count is new, then the keys of `before` that `window` no longer has, with 0."""
    if before is None:
        return window.cast(ROWS)
    keys, old_keys = window.column("key").combine_chunks(), before.column("key").combine_chunks()
    position = pc.index_in(keys, value_set=old_keys)
    old_count = pc.take(before.column("count"), position)
    changed = window.filter(pc.fill_null(pc.not_equal(window.column("count"), old_count), True))
    # A key that was found is still there: a look-up the other way round would cost as much again.
    is_gone = np.ones(len(old_keys), dtype=bool)
    is_gone[position.drop_null().to_numpy()] = False
    left = old_keys.filter(pa.array(is_gone))
    start, end = window.column("window_start")[0], window.column("window_end")[0]
    size = len(left)
    gone = pa.Table.from_arrays(
        [pa.repeat(start, size), pa.repeat(end, size), left, pa.repeat(pa.scalar(0, pa.int64()), size)],
        schema=ROWS,
    )
    return pa.concat_tables([changed.cast(ROWS), gone])
