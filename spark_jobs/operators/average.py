"""Means by key in sliding windows."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from spark_jobs.operators.problems import OperatorError, column_of
from spark_jobs.operators.window import COMBINED, SlidingWindow


class WindowAverage(SlidingWindow):
    """Params: `value`, a column of whole numbers; `size_s`, `slide_s` (default: `size_s`). The windows are
    those of `sliding_window`; of each key that occurs in one it emits window_start, window_end, key, average,
    count. Rows without a value do not count. Sums of whole numbers do not depend on the order of rows, so the
    average is the same however the rows are spread over partitions and epochs."""

    kind = "window_average"
    takes = ("value", "size_s", "slide_s")

    @classmethod
    def problems(cls, params: Mapping[str, Any]) -> list[str]:
        found = super().problems(params)
        value = params.get("value")
        if not isinstance(value, str) or not value:
            found.append(f"value must be the name of a column of whole numbers, not {value!r}")
        return found

    def combine_key(self) -> tuple[Any, ...]:
        return ("average", self.params["value"], self.pane)

    def combine(self, table: pa.Table) -> pa.Table:
        """(ts, key, value) to (pane, key, count, total)."""
        if table.column_names == [*COMBINED, "total"]:
            return self._by_own_panes(table)
        values = column_of(table, self.params["value"], self.kind)
        if not pa.types.is_integer(values.type):
            raise OperatorError(
                f"window_average needs whole numbers, but column {self.params['value']!r} is {values.type}",
                "Give a column of whole numbers, such as thousandths.",
            )
        keyed = self._keyed(table, value=values.cast(pa.int64()))
        groups = keyed.filter(pc.is_valid(keyed.column("value"))).group_by(["pane", "key"], use_threads=False)
        return groups.aggregate([([], "count_all"), ("value", "sum")]).rename_columns([*COMBINED, "total"])

    def emitted(self, low: int, end: int, summed: pa.Table) -> pa.Table:
        counts = super().emitted(low, end, summed)
        average = pc.divide(
            summed.column("total").cast(pa.float64()), summed.column("count").cast(pa.float64())
        )
        return counts.add_column(3, "average", average)
