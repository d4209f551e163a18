"""The row that an operator failed on: found where one row fails alone, and never claimed elsewhere."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pyarrow as pa
import pytest

from spark_jobs.operators import failing_row as module
from spark_jobs.operators.base import EpochContext
from spark_jobs.operators.failing_row import LONGEST, failing_row, row_text
from spark_jobs.operators.problems import OperatorError
from spark_jobs.operators.sql import Sql
from spark_jobs.state.tables import StateTables

CONTEXT = EpochContext(epoch=1, watermark=0, previous_watermark=0)


@pytest.fixture(autouse=True)
def nothing_remembered() -> None:
    module._found.clear()


def numbers(*texts: str) -> pa.Table:
    return pa.table({"ts": pa.array(range(len(texts))), "text": list(texts)})


def searched(query: str, *tables: pa.Table, kind: str = "sql", took: float = 0.0) -> str:
    operator = Sql({"query": query}, ["A"])

    def process(rows: Mapping[str, Sequence[pa.Table]]) -> object:
        return operator.process(CONTEXT, rows, StateTables({}, {}, {}))

    with pytest.raises(OperatorError) as raised:
        process({"A": tables})
    return failing_row((query,), kind, {"A": tables}, process, raised.value, took)


def test_the_first_row_that_fails_alone() -> None:
    good = ["1"] * 1_000
    rows = numbers(*good[:700], "bad", *good[700:], "worse")
    assert json.loads(searched("SELECT text::INT FROM input", numbers(*good), rows)) == {
        "ts": 700,
        "text": "bad",
    }


def test_none_where_every_row_fails() -> None:
    assert searched("SELECT absent FROM input", numbers(*["1"] * 100)) == ""
    assert searched("SELECT absent FROM input", numbers("1", "2", "3")) == ""


def test_none_where_rows_fail_only_together() -> None:
    query = "SELECT CASE WHEN count(*) > 2 THEN error('too many') END FROM input"
    assert searched(query, numbers("1", "2", "3", "4")) == ""


def test_none_of_kinds_with_state_and_of_what_took_long() -> None:
    rows = numbers("1", "bad")
    assert searched("SELECT text::INT FROM input", rows, kind="python") == ""
    assert searched("SELECT text::INT FROM input", rows, took=2.0) == ""


def counting(fails: Callable[[pa.Table], bool]) -> tuple[Callable[[Any], object], list[int]]:
    calls: list[int] = []

    def process(rows: Mapping[str, Sequence[pa.Table]]) -> object:
        (table,) = rows["A"]
        calls.append(table.num_rows)
        if fails(table):
            raise ValueError("no")
        return None

    return process, calls


def test_it_costs_about_twice_the_input_and_only_once() -> None:
    rows = numbers(*["1"] * 65_535, "bad")
    process, calls = counting(lambda table: "bad" in table.column("text").to_pylist())
    arguments: Any = ("key",), "map", {"A": [rows]}, process, ValueError(), 0.0
    assert json.loads(failing_row(*arguments))["text"] == "bad"
    assert sum(calls) < 3.1 * rows.num_rows
    before = len(calls)
    assert failing_row(*arguments)
    assert len(calls) == before, "it is tried again every few seconds"


def test_another_error_is_another_one() -> None:
    def process(rows: Mapping[str, Sequence[pa.Table]]) -> object:
        (table,) = rows["A"]
        raise ValueError if table.num_rows > 1 else KeyError

    assert failing_row((), "map", {"A": [numbers("1", "2")]}, process, ValueError(), 0.0) == ""


def test_what_goes_wrong_in_the_search_hides_no_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "row_text", lambda row: 1 / 0)
    process, _ = counting(lambda table: True)
    assert failing_row((), "map", {"A": [numbers("1")]}, process, ValueError(), 0.0) == ""


def test_it_ends_in_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "PATIENCE", 0.0)
    process, calls = counting(lambda table: True)
    failing_row((), "map", {"A": [numbers(*["1"] * 100)]}, process, ValueError(), 0.0)
    assert len(calls) <= 1


def test_what_is_remembered_is_bounded() -> None:
    process, _ = counting(lambda table: True)
    for number in range(200):
        failing_row((number,), "map", {"A": [numbers("1")]}, process, ValueError(), 0.0)
    assert len(module._found) == module.REMEMBERED


@pytest.mark.parametrize(
    "row",
    [
        {"text": "é" * 5_000, "ts": 7},
        {f"column {number}": "x" * 100 for number in range(200)},
        {"broken": "\ud800", "list": [1, 2], "nothing": None, "endless": float("inf"), "none": float("nan")},
        {"x" * 5_000: 1},
    ],
)
def test_a_row_is_told_in_a_kilobyte(row: dict[str, Any]) -> None:
    text = row_text(row)
    assert len(text.encode()) <= LONGEST
    if text:
        told = json.loads(text)
        assert set(told) <= set(row)
        json.dumps(told, allow_nan=False)
