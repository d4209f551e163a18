"""Rows behind the watermark, at random: no operator emits a window in two epochs, and what it leaves out is
counted. The state is committed and opened again after each epoch, as between tasks."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from spark_jobs.operators.base import EpochContext, Operator
from spark_jobs.operators.join import WindowedJoin
from spark_jobs.operators.latest import Latest
from spark_jobs.operators.sets import Distinct
from spark_jobs.operators.top_k import TopK
from spark_jobs.operators.window import ROWS, SECOND, SlidingWindow, TumblingWindow
from spark_jobs.state.late import left_out
from spark_jobs.state.store import EMPTY, StateStore

Rows = list[tuple[int, str]]
rows = st.lists(st.tuples(st.integers(-20, 60), st.sampled_from("abc")), max_size=12)
epochs = st.lists(st.tuples(rows, rows, st.integers(0, 15)), min_size=2, max_size=8)
FIRST_WATERMARK = -25
"""Seconds; every epoch moves it on by some, whatever the rows are."""


def keyed(given_rows: Rows) -> pa.Table:
    ts = pa.array([second * SECOND for second, _ in given_rows], pa.int64())
    return pa.table({"ts": ts, "key": pa.array([key for _, key in given_rows], pa.string())})


def windows(given_rows: Rows) -> pa.Table:
    """As a window operator would send them, with the second as the end of a window of ten seconds."""
    found = Counter(given_rows)
    return pa.Table.from_pylist(
        [
            {
                "window_start": (end - 10) * SECOND,
                "window_end": end * SECOND,
                "key": key,
                "count": count,
            }
            for (end, key), count in found.items()
        ],
        schema=ROWS,
    )


class Run:
    """An operator over epochs: `emitted` has the rows of each, `passed` the watermark before each."""

    def __init__(self, directory: Any, operator: Operator) -> None:
        self.store, self.operator = StateStore(directory), operator
        self.emitted: list[list[dict[str, Any]]] = []
        self.left_out = 0

    def go(self, steps: Sequence[tuple[Mapping[str, pa.Table], int]]) -> None:
        manifest, before = EMPTY, FIRST_WATERMARK * SECOND
        for epoch, (inputs, watermark) in enumerate(steps, start=1):
            state = self.store.open(manifest)
            context = EpochContext(epoch, watermark, before, final=epoch == len(steps))
            tables = {name: [table] if table.num_rows else [] for name, table in inputs.items()}
            output = self.operator.process(context, tables, state)
            manifest = self.store.commit(state, epoch=epoch, generation=1)
            self.emitted.append([] if output is None else output.to_pylist())
            self.left_out = left_out(self.store.open(manifest))
            before = watermark

    def windows_of_epochs(self) -> list[set[tuple[int, int]]]:
        return [{(row["window_start"], row["window_end"]) for row in rows} for rows in self.emitted]

    def require_no_window_twice(self) -> None:
        found = Counter(window for epoch in self.windows_of_epochs() for window in epoch)
        assert set(found.values()) <= {1}, f"emitted in several epochs: {found}"


def steps_of(data: list[tuple[Rows, Rows, int]], make: Any) -> list[tuple[dict[str, pa.Table], int]]:
    watermark, steps = FIRST_WATERMARK, []
    for left, right, further in data:
        watermark += further
        steps.append(({"A": make(left), "B": make(right)}, watermark * SECOND))
    return steps


def watermarks(data: list[tuple[Rows, Rows, int]]) -> list[int | None]:
    """The watermark in seconds that was passed before each epoch, None before the first."""
    passed: list[int | None] = [None]
    for _, _, further in data[:-1]:
        passed.append((FIRST_WATERMARK if passed[-1] is None else passed[-1]) + further)
    return passed


@settings(max_examples=40, deadline=None)
@given(epochs, st.sampled_from([(10, 10), (10, 5), (20, 10), (7, 3)]))
def test_windows_count_what_came_while_they_were_open(
    tmp_path_factory: pytest.TempPathFactory, data: list[tuple[Rows, Rows, int]], window: tuple[int, int]
) -> None:
    size, slide = window
    tumbling = size == slide
    params = {"size_s": size} if tumbling else {"size_s": size, "slide_s": slide}
    run = Run(
        tmp_path_factory.mktemp("s"), (TumblingWindow if tumbling else SlidingWindow)(params, ["A", "B"])
    )
    run.go(steps_of(data, keyed))
    run.require_no_window_twice()
    expected: Counter[tuple[int, int, str]] = Counter()
    late = 0
    for (left, right, _), passed in zip(data, watermarks(data), strict=True):
        for ts, key in left + right:
            first = ts - ts % slide + slide
            ends = [end for end in range(first, first + size, slide) if end - size <= ts]
            still_open = [end for end in ends if passed is None or end > passed]
            late += not still_open
            expected.update((end - size, end, key) for end in still_open)
    found = {
        (row["window_start"] // SECOND, row["window_end"] // SECOND, row["key"]): row["count"]
        for emitted in run.emitted
        for row in emitted
    }
    assert found == dict(expected)
    assert run.left_out == late


@settings(max_examples=25, deadline=None)
@given(epochs)
def test_joins_pair_what_came_while_the_window_was_open(
    tmp_path_factory: pytest.TempPathFactory, data: list[tuple[Rows, Rows, int]]
) -> None:
    run = Run(tmp_path_factory.mktemp("s"), WindowedJoin({"size_s": 10}, ["A", "B"]))
    run.go(steps_of(data, keyed))
    run.require_no_window_twice()
    sides: list[Rows] = [[], []]
    late = 0
    for (*arrived, _), passed in zip(data, watermarks(data), strict=True):
        for side, came in zip(sides, arrived, strict=True):
            timely = [row for row in came if passed is None or row[0] - row[0] % 10 + 10 > passed]
            late += len(came) - len(timely)
            side += timely
    pairs = Counter(
        (key, left, right)
        for left, key in sides[0]
        for right, other in sides[1]
        if key == other and left // 10 == right // 10
    )
    found = Counter(
        (row["key"], row["left_ts"] // SECOND, row["right_ts"] // SECOND)
        for emitted in run.emitted
        for row in emitted
    )
    assert (found, run.left_out) == (pairs, late)


@settings(max_examples=25, deadline=None)
@given(epochs)
def test_distinct_passes_no_value_of_a_window_twice(
    tmp_path_factory: pytest.TempPathFactory, data: list[tuple[Rows, Rows, int]]
) -> None:
    run = Run(tmp_path_factory.mktemp("s"), Distinct({"size_s": 10}, ["A", "B"]))
    run.go(steps_of(data, keyed))
    passed = [(row["ts"] // SECOND // 10, row["key"]) for emitted in run.emitted for row in emitted]
    assert len(passed) == len(set(passed))


@settings(max_examples=25, deadline=None)
@given(epochs, st.sampled_from([Latest({}, ["A", "B"]), TopK({"k": 2}, ["A", "B"])]))
def test_views_and_rankings_take_each_window_once(
    tmp_path_factory: pytest.TempPathFactory, data: list[tuple[Rows, Rows, int]], operator: Operator
) -> None:
    """Inputs are kept apart, so each alone."""
    for side, name in enumerate("AB"):
        run = Run(tmp_path_factory.mktemp("s"), operator)
        run.go([({name: inputs[name]}, mark) for inputs, mark in steps_of(data, windows)])
        run.require_no_window_twice()
        newest, late = -1_000, 0
        for left, right, _ in data:
            found = Counter((left, right)[side])
            late += sum(end <= newest for end, _ in found)
            newest = max([newest, *(end for end, _ in found)])
        assert run.left_out == late
        ends = [row["window_end"] for emitted in run.emitted for row in emitted]
        assert ends == sorted(ends)


def test_a_late_row_does_not_open_a_closed_window_again(tmp_path: Any) -> None:
    """Found by an audit: [0, 10) was emitted as 3 and later as 1."""
    run = Run(tmp_path, TumblingWindow({"size_s": 10}, ["A"]))
    at = [[(1, "a"), (2, "a"), (3, "a")], [], [(4, "a"), (12, "a")], []]
    run.go([({"A": keyed(part)}, mark * SECOND) for part, mark in zip(at, (9, 11, 12, 30), strict=True)])
    assert [[row["count"] for row in emitted] for emitted in run.emitted] == [[], [3], [], [1]]
    assert run.left_out == 1


def test_a_value_is_not_passed_again_after_its_window(tmp_path: Any) -> None:
    run = Run(tmp_path, Distinct({"size_s": 10}, ["A"]))
    at = [[(1, "a")], [], [(2, "a"), (41, "b")], []]
    run.go([({"A": keyed(part)}, mark * SECOND) for part, mark in zip(at, (9, 40, 41, 60), strict=True)])
    assert [[row["key"] for row in emitted] for emitted in run.emitted] == [["a"], [], ["b"], []]
    assert run.left_out == 1
