"""Late rows of readers that do not know their watermark: cut at the source, by the epoch log alone.

A reader without `watermark` only gives event times. The driver plans each epoch with the greatest event time
that earlier epochs gave, minus the source's `lateness_s`, as the watermark (bounded disorder, as in Spark's
`withWatermark` and Flink's `forBoundedOutOfOrderness`), and writes it to the epoch log. A row behind the
watermark of the epoch before is cut when its epoch is read. What is cut therefore depends on the log and on
the rows, not on when they are read, and every replay cuts the same.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np
import pyarrow as pa

from domain.execution.job import EpochPlan, LateRow
from spark_jobs.sources.built_in import is_own
from spark_jobs.sources.event_time import EventTimes
from spark_jobs.sources.problems import SourceError

DEFAULT_LATENESS_S: Final = 10.0
MAX_LATENESS_S: Final = 604_800.0
LISTED: Final = 100
"""Late rows of one partition and job that are named one by one; all are counted."""


@dataclass(frozen=True, slots=True)
class Cut:
    """What a partition read in an epoch, without its late rows: how many these were, the first of them, and
    the greatest event time of all, in microseconds (None: there was none)."""

    rows: pa.Table
    newest: int | None
    late: int = 0
    listed: list[LateRow] = field(default_factory=list)


def lateness_us(params: Mapping[str, Any]) -> int:
    """By how much rows of a source may come out of order, in microseconds."""
    given = params.get("lateness_s")
    return round((DEFAULT_LATENESS_S if given is None else given) * 1_000_000)


def lateness_problems(params: Mapping[str, Any]) -> list[str]:
    value = params.get("lateness_s")
    number = isinstance(value, int | float) and not isinstance(value, bool)
    if value is None or (number and 0 <= value <= MAX_LATENESS_S):
        return []
    return [f"lateness_s must be a number of seconds from 0 to {MAX_LATENESS_S:.0f}, not {value!r}"]


def may_be_late(params: Mapping[str, Any]) -> bool:
    """Whether rows of a source can come behind the watermark. Those of built-in readers cannot: theirs is
    exact."""
    return is_own(params)


def late_rows_cut(table: pa.Table, plan: EpochPlan) -> Cut:
    """Without the rows that are late or have no event time; `ts` in microseconds. Raises `SourceError` for
    rows without the column `ts`."""
    if "ts" not in table.column_names:
        raise SourceError(
            where="source", what=f"the reader gave rows without `ts` (only {', '.join(table.column_names)})",
            hint="Have it give the event time of each row as `ts`: a timestamp, or microseconds since 1970.",
        )  # fmt: skip
    times = EventTimes("us").of_array(table.column("ts").combine_chunks())
    table = table.set_column(table.column_names.index("ts"), "ts", times)
    known = times.is_valid().to_numpy(zero_copy_only=False)
    values = times.fill_null(0).to_numpy()
    newest = int(values[known].max()) if known.any() else None
    kept = known & (values >= plan.previous_watermark)
    if kept.all():
        return Cut(table, newest)
    positions = np.flatnonzero(~kept)
    listed = [
        LateRow(
            epoch=plan.epoch,
            row=int(position),
            ts=int(values[position]) if known[position] else None,
            watermark=plan.previous_watermark,
        )
        for position in positions[:LISTED]
    ]
    return Cut(table.filter(pa.array(kept)), newest, len(positions), listed)
