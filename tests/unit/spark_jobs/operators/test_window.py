"""Window counts and the maintained view against a plain-Python count, epoch by epoch through real state."""

from __future__ import annotations

from collections import Counter
from itertools import pairwise
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from spark_jobs.operators import latest
from spark_jobs.operators.base import EpochContext, Operator
from spark_jobs.operators.latest import Latest
from spark_jobs.operators.window import ROWS, SECOND, SlidingWindow, TumblingWindow
from spark_jobs.state.chunks import Chunk
from spark_jobs.state.store import EMPTY, StateStore

Row = tuple[int, int, str, int]
Tuples = list[tuple[int, str]]


def run(
    store: StateStore, operator: Operator, epochs: list[dict[str, list[pa.Table]]], marks: list[int]
) -> list[list[Row]]:
    """Apply epochs through committed state, reopening it each time as a task does."""
    manifest, before, rows = EMPTY, marks[0], []
    for epoch, (inputs, mark) in enumerate(zip(epochs, marks, strict=True), start=1):
        state = store.open(manifest)
        context = EpochContext(epoch, mark, before, final=epoch == len(epochs))
        output = operator.process(context, inputs, state)
        manifest = store.commit(state, epoch=epoch, generation=1)
        before = mark
        rows.append([tuple(row.values()) for row in output.to_pylist()] if output is not None else [])
    return rows


def expected_windows(tuples: Tuples, size: int, slide: int) -> dict[Row, int]:
    counts: Counter[tuple[int, int, str]] = Counter()
    for ts, key in tuples:
        end = ts - ts % slide + slide
        while end - size <= ts:
            counts[(end - size, end, key)] += 1
            end += slide
    return Counter({(*window, count): 1 for window, count in counts.items()})


tuples = st.lists(st.tuples(st.integers(0, 90 * SECOND), st.sampled_from("abcdef")), min_size=1, max_size=60)


@settings(max_examples=60, deadline=None)
@given(
    tuples, st.sampled_from([(10, 5), (20, 10), (30, 20), (7, 3), (5, 5)]), st.integers(1, 9), st.booleans()
)
def test_each_window_is_counted_exactly_once(
    tmp_path_factory: pytest.TempPathFactory,
    data: Tuples,
    window: tuple[int, int],
    parts: int,
    combined: bool,
) -> None:
    size, slide = window
    operator = SlidingWindow({"size_s": size, "slide_s": slide}, ["P"])
    ordered = sorted(data)
    cuts = [round(len(ordered) * part / parts) for part in range(parts + 1)]
    epochs, marks = [], []
    for low, high in pairwise(cuts):
        part = ordered[low:high]
        table = pa.table(
            {
                "ts": pa.array([ts for ts, _ in part], pa.int64()),
                "key": pa.array([k for _, k in part], pa.string()),
            }
        )
        epochs.append({"P": [operator.combine(table) if combined and part else table] if part else []})
        marks.append(ordered[high][0] if high < len(ordered) else ordered[-1][0])
    rows = run(StateStore(tmp_path_factory.mktemp("state")), operator, epochs, marks)
    assert Counter(row for epoch in rows for row in epoch) == expected_windows(
        data, size * SECOND, slide * SECOND
    )


def test_a_window_is_emitted_when_the_watermark_reaches_its_end(tmp_path: Path) -> None:
    operator = TumblingWindow({"size_s": 10}, ["P"])
    table = pa.table({"ts": pa.array([1 * SECOND], pa.int64()), "key": ["a"]})
    empty: dict[str, list[pa.Table]] = {"P": []}
    marks = [9 * SECOND, 10 * SECOND - 1, 10 * SECOND, 11 * SECOND]
    rows = run(StateStore(tmp_path), operator, [{"P": [table]}, empty, empty, empty], marks)
    assert rows == [[], [], [(0, 10 * SECOND, "a", 1)], []]


def windows(rows: list[Row]) -> list[pa.Table]:
    names = ["window_start", "window_end", "key", "count"]
    return [pa.table(dict(zip(names, map(list, zip(*rows, strict=True)), strict=True)))] if rows else []


def test_the_view_emits_changes_and_keys_that_left(tmp_path: Path) -> None:
    view = Latest({}, ["O0", "O1"])
    epochs = [
        {"O0": windows([(0, 10, "a", 1), (0, 10, "b", 2)]), "O1": []},
        {"O0": windows([(5, 15, "b", 2), (5, 15, "c", 4)]), "O1": windows([(0, 20, "a", 9)])},
        {"O0": windows([(10, 20, "b", 3), (15, 25, "b", 3), (15, 25, "a", 1)]), "O1": []},
    ]
    rows = run(StateStore(tmp_path), view, epochs, [10, 20, 30])
    assert rows == [
        [(0, 10, "a", 1), (0, 10, "b", 2)],
        [(5, 15, "c", 4), (5, 15, "a", 0), (0, 20, "a", 9)],
        [(10, 20, "b", 3), (10, 20, "c", 0), (15, 25, "a", 1)],
    ]


def test_replaying_from_an_older_manifest_gives_the_same_rows(tmp_path: Path) -> None:
    operator = SlidingWindow({"size_s": 10, "slide_s": 5}, ["P"])
    store = StateStore(tmp_path)
    tables = [pa.table({"ts": pa.array([s * SECOND], pa.int64()), "key": ["k"]}) for s in (1, 6, 11, 16)]
    epochs = [{"P": [table]} for table in tables]
    marks = [6 * SECOND, 11 * SECOND, 16 * SECOND, 16 * SECOND]
    first = run(store, operator, epochs, marks)
    store.rollback(0)
    assert run(store, operator, epochs, marks) == first


@pytest.mark.parametrize(
    ("params", "message"),
    [
        ({}, "size_s must be a duration"),
        ({"size_s": 0}, "size_s must be a duration"),
        ({"size_s": "10"}, "size_s must be a duration"),
        ({"size_s": 5, "slide_s": 10}, "slide_s must not be larger"),
        ({"size_s": 5, "every": 1}, "unknown parameter 'every'"),
        ({"size_s": 604800, "slide_s": 0.001}, "too small a common divisor"),
    ],
)
def test_bad_parameters_are_explained(params: dict[str, object], message: str) -> None:
    assert any(message in problem for problem in SlidingWindow.problems(params))


def counted(end: int, counts: dict[str, int]) -> pa.Table:
    rows = [
        {"window_start": end - 10, "window_end": end, "key": key, "count": count}
        for key, count in counts.items()
    ]
    return pa.Table.from_pylist(rows, schema=ROWS)


def test_views_of_one_task_work_out_once_what_the_same_rows_change(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    worked_out: list[int] = []
    difference = latest._difference

    def watched(before: pa.Table | None, window: pa.Table) -> pa.Table:
        worked_out.append(window.num_rows)
        return difference(before, window)

    monkeypatch.setattr(latest, "_difference", watched)
    windows = [counted(10, {"a": 1, "b": 2}), counted(20, {"b": 3})]
    epochs = [{"O0": [window]} for window in windows]
    ahead = [{"O0": [counted(10, {"a": 5})]}, epochs[1]]
    changed = [(10, 20, "b", 3), (10, 20, "a", 0)]
    for name, inputs in (("first", epochs), ("same", epochs), ("other view", ahead)):
        rows = run(StateStore(tmp_path / name), Latest({}, ["O0"]), inputs, [0, 0])
        assert rows[1] == changed, name
    # The first window meets no view, which costs nothing; the second one meets two different views.
    assert worked_out == [2, 1, 2, 1, 1]
    del windows, epochs, ahead, inputs
    assert not latest._steps


def test_windows_without_tuples_are_stepped_over_also_within_an_epoch(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Such as those between a time of 0, which stands for none, and the others."""
    asked: list[int] = []
    find = SlidingWindow._window

    def window(self: SlidingWindow, end: int, *more: Any) -> pa.Table | None:
        asked.append(end)
        return find(self, end, *more)

    monkeypatch.setattr(SlidingWindow, "_window", window)
    late = 3_600 * SECOND
    rows = pa.table({"ts": [0, late, late + SECOND], "key": ["a", "b", "b"]})
    operator = SlidingWindow({"size_s": 3, "slide_s": 2}, ["P"])
    marks = [late + 2 * SECOND, late + 9 * SECOND]
    (first, last) = run(StateStore(tmp_path), operator, [{"P": [rows]}, {}], marks)
    ends = [(row[1] // SECOND, row[2], row[3]) for row in (*first, *last)]
    assert ends == [(2, "a", 1), (3602, "b", 2), (3604, "b", 1)]
    assert len(asked) < 10


def test_an_epoch_of_many_windows_is_not_searched_for_each_of_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Such as one of a file with the times of months, read as fast as it can be."""
    looked: list[Chunk] = []
    find = SlidingWindow.panes_of

    def panes_of(self: SlidingWindow, chunk: Chunk) -> pa.Table:
        looked.append(chunk)
        return find(self, chunk)

    monkeypatch.setattr(SlidingWindow, "panes_of", panes_of)
    data = [((n * 37) % 300 * SECOND, "ab"[n % 2]) for n in range(600)]
    rows = pa.table({"ts": [ts for ts, _ in data], "key": [key for _, key in data]})
    operator = SlidingWindow({"size_s": 2, "slide_s": 1}, ["P"])
    found = run(StateStore(tmp_path), operator, [{"P": [rows]}], [300 * SECOND])
    assert Counter(found[0]) == expected_windows(data, 2 * SECOND, SECOND)
    assert len(looked) < 20
