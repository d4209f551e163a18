"""Cutting late rows at the source: what is cut, counted and listed, and what readers may give."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql.datasource import DataSourceStreamReader

from domain.execution.job import EpochPlan, LateRow
from spark_jobs.sources.lateness import (
    LISTED,
    late_rows_cut,
    lateness_us,
    may_be_late,
)
from spark_jobs.sources.problems import SourceError
from spark_jobs.sources.registry import reader_create, source_problems

HERE = __name__


class OwnReader(DataSourceStreamReader):
    def __init__(self, options: dict[str, str]) -> None:
        self.options = options

    def read(self, partition: Any) -> Any:
        return iter(())


def plan(before: int) -> EpochPlan:
    return EpochPlan(epoch=7, slices={}, watermark=before + 5, previous_watermark=before, at=0.0)


def test_rows_behind_the_watermark_of_the_epoch_before_are_cut_and_counted() -> None:
    table = pa.table({"ts": [10, 9, 14, None, 12], "text": list("abcde")})
    cut = late_rows_cut(table, plan(10))
    assert cut.rows.column("text").to_pylist() == ["a", "c", "e"]
    assert cut.listed == [
        LateRow(epoch=7, row=1, ts=9, watermark=10),
        LateRow(epoch=7, row=3, ts=None, watermark=10),
    ]
    assert (cut.late, cut.newest) == (2, 14)
    many = late_rows_cut(pa.table({"ts": [3] * (LISTED + 5)}), plan(10))
    assert (many.late, len(many.listed), many.newest) == (LISTED + 5, LISTED, 3)
    assert late_rows_cut(pa.table({"ts": pa.array([None], pa.int64())}), plan(0)).newest is None


@pytest.mark.parametrize(
    "ts",
    [
        pa.array([datetime(1970, 1, 1, 0, 0, 1, tzinfo=UTC)], pa.timestamp("ns", "UTC")),
        pa.array(["1970-01-01T00:00:01"]),
        pa.array([1_000_000], pa.int32()),
    ],
)
def test_event_times_become_microseconds(ts: pa.Array) -> None:
    kept = late_rows_cut(pa.table({"ts": ts}), plan(0)).rows
    assert kept.schema.field("ts").type == pa.int64()
    assert kept.column("ts").to_pylist() == [1_000_000]


def test_rows_without_event_times_are_an_error_that_says_what_to_do() -> None:
    with pytest.raises(SourceError, match=r"gave rows without `ts` \(only text\)\. Have it give"):
        late_rows_cut(pa.table({"text": ["a"]}), plan(0))
    cut = late_rows_cut(pa.table({"ts": [b"\x00"]}), plan(0))
    assert (cut.rows.num_rows, [row.ts for row in cut.listed]) == (0, [None])


def test_lateness_of_a_source() -> None:
    params = {"reader": f"{HERE}.OwnReader"}
    assert lateness_us(params) == 10_000_000
    assert lateness_us({**params, "lateness_s": 0}) == 0
    assert [may_be_late(one) for one in ({}, {"reader": "file"}, params)] == [False, False, True]
    assert source_problems({**params, "lateness_s": 2.5}, [HERE]) == []
    own: Any = reader_create({**params, "lateness_s": 2.5}, {}, [HERE])
    assert own.options == {}, "the driver acts on it"


@pytest.mark.parametrize("value", [-1, True, "10", float("inf"), float("nan"), 604_801])
def test_bad_lateness_is_named(value: Any) -> None:
    found = source_problems({"reader": f"{HERE}.OwnReader", "lateness_s": value}, [HERE])
    assert found == [f"lateness_s must be a number of seconds from 0 to 604800, not {value!r}"]


@pytest.mark.parametrize("value", ["5", -1, 0, True, 86_401, [5], float("nan")])
def test_a_bad_time_of_idleness_is_named(value: Any) -> None:
    found = source_problems({"reader": f"{HERE}.OwnReader", "idle_after_s": value}, [HERE])
    assert found == [f"idle_after_s must be a number of seconds above 0 and up to 86400, not {value!r}"]


def test_a_time_of_idleness_is_for_readers_of_the_users_own() -> None:
    assert source_problems({"reader": f"{HERE}.OwnReader", "idle_after_s": 0.5}, [HERE]) == []
    (found,) = source_problems({"idle_after_s": 5}, [HERE])
    assert found.startswith("unknown parameter 'idle_after_s'")


def test_files_take_no_lateness() -> None:
    assert "unknown parameter 'lateness_s'" in source_problems({"lateness_s": 5}, [])[0]
