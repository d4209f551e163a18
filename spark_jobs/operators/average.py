"""Means by key in sliding windows."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from spark_jobs.operators.problems import OperatorError, column_of
from spark_jobs.operators.window import COMBINED, SlidingWindow
from spark_jobs.state.chunks import Chunk

SUMMED: Final = [*COMBINED, "high", "low"]
EARLIER: Final = [*COMBINED, "total"]
LOW: Final = 2**32 - 1

Numbers = np.ndarray[Any, np.dtype[np.int64]]


class WindowAverage(SlidingWindow):
    """Params: `value`, a column of whole numbers; `size_s`, `slide_s` (default: `size_s`). The windows are
    those of `sliding_window`; of each key that occurs in one it emits window_start, window_end, key, average,
    count. Rows without a value do not count. Sums are exact, however large, so the average is the fraction
    nearest to the mean, however the rows are spread over partitions and epochs."""

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
        """(ts, key, value) to (pane, key, count, high, low)."""
        if table.column_names in (SUMMED, EARLIER):
            return self._by_own_panes(_in_halves(table))
        values = column_of(table, self.params["value"], self.kind)
        if pa.types.is_null(values.type):
            values = values.cast(pa.int64())
        if not pa.types.is_integer(values.type):
            raise OperatorError(
                f"window_average needs whole numbers, but column {self.params['value']!r} is {values.type}",
                "Give a column of whole numbers, such as thousandths.",
            )
        high, low = _halves(values)
        keyed = self._keyed(table, high=high, low=low)
        groups = keyed.filter(pc.is_valid(keyed.column("high"))).group_by(["pane", "key"], use_threads=False)
        sums = groups.aggregate([([], "count_all"), ("high", "sum"), ("low", "sum")])
        return sums.rename_columns(SUMMED)

    def panes_of(self, chunk: Chunk) -> pa.Table:
        return _in_halves(chunk.table)

    def emitted(self, low: int, end: int, summed: pa.Table) -> pa.Table:
        counts = super().emitted(low, end, summed)
        high, rest, count = (summed.column(name).to_numpy() for name in ("high", "low", "count"))
        return counts.add_column(3, "average", pa.array(_means(high, rest, count)))


def _halves(values: pa.ChunkedArray) -> tuple[pa.ChunkedArray, pa.ChunkedArray]:
    """Two numbers for each, of which neither sum leaves 64 bits: high * 2 ** 32 + low."""
    kind = values.type if pa.types.is_uint64(values.type) else pa.int64()
    values = values.cast(kind)
    high = pc.shift_right(values, pa.scalar(32, kind))
    low = pc.bit_wise_and(values, pa.scalar(LOW, kind))
    return high.cast(pa.int64()), low.cast(pa.int64())


def _in_halves(table: pa.Table) -> pa.Table:
    """Sums as they are now, also of a version that kept each in one column."""
    if table.column_names != EARLIER:
        return table
    high, low = _halves(table.column("total"))
    return table.set_column(3, "high", high).append_column("low", low)


def _means(high: Numbers, low: Numbers, count: Numbers) -> np.ndarray[Any, Any]:
    """The fraction nearest to each sum divided by its count."""
    high, low = high + (low >> 32), low & LOW
    means = (high * 2.0**32 + low) / count
    for at in np.flatnonzero((high < -(2**21)) | (high >= 2**21)):  # fractions do not hold these sums
        means[at] = ((int(high[at]) << 32) + int(low[at])) / int(count[at])
    return means
