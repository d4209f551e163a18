from __future__ import annotations

import math
from decimal import Decimal
from operator import eq, ge, gt, le, lt, ne
from typing import Any

import pyarrow as pa
import pytest

from spark_jobs.operators.base import EpochContext, Operator
from spark_jobs.operators.columns import Filter, Project
from spark_jobs.operators.problems import OperatorError
from spark_jobs.state.tables import StateTables

ROWS = pa.table({"ts": [1, 2, 3, 4], "key": ["ape", "bee", None, "cat"], "count": [5, None, 7, 8]})


def run(operator: Operator, *tables: pa.Table) -> pa.Table | None:
    return operator.process(EpochContext(1, 0, 0), {"A": list(tables)}, StateTables({}, {}, {}))


@pytest.mark.parametrize(
    ("column", "comparison", "value", "kept"),
    [
        ("key", "==", "bee", [2]),
        ("key", "!=", "bee", [1, 4]),
        ("count", "<", 7, [1]),
        ("count", "<=", 7, [1, 3]),
        ("count", ">", 6.5, [3, 4]),
        ("count", ">=", 8, [4]),
        ("key", "in", ["ape", "cat"], [1, 4]),
        ("key", "not_in", ["ape"], [2, 4]),
        ("key", "contains", "a", [1, 4]),
        ("key", "starts_with", "b", [2]),
        ("key", "ends_with", "e", [1, 2]),
        ("key", "is_null", None, [3]),
        ("count", "is_not_null", None, [1, 3, 4]),
    ],
)
def test_filter_keeps_the_rows_for_which_it_holds(
    column: str, comparison: str, value: Any, kept: list[int]
) -> None:
    params = {"column": column, "comparison": comparison, "value": value}
    assert Filter.problems(params) == []
    result = run(Filter(params, ["A"]), ROWS)
    assert result is not None
    assert result.column("ts").to_pylist() == kept
    assert result.column_names == ROWS.column_names


def kept(column: pa.Array, comparison: str, value: Any) -> list[Any]:
    result = run(
        Filter({"column": "a", "comparison": comparison, "value": value}, ["A"]), pa.table({"a": column})
    )
    assert result is not None
    return list(result.column("a").to_pylist())


@pytest.mark.parametrize("kind", [pa.int64(), pa.uint64(), pa.int8()])
@pytest.mark.parametrize(
    "value",
    [0.5, 5.0, -0.5, 2.0**53, 2.0**53 + 2, 2.0**60, 2.0**63, 2.0**64, -(2.0**63), 1e30, math.inf, math.nan],
)
@pytest.mark.parametrize("comparison", ["==", "!=", "<", "<=", ">", ">="])
def test_whole_numbers_are_compared_with_fractions_exactly(
    kind: pa.DataType, comparison: str, value: float
) -> None:
    numbers = [0, 1, 5, 2**53, 2**53 + 1, 2**60 + 1, 2**63 - 1, 2**64 - 1, -(2**63), -1]
    half = 2 ** (kind.bit_width - 1)
    low, high = (0, 2 * half) if kind == pa.uint64() else (-half, half)
    numbers = [number for number in numbers if low <= number < high]
    compare = {"==": eq, "!=": ne, "<": lt, "<=": le, ">": gt, ">=": ge}[comparison]
    expected = [number for number in numbers if compare(number, value)]
    assert kept(pa.array(numbers, kind), comparison, value) == expected


@pytest.mark.parametrize(("comparison", "expected"), [("in", [2]), ("not_in", [1, 3])])
@pytest.mark.parametrize("kind", [pa.int64(), pa.decimal128(38, 0), pa.float64()])
def test_no_whole_number_is_in_a_list_of_fractions(
    kind: pa.DataType, comparison: str, expected: list[int]
) -> None:
    assert kept(pa.array([1, 2, None, 3], kind), comparison, [1.5, 2, 1e30, 0.25]) == expected


@pytest.mark.parametrize(
    ("comparison", "value", "expected"),
    [
        (">", 1.2, ["1.25", "3.00"]),
        ("==", 1.25, ["1.25"]),
        ("<=", 1, ["-0.10"]),
        ("in", [-0.1, 3], ["-0.10", "3.00"]),
    ],
)
def test_decimals_are_compared_with_fractions(comparison: str, value: Any, expected: list[str]) -> None:
    """Such as sums of SQL."""
    column = pa.array([Decimal("1.25"), None, Decimal("-0.10"), Decimal("3.00")], pa.decimal128(10, 2))
    assert list(map(str, kept(column, comparison, value))) == expected


@pytest.mark.parametrize(
    ("comparison", "value"),
    [("==", "b"), ("<", "c"), ("in", ["b"]), ("not_in", ["c"]), ("contains", "b"), ("starts_with", "b")],
)
def test_a_dictionary_is_compared_by_its_values(comparison: str, value: Any) -> None:
    assert kept(pa.array(["b", None, "c"]).dictionary_encode(), comparison, value) == ["b"]


@pytest.mark.parametrize(
    ("comparison", "value"), [("==", "b"), (">", 1.5), ("not_in", [1]), ("contains", "b")]
)
def test_a_column_without_any_value_has_no_type_and_nothing_holds(comparison: str, value: Any) -> None:
    """As in tables that Python code makes of rows, for some of the epochs."""
    assert kept(pa.nulls(3), comparison, value) == []
    assert kept(pa.nulls(3), "is_null", None) == [None] * 3


@pytest.mark.parametrize(
    ("params", "message"),
    [
        ({"comparison": "==", "value": 1}, "column must be the name of a column, not None"),
        ({"column": "a", "comparison": "=", "value": 1}, "comparison must be one of ==, !="),
        ({"column": "a", "comparison": "in", "value": 1}, "value must be a list of one or more values"),
        ({"column": "a", "comparison": "contains", "value": 1}, "value must be text for `contains`"),
        ({"column": "a", "comparison": "is_null", "value": 1}, "is_null takes no value"),
        ({"column": "a", "comparison": "=="}, "value must be text or a number, not None"),
        ({"column": "a", "comparison": "==", "value": 1, "op": 1}, "unknown parameter 'op'"),
    ],
)
def test_filter_names_bad_parameters(params: dict[str, Any], message: str) -> None:
    (problem,) = Filter.problems(params)
    assert message in problem


def test_filter_says_when_values_cannot_be_compared() -> None:
    operator = Filter({"column": "key", "comparison": "==", "value": 3}, ["A"])
    with pytest.raises(OperatorError, match=r"cannot compare column 'key' \(string\) with 3"):
        run(operator, ROWS)


@pytest.mark.parametrize("columns", [["key", "ts"], {"key": "key", "ts": "ts"}])
def test_project_chooses_columns(columns: Any) -> None:
    assert Project.problems({"columns": columns}) == []
    result = run(Project({"columns": columns}, ["A"]), ROWS, ROWS)
    assert result is not None
    assert result.column_names == ["key", "ts"]
    assert result.num_rows == 8


def test_project_renames() -> None:
    result = run(Project({"columns": {"word": "key", "again": "key"}}, ["A"]), ROWS)
    assert result is not None
    assert result.column("word").equals(result.column("again"))


@pytest.mark.parametrize(
    ("params", "message"),
    [
        ({}, "columns must be a list of names or a mapping"),
        ({"columns": ["a", "a"]}, "columns names 'a' twice"),
        ({"columns": ["a", 3]}, "columns holds 3, which is no name"),
        ({"columns": {"a": ""}}, "columns holds '', which is no name"),
    ],
)
def test_project_names_bad_parameters(params: dict[str, Any], message: str) -> None:
    assert message in Project.problems(params)[0]


def test_missing_column_lists_those_there_are() -> None:
    with pytest.raises(OperatorError, match="project needs a column 'nix', but its input has ts, key, count"):
        run(Project({"columns": ["nix"]}, ["A"]), ROWS)
