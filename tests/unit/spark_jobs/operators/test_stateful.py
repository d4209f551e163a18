"""Operators with state (distinct, windowed join) and operators that combine rows (top k, union)."""

from __future__ import annotations

import math
import random
from collections.abc import Iterator, Mapping
from typing import Any

import pyarrow as pa
import pytest

from spark_jobs.operators.base import EpochContext, Operator
from spark_jobs.operators.join import WindowedJoin
from spark_jobs.operators.latest import Latest
from spark_jobs.operators.problems import OperatorError
from spark_jobs.operators.sets import Distinct, Union
from spark_jobs.operators.sql import query_table
from spark_jobs.operators.top_k import TopK
from spark_jobs.operators.window import ROWS
from spark_jobs.state.late import left_out
from spark_jobs.state.tables import StateTables

SECOND = 1_000_000


def keyed(*rows: tuple[float, str | None]) -> pa.Table:
    ts = pa.array([round(second * SECOND) for second, _ in rows], pa.int64())
    return pa.table({"ts": ts, "key": pa.array([key for _, key in rows], pa.string())})


def process(
    operator: Operator,
    state: StateTables,
    watermark_s: float,
    inputs: Mapping[str, pa.Table],
    *,
    final: bool = False,
) -> list[dict[str, Any]]:
    context = EpochContext(1, round(watermark_s * SECOND), 0, final)
    result = operator.process(context, {name: [table] for name, table in inputs.items()}, state)
    return [] if result is None else result.to_pylist()


def empty() -> StateTables:
    return StateTables({}, {}, {})


def other(value: float) -> pa.Table:
    """A row at 1 s, with a value of either type; the type decides the order of columns."""
    columns = {"ts": pa.array([SECOND], pa.int64()), "key": ["a"], "v": [value]}
    return pa.table(columns if isinstance(value, int) else dict(reversed(columns.items())))


class TestDistinct:
    def test_first_row_of_each_value_over_epochs(self) -> None:
        operator, state = Distinct({}, ["A"]), empty()
        first = process(operator, state, 3, {"A": keyed((1, "b"), (1, "a"), (2, "b"), (2, None))})
        assert [(row["ts"], row["key"]) for row in first] == [
            (SECOND, "b"),
            (SECOND, "a"),
            (2 * SECOND, None),
        ]
        second = process(operator, state, 9, {"A": keyed((3, "a"), (4, "c"), (5, None))})
        assert [row["key"] for row in second] == ["c"]

    def test_values_are_forgotten_with_their_window(self) -> None:
        operator, state = Distinct({"size_s": 10}, ["A"]), empty()
        assert len(process(operator, state, 9, {"A": keyed((1, "a"), (8, "a"))})) == 1
        assert len(process(operator, state, 12, {"A": keyed((9, "a"), (11, "a"))})) == 1
        assert len(process(operator, state, 39, {"A": keyed((12, "a"), (35, "a"))})) == 1
        assert [chunk.note["high"] for chunk in state.table("seen")] == [30 * SECOND]

    @pytest.mark.parametrize("params", [{}, {"size_s": 5}, {"columns": ["key", "ts"]}])
    def test_agrees_with_a_set_over_many_epochs(self, params: dict[str, Any]) -> None:
        randoms = random.Random(5)
        operator, state, seen = Distinct(params, ["A"]), empty(), set()
        for epoch in range(200):
            rows = [(epoch + randoms.random() // 0.1 / 10, randoms.choice("abcdefgh")) for _ in range(6)]
            expected = []
            for ts, key in rows:
                identity = (key, ts if "columns" in params else 0, ts // 5 if "size_s" in params else 0)
                if identity not in seen:
                    seen.add(identity)
                    expected.append((round(ts * SECOND), key))
            found = process(operator, state, epoch, {"A": keyed(*rows)})
            state.settle()
            assert [(row["ts"], row["key"]) for row in found] == expected
        assert len(list(state.table("seen"))) < 64

    @pytest.mark.parametrize("often", [1, 30])
    def test_types_and_order_of_columns_may_change_between_epochs(self, often: int) -> None:
        operator, state = Distinct({"columns": ["key", "v"], "size_s": 10}, ["A"]), empty()
        for repeated in range(often):
            whole, fraction = (other(repeated + v) for v in (100, 0.5))
            assert len(process(operator, state, 0, {"A": whole})) == 1
            assert len(process(operator, state, 0, {"A": fraction})) == 1
            assert process(operator, state, 0, {"A": other(repeated + 100.0)}) == []

    @pytest.mark.parametrize("params", [{}, {"size_s": 10}])
    def test_a_column_may_be_without_a_value_for_whole_epochs(self, params: dict[str, Any]) -> None:
        """Tables that Python code makes of such rows have no type for it."""
        operator, state = Distinct({"columns": ["v"], **params}, ["A"]), empty()
        passed = []
        for values in ([None], [None, None], ["a", None], [None], ["a", "b"]):
            table = pa.table({"ts": pa.array([1] * len(values)), "v": values})
            passed += [row["v"] for row in process(operator, state, 0, {"A": table})]
        assert passed == [None, "a", "b"]

    @pytest.mark.parametrize("params", [{}, {"size_s": 10}])
    def test_nan_is_passed_once(self, params: dict[str, Any]) -> None:
        operator, state = Distinct({"columns": ["v"], **params}, ["A"]), empty()
        values = [math.nan, 1.0, None, math.nan]
        found = []
        for _ in range(3):
            rows = pa.table({"ts": pa.array(range(4), pa.int64()), "v": pa.array(values, pa.float64())})
            found += [row["ts"] for row in process(operator, state, 0, {"A": rows})]
            state.settle()
        assert found == [0, 1, 2]
        seen = state.table("seen").read()
        assert seen is not None
        assert seen.num_rows == 3

    @pytest.mark.parametrize("params", [{}, {"size_s": 10}])
    def test_dictionaries_may_differ(self, params: dict[str, Any]) -> None:
        """As they do between partitions and epochs."""
        operator, state = Distinct({"columns": ["v"], **params}, ["A"]), empty()
        found = []
        for words in ("ab", "bc"):
            parts = pa.chunked_array([pa.array([word]).dictionary_encode() for word in words])
            rows = pa.table({"ts": pa.array([1, 2], pa.int64()), "v": parts})
            found += [row["v"] for row in process(operator, state, 0, {"A": rows})]
            state.settle()
        assert found == ["a", "b", "c"]

    def test_bad_parameters_are_named(self) -> None:
        assert Distinct.problems({"columns": "key", "size_s": 0, "x": 1}) == [
            "unknown parameter 'x'; this operator takes columns, size_s",
            "columns must be a list of column names, not 'key'",
            "size_s must be a duration between 1 ms and 7 d, such as 30, 15m or 1h, not 0",
        ]


class TestTimes:
    @pytest.mark.parametrize("kind", [pa.int64(), pa.int32(), pa.uint64()])
    def test_rows_without_a_time_are_in_no_window(self, kind: pa.DataType) -> None:
        rows = pa.table({"ts": pa.array([None, 5, None, 6], kind), "key": ["a", "b", "b", "c"]})
        first = process(Distinct({"size_s": 10}, ["A"]), empty(), 0, {"A": rows})
        assert [row["ts"] for row in first] == [5, 6]
        state = empty()
        pairs = process(WindowedJoin({"size_s": 10}, ["L", "R"]), state, 10, {"L": rows, "R": rows})
        assert [(row["left_ts"], row["right_ts"]) for row in pairs] == [(5, 5), (6, 6)]
        assert left_out(state) == 0

    def test_without_any_time_nothing_is_kept(self) -> None:
        rows = pa.table({"ts": pa.nulls(2), "key": ["a", "b"]})
        state = empty()
        assert process(Distinct({"size_s": 10}, ["A"]), state, 0, {"A": rows}) == []
        assert process(WindowedJoin({"size_s": 10}, ["L", "R"]), state, 9, {"L": rows, "R": rows}) == []
        assert all(table.read() is None for table in state.tables.values())

    @pytest.mark.parametrize("ts", [[1.5], ["1"], [True]])
    def test_times_of_another_kind_are_refused(self, ts: list[Any]) -> None:
        rows = pa.table({"ts": ts, "key": ["a"]})
        with pytest.raises(
            OperatorError, match="distinct needs whole microseconds in column 'ts', but it is"
        ):
            process(Distinct({"size_s": 10}, ["A"]), empty(), 0, {"A": rows})
        with pytest.raises(OperatorError, match="windowed_join needs whole microseconds in column 'ts'"):
            process(WindowedJoin({"size_s": 10}, ["L", "R"]), empty(), 0, {"L": rows})

    def test_what_is_said_of_timestamps_helps(self) -> None:
        given = query_table("SELECT make_timestamp(ts) AS ts, key FROM input", {"input": keyed((1, "a"))})
        with pytest.raises(OperatorError) as caught:
            process(Distinct({"size_s": 10}, ["A"]), empty(), 0, {"A": given})
        assert "`epoch_us(...)` in `sql`" in caught.value.hint
        micros = query_table("SELECT epoch_us(ts) AS ts FROM input", {"input": given})
        assert micros.column("ts").to_pylist() == [SECOND]


class TestUnion:
    def test_inputs_in_their_order_columns_by_name(self) -> None:
        other = pa.table({"key": ["z"], "ts": pa.array([5], pa.int64())})
        rows = process(Union({}, ["A", "B"]), empty(), 0, {"B": other, "A": keyed((1, "a"))})
        assert rows == [{"ts": SECOND, "key": "a"}, {"ts": 5, "key": "z"}]

    def test_different_columns_are_refused(self) -> None:
        with pytest.raises(OperatorError, match="union got inputs with different columns: ts, key and a"):
            process(Union({}, ["A", "B"]), empty(), 0, {"A": keyed((1, "a")), "B": pa.table({"a": [1]})})


@pytest.mark.parametrize("kind", ["latest", "top_k"])
def test_columns_of_windows_may_come_in_any_order(kind: str) -> None:
    """As behind a union, whose order is that of the first rows of each epoch."""
    operator, state = (Latest({}, ["A"]) if kind == "latest" else TopK({}, ["A"])), empty()
    windows = pa.table([[0, 10], [10, 20], ["a", "a"], [1, 2]], schema=ROWS)
    reverse = windows.select(ROWS.names[::-1]).append_column("more", pa.array([0, 0]))
    assert process(operator, state, 0, {"A": windows.slice(0, 1)}) == windows.slice(0, 1).to_pylist()
    assert process(operator, state, 0, {"A": reverse.slice(1)}) == windows.slice(1).to_pylist()


class TestTopK:
    def window(self, start: int, counts: dict[str, int]) -> Iterator[dict[str, Any]]:
        for key, count in counts.items():
            yield {"window_start": start, "window_end": start + 10, "key": key, "count": count}

    def test_largest_of_each_window_ties_by_key(self) -> None:
        rows = [*self.window(10, {"a": 1, "b": 3, "c": 3, "d": 2}), *self.window(0, {"a": 1, "z": 9})]
        table = pa.Table.from_pylist(rows, schema=ROWS)
        found = process(TopK({"k": 2}, ["A"]), empty(), 0, {"A": table})
        assert [(row["window_start"], row["key"]) for row in found] == [
            (0, "z"),
            (0, "a"),
            (10, "b"),
            (10, "c"),
        ]

    def test_counts_of_parts_are_added_up(self) -> None:
        parts = [{"a": 4, "b": 5}, {"a": 4, "c": 7}, {"b": 2, "d": 1}]
        tables = [pa.Table.from_pylist(list(self.window(0, part)), schema=ROWS) for part in parts]
        context = EpochContext(1, 10, 0)
        apart, together = (
            TopK({"k": 2, "add_up": add_up}, ["A"]).process(context, {"A": tables}, empty())
            for add_up in (False, True)
        )
        assert apart is not None
        assert apart.to_pylist() == list(self.window(0, {"c": 7, "b": 5}))
        assert together is not None
        assert together.schema == ROWS
        assert together.to_pylist() == list(self.window(0, {"a": 8, "b": 7}))

    @pytest.mark.parametrize("add_up", [1, "true", None])
    def test_bad_add_up(self, add_up: Any) -> None:
        assert TopK.problems({"add_up": add_up}) == [f"add_up must be true or false, not {add_up!r}"]

    def test_needs_window_rows(self) -> None:
        with pytest.raises(OperatorError, match="top_k needs a column 'window_start'"):
            process(TopK({}, ["A"]), empty(), 0, {"A": keyed((1, "a"))})

    @pytest.mark.parametrize("k", [0, True, 1.5, "3"])
    def test_bad_k(self, k: Any) -> None:
        assert TopK.problems({"k": k}) == [f"k must be a whole number from 1 to 1000000, not {k!r}"]


class TestWindowedJoin:
    params: dict[str, Any] = {"size_s": 10}  # noqa: RUF012 - read only

    def test_pairs_of_closed_windows_in_order(self) -> None:
        operator, state = WindowedJoin(self.params, ["L", "R"]), empty()
        left = keyed((1, "b"), (2, "a"), (11, "a"), (3, None))
        assert process(operator, state, 9.9, {"L": left, "R": keyed((4, "a"), (12, "a"))}) == []
        closed = process(operator, state, 10, {"R": keyed((5, "a"), (6, "b"), (7, None))})
        assert [(row["key"], row["left_ts"], row["right_ts"]) for row in closed] == [
            ("a", 2 * SECOND, 4 * SECOND), ("a", 2 * SECOND, 5 * SECOND), ("b", SECOND, 6 * SECOND),
        ]  # fmt: skip
        assert {(row["window_start"], row["window_end"]) for row in closed} == {(0, 10 * SECOND)}
        flushed = process(operator, state, 12, {}, final=True)
        assert [(row["window_start"], row["key"]) for row in flushed] == [(10 * SECOND, "a")]
        assert state.table("left").read() is None

    def test_agrees_with_nested_loops_over_many_epochs(self) -> None:
        randoms = random.Random(7)
        operator, state = WindowedJoin(self.params, ["L", "R"]), empty()
        lefts: list[tuple[float, str]] = []
        rights: list[tuple[float, str]] = []
        found: list[tuple[Any, ...]] = []
        for epoch in range(60):
            sides = [[(epoch + randoms.random(), randoms.choice("abc")) for _ in range(3)] for _ in "LR"]
            lefts += sides[0]
            rights += sides[1]
            rows = process(
                operator, state, epoch + 1, {"L": keyed(*sides[0]), "R": keyed(*sides[1])}, final=epoch == 59
            )
            found += [(row["window_start"], row["key"], row["left_ts"], row["right_ts"]) for row in rows]
        expected = [
            (int(left // 10) * 10 * SECOND, key, round(left * SECOND), round(right * SECOND))
            for left, key in lefts
            for right, other in rights
            if key == other and left // 10 == right // 10
        ]
        assert sorted(found) == sorted(expected)
        assert [row[:2] for row in found] == sorted(row[:2] for row in found)

    def test_types_and_order_of_columns_may_change_between_epochs(self) -> None:
        operator, state = WindowedJoin(self.params, ["L", "R"]), empty()
        process(operator, state, 0, {"L": other(1), "R": other(2)})
        process(operator, state, 0, {"L": other(1.5)})
        closed = process(operator, state, 10, {})
        assert [(row["left_v"], row["right_v"]) for row in closed] == [(1, 2), (1.5, 2)]

    def test_rows_of_closed_windows_are_left_out(self) -> None:
        operator, state = WindowedJoin(self.params, ["L", "R"]), empty()
        process(operator, state, 20, {"L": keyed((1, "a"))})
        assert process(operator, state, 40, {"L": keyed((2, "a")), "R": keyed((3, "a"))}) == []

    def test_of_windows_pairs_those_that_are_equal(self) -> None:
        operator, state = WindowedJoin({}, ["L", "R"]), empty()

        def windows(*rows: tuple[int, int, str | None, int]) -> pa.Table:
            columns = [list(column) for column in zip(*rows, strict=True)]
            return pa.table(dict(zip(ROWS.names, columns, strict=True)), schema=ROWS)

        left = windows((0, 30, "b", 2), (0, 30, "a", 1), (10, 40, "a", 3), (0, 20, "a", 9), (0, 30, None, 5))
        right = windows((10, 40, "a", 7), (0, 30, "b", 8), (10, 40, "b", 6), (0, 30, None, 5))
        expected = [
            {"window_start": 0, "window_end": 30, "key": "b", "left_count": 2, "right_count": 8},
            {"window_start": 10, "window_end": 40, "key": "a", "left_count": 3, "right_count": 7},
        ]
        assert process(operator, state, 40, {"L": left, "R": right}) == expected
        assert process(operator, state, 50, {"L": left}) == []
        assert process(operator, state, 60, {"R": right}, final=True) == [], "nothing is kept"

    @pytest.mark.parametrize("params", [{"size_s": 10}, {}])
    def test_columns_may_differ_in_case_only(self, params: dict[str, Any]) -> None:
        rows = pa.table(
            {
                "window_start": [0],
                "window_end": [9],
                "ts": [1],
                "Key": ["other"],
                "key": ["k"],
                "v": [2],
                "V": [3],
            }
        )
        (found,) = process(WindowedJoin(params, ["L", "R"]), empty(), 10, {"L": rows, "R": rows})
        for side in ("left", "right"):
            values = [found[f"{side}_{name}"] for name in ("ts", "Key", "v", "V")]
            assert values == [1, "other", 2, 3]
        assert found["key"] == "k"

    def test_of_windows_needs_windows(self) -> None:
        with pytest.raises(OperatorError, match="windowed_join needs a column 'window_start'"):
            process(WindowedJoin({}, ["L", "R"]), empty(), 0, {"L": keyed((1, "a")), "R": keyed((1, "a"))})

    @pytest.mark.parametrize(
        ("params", "message"),
        [
            ({"size_s": None}, "size_s must be a duration"),
            ({"size_s": 0}, "size_s must be a duration"),
            ({"time": "ts"}, "time needs size_s; without both, rows of the same windows are joined"),
            ({"column": ""}, "column must be the name of a column"),
        ],
    )
    def test_parameters_that_make_no_sense(self, params: dict[str, Any], message: str) -> None:
        (problem,) = WindowedJoin.problems(params)
        assert message in problem

    def test_takes_two_inputs(self) -> None:
        with pytest.raises(OperatorError, match="takes two inputs, not 1"):
            WindowedJoin(self.params, ["L"])
