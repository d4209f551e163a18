"""Sliding and tumbling window counts by panes.

A window is cut into panes of gcd(size, slide), so that each tuple is counted once, also with overlapping
windows; a closed window is the sum of its panes. State is one chunk of (pane, key, count) per epoch, merged
into one chunk per pane when the pane is complete.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from spark_jobs.operators.base import Combinable, EpochContext, Operator, unknown_params
from spark_jobs.operators.problems import column_of, duration_problems, text_of, times_of
from spark_jobs.state.chunks import Chunk
from spark_jobs.state.late import leave_out
from spark_jobs.state.tables import StateTables

SECOND = 1_000_000
ORDERED_FROM = 8
"""Parts of a chunk in one epoch, from which on it is put in order."""
COMBINED = ["pane", "key", "count"]
ROWS = pa.schema(
    [
        ("window_start", pa.int64()),
        ("window_end", pa.int64()),
        ("key", pa.string()),
        ("count", pa.int64()),
    ]
)


class SlidingWindow(Operator, Combinable):
    """Counts tuples (`ts` int64 microseconds, `key` string) per key in windows of `size_s` every `slide_s`
    seconds, which end at multiples of the slide since the Unix epoch. A window's rows are emitted once, when
    the watermark reaches its end: window_start, window_end, key, count. Tuples that only lie in windows whose
    end the watermark has passed are left out and counted."""

    kind = "sliding_window"
    takes: ClassVar[Sequence[str]] = ("size_s", "slide_s")

    def __init__(self, params: Mapping[str, Any], inputs: Sequence[str]) -> None:
        super().__init__(params, inputs)
        self.size = round(params["size_s"] * SECOND)
        self.slide = round(params.get("slide_s", params["size_s"]) * SECOND)
        self.pane = math.gcd(self.size, self.slide)

    @classmethod
    def problems(cls, params: Mapping[str, Any]) -> list[str]:
        found = unknown_params(params, cls.takes)
        found += duration_problems("size_s", params.get("size_s"))
        if "slide_s" in params:
            found += duration_problems("slide_s", params["slide_s"])
        if not found and params.get("slide_s", params["size_s"]) > params["size_s"]:
            found.append("slide_s must not be larger than size_s: tuples between windows would be lost")
        if not found and params["size_s"] / (math.gcd(*_micros(params)) / SECOND) > 10_000:
            found.append("size_s and slide_s have too small a common divisor; choose rounder numbers")
        return found

    @classmethod
    def carries(cls, params: Mapping[str, Any], column: str) -> str:
        return "key" if column == "key" else ""

    @classmethod
    def state_columns(cls, params: Mapping[str, Any]) -> Sequence[str]:
        return ("key",)

    def values_merged(self, values: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
        """None has closed a window that ends behind the watermark, and all had the same."""
        merged = super().values_merged(values)
        if ends := [mine["next_end"] for mine in values if "next_end" in mine]:
            merged["next_end"] = min(ends)
        return merged

    def restore(self, context: EpochContext | None, state: StateTables, saved: StateTables) -> None:
        """Of windows that were closed meanwhile nothing is added: none closes twice, or after later ones."""
        if context is not None:
            passed = max(state.values.get("passed", context.previous_watermark), context.previous_watermark)
            state.values["passed"] = saved.values["passed"] = passed
            end = self._first_end(passed)
            if "next_end" in saved.values:
                saved.values["next_end"] = max(end, saved.values["next_end"])
            saved.table("panes").keep(lambda note: note["high"] >= end - self.size)
        super().restore(context, state, saved)

    def combine_key(self) -> tuple[Any, ...]:
        return ("count", self.pane)

    def serves(self, other: Combinable, epoch_s: float) -> bool:
        """Counts by panes serve windows whose panes consist of them. In an epoch that is no longer than the
        shorter pane they are as many rows, but where it reaches into another pane."""
        (*mine, pane), (*theirs, wider) = self.combine_key(), other.combine_key()
        fits = mine == theirs and wider % pane == 0
        return fits and (pane == wider or epoch_s * SECOND <= pane)

    def combine(self, table: pa.Table) -> pa.Table:
        """(ts, key) to (pane, key, count), pane being the start of the pane in microseconds. Rows without a
        time are in no window."""
        if table.column_names == COMBINED:
            return self._by_own_panes(table)
        groups = self._keyed(table).group_by(["pane", "key"], use_threads=False)
        return groups.aggregate([([], "count_all")]).rename_columns(COMBINED)

    def panes_of(self, chunk: Chunk) -> pa.Table:
        """The rows of a chunk of the state, as `combine` gives them."""
        return chunk.table

    def _keyed(self, table: pa.Table, **others: pa.ChunkedArray) -> pa.Table:
        """Pane and key of each row, and other columns, of the rows that have a time."""
        times, keys = times_of(table, "ts", self.kind), text_of(table, "key", self.kind)
        columns = {"ts": times, "key": keys, **others}
        keyed = pa.table(columns)
        if times.null_count:
            keyed = keyed.filter(times.is_valid())
        ts = keyed.column("ts").to_numpy()
        return keyed.set_column(0, "pane", pa.array(ts - np.mod(ts, self.pane)))

    def _by_own_panes(self, table: pa.Table) -> pa.Table:
        """What was combined by panes that are this operator's or shorter."""
        panes = table.column("pane").to_numpy()
        return table.set_column(0, "pane", pa.array(panes - np.mod(panes, self.pane)))

    def process(
        self, context: EpochContext, inputs: Mapping[str, Sequence[pa.Table]], state: StateTables
    ) -> pa.Table | None:
        panes = state.table("panes")
        arrived = [self.combine(table) for table in self.tables(inputs)]
        arrived = [table for table in arrived if table.num_rows]
        passed = state.values.get("passed")
        # The first window that is still open: none closes twice.
        open_end = None if passed is None else self._first_end(passed)
        if arrived:
            merged = arrived[0] if len(arrived) == 1 else _sum(pa.concat_tables(arrived), ["pane", "key"])
            if open_end is not None:
                merged = _from(open_end - self.size, merged, state)
            if merged.num_rows:
                low, high = pc.min_max(merged.column("pane")).as_py().values()
                panes.append(merged, {"low": low, "high": high})
                first = self._first_end(low) if open_end is None else max(open_end, self._first_end(low))
                state.values["next_end"] = min(first, state.values.get("next_end", first))
                state.values["last_pane"] = max(high, state.values.get("last_pane", high))
        rows = self._close_windows(context, state)
        self._compact(context.watermark, state)
        state.values["passed"] = context.watermark if passed is None else max(passed, context.watermark)
        return rows

    def _first_end(self, pane: int) -> int:
        """End of the earliest window that covers the pane."""
        return pane - pane % self.slide + self.slide

    def _close_windows(self, context: EpochContext, state: StateTables) -> pa.Table | None:
        end = state.values.get("next_end")
        if end is None:
            return None
        # At the end of a bounded input every window that still holds a tuple closes.
        last = state.values["last_pane"] + self.size if context.final else context.watermark
        closed: list[pa.Table] = []
        cuts = _Cuts(self.panes_of)
        while end <= last:
            window = self._window(end, state, cuts)
            if window is not None:
                closed.append(window)
                end += self.slide
                continue
            ahead = self._next_pane(end, state, cuts)
            if ahead is None:
                # Nothing left to close: the next tuple decides where to go on.
                end = max(end, last - last % self.slide + self.slide)
                break
            # A gap without tuples, however long, is stepped over at once.
            end = self._first_end(ahead)
        state.values["next_end"] = end
        low = end - self.size
        state.table("panes").keep(lambda note: note["high"] >= low)
        return pa.concat_tables(closed) if closed else None

    def _next_pane(self, low: int, state: StateTables, cuts: _Cuts) -> int | None:
        """The first pane from `low` on; None if there is none."""
        found: list[int] = []
        for chunk in state.table("panes"):
            if chunk.note["low"] >= low:
                found.append(chunk.note["low"])
            elif chunk.note["high"] >= low:
                later = cuts.rows(chunk, low, chunk.note["high"]).column("pane")
                found += [pc.min(later).as_py()] if len(later) else []
        return min(found, default=None)

    def _window(self, end: int, state: StateTables, cuts: _Cuts) -> pa.Table | None:
        low, high = end - self.size, end - self.pane
        parts: list[pa.Table] = []
        for chunk in state.table("panes"):
            if chunk.note["high"] < low or chunk.note["low"] > high:
                continue
            inside = chunk.note["low"] >= low and chunk.note["high"] <= high
            parts.append(self.panes_of(chunk) if inside else cuts.rows(chunk, low, high))
        parts = [part for part in parts if part.num_rows]
        if not parts:
            return None
        return self.emitted(low, end, _sum(pa.concat_tables(parts).drop_columns("pane"), ["key"]))

    def emitted(self, low: int, end: int, summed: pa.Table) -> pa.Table:
        """The rows of a window, from the sums of its panes by key."""
        size = summed.num_rows
        return pa.Table.from_arrays(
            [
                pa.repeat(pa.scalar(low, pa.int64()), size),
                pa.repeat(pa.scalar(end, pa.int64()), size),
                summed.column("key"),
                summed.column("count"),
            ],
            schema=ROWS,
        )

    def _compact(self, watermark: int, state: StateTables) -> None:
        """Merge the chunks of each complete pane into one, so that a long window stays a short list."""
        complete = watermark - watermark % self.pane
        panes = state.table("panes")
        ready = [chunk for chunk in panes if chunk.entry is not None and chunk.note["high"] < complete]
        ready = [chunk for chunk in ready if not chunk.note.get("merged")]
        if not ready or state.values.get("compacted", complete - 1) >= complete:
            return
        state.values["compacted"] = complete
        table = pa.concat_tables([self.panes_of(chunk) for chunk in ready])
        merged = _sum(table, ["pane", "key"])
        low, high = min(chunk.note["low"] for chunk in ready), max(chunk.note["high"] for chunk in ready)
        dropped = {id(chunk) for chunk in ready}
        rest = [chunk for chunk in panes if id(chunk) not in dropped]
        panes.chunks = [chunk for chunk in rest if chunk.note.get("merged")]
        panes.append(merged, {"low": low, "high": high, "merged": 1})
        panes.chunks += [chunk for chunk in rest if not chunk.note.get("merged")]


class _Cuts:
    """Parts of chunks, while the windows of an epoch close. A chunk of which many are asked for, as where an
    epoch has the tuples of months, is put in order once."""

    def __init__(self, panes_of: Callable[[Chunk], pa.Table]) -> None:
        self._panes_of = panes_of
        self._asked: Counter[int] = Counter()
        self._ordered: dict[int, pa.Table] = {}

    def rows(self, chunk: Chunk, low: int, high: int) -> pa.Table:
        """Those of the panes from `low` to `high`."""
        key = id(chunk)
        self._asked[key] += 1
        if self._asked[key] < ORDERED_FROM:
            table = self._panes_of(chunk)
            pane = table.column("pane")
            return table.filter(pc.and_(pc.greater_equal(pane, low), pc.less_equal(pane, high)))
        if key not in self._ordered:
            self._ordered[key] = self._panes_of(chunk).sort_by("pane").combine_chunks()
        table = self._ordered[key]
        begin, end = np.searchsorted(table.column("pane").to_numpy(), [low, high + 1])
        return table.slice(begin, end - begin)


class TumblingWindow(SlidingWindow):
    """A sliding window that slides by its size (`size_s`)."""

    kind = "tumbling_window"
    takes = ("size_s",)

    @classmethod
    def problems(cls, params: Mapping[str, Any]) -> list[str]:
        return unknown_params(params, cls.takes) or super().problems(params)


def as_rows(table: pa.Table, kind: str) -> pa.Table:
    """The columns of `ROWS`, in their order."""
    return pa.table({name: column_of(table, name, kind) for name in ROWS.names})


def newer(name: str, rows: pa.Table, state: StateTables) -> pa.Table:
    """Of an input's closed windows those that are newer than every window it sent in an earlier epoch; rows
    of the others are counted as left out."""
    newest = state.values.get(f"newest {name}")
    ends = rows.column("window_end")
    if newest is None or (not ends.null_count and pc.min(ends).as_py() > newest):
        kept = rows
    else:
        kept = rows.filter(pc.greater(ends, newest))
    leave_out(state, rows.num_rows - kept.num_rows)
    if kept.num_rows:
        state.values[f"newest {name}"] = pc.max(kept.column("window_end")).as_py()
    return kept


def _micros(params: Mapping[str, Any]) -> tuple[int, int]:
    return round(params["size_s"] * SECOND), round(params.get("slide_s", params["size_s"]) * SECOND)


def _from(pane: int, table: pa.Table, state: StateTables) -> pa.Table:
    """The rows from this pane on; the tuples of the others are counted as left out."""
    late = pc.less(table.column("pane"), pane)
    if not pc.any(late).as_py():
        return table
    leave_out(state, pc.sum(table.filter(late).column("count")).as_py())
    return table.filter(pc.invert(late))


def _sum(table: pa.Table, keys: list[str]) -> pa.Table:
    """The sums of all other columns."""
    summed = [(name, "sum") for name in table.column_names if name not in keys]
    groups = table.group_by(keys, use_threads=False).aggregate(summed)
    return groups.rename_columns([*keys, *(name for name, _ in summed)])
