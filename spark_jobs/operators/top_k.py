"""The most frequent keys of each window."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from domain.topology.continuation import KEYLESS
from spark_jobs.operators.base import EpochContext, Operator, unknown_params
from spark_jobs.operators.window import ROWS, as_rows, newer
from spark_jobs.state.tables import StateTables


class TopK(Operator):
    """Params: `k` (default 10); `add_up` (default false). Of the rows window_start, window_end, key, count it
    keeps the `k` largest counts of each window, ties by key; inputs are ranked separately. With `add_up`, the
    counts of a key that come from several partitions are added first: so top lists of parts become one of the
    whole, but for keys that were in no list of a part. All rows of a window come in the epoch
    that closes it; rows of a window that is not newer than those before are left out and counted. With
    several partitions before it, use parallelism 1 or a `full` stream by `window_end`, so that one partition
    sees all of a window."""

    kind = "top_k"
    takes = ("k", "add_up")
    state_takes = ()

    @classmethod
    def problems(cls, params: Mapping[str, Any]) -> list[str]:
        found = unknown_params(params, cls.takes)
        k = params.get("k", 10)
        if isinstance(k, bool) or not isinstance(k, int) or not 1 <= k <= 1_000_000:
            found.append(f"k must be a whole number from 1 to 1000000, not {k!r}")
        if not isinstance(params.get("add_up", False), bool):
            found.append(f"add_up must be true or false, not {params['add_up']!r}")
        return found

    @classmethod
    def carries(cls, params: Mapping[str, Any], column: str) -> str:
        return column if column in ROWS.names and column != "count" else ""

    @classmethod
    def state_columns(cls, params: Mapping[str, Any]) -> Sequence[str]:
        return (KEYLESS,)

    def process(
        self, context: EpochContext, inputs: Mapping[str, Sequence[pa.Table]], state: StateTables
    ) -> pa.Table | None:
        ranked = [
            self._largest(newer(name, pa.concat_tables(tables), state))
            for name in self.inputs
            if (tables := [as_rows(table, self.kind) for table in inputs.get(name, ()) if table.num_rows])
        ]
        return pa.concat_tables(ranked) if ranked else None

    def _largest(self, rows: pa.Table) -> pa.Table:
        if self.params.get("add_up"):
            groups = rows.group_by(["window_start", "window_end", "key"], use_threads=False)
            rows = groups.aggregate([("count", "sum")]).rename_columns(ROWS.names)
        order = [
            ("window_end", "ascending"),
            ("window_start", "ascending"),
            ("count", "descending"),
            ("key", "ascending"),
        ]
        rows = rows.take(pc.sort_indices(rows, sort_keys=order))
        starts, ends = rows.column("window_start").to_numpy(), rows.column("window_end").to_numpy()
        first = np.ones(len(starts), dtype=bool)
        first[1:] = (starts[1:] != starts[:-1]) | (ends[1:] != ends[:-1])
        positions = np.arange(len(starts))
        rank = positions - np.maximum.accumulate(np.where(first, positions, 0))
        return rows.filter(pa.array(rank < self.params.get("k", 10)))
