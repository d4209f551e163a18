"""Averages in windows against a plain-Python mean, epoch by epoch through real state."""

from __future__ import annotations

from fractions import Fraction
from itertools import pairwise
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from spark_jobs.operators.average import WindowAverage
from spark_jobs.operators.base import EpochContext
from spark_jobs.operators.problems import OperatorError
from spark_jobs.operators.window import SECOND
from spark_jobs.state.store import EMPTY, StateStore
from spark_jobs.state.tables import StateTables

Tuples = list[tuple[int, str, int | None]]


def table(rows: Tuples, kind: pa.DataType | None = None) -> pa.Table:
    ts, keys, speeds = zip(*rows, strict=True) if rows else ((), (), ())
    return pa.table(
        {
            "ts": pa.array(ts, pa.int64()),
            "key": pa.array(keys, pa.string()),
            "speed": pa.array(speeds, kind or pa.int64()),
        }
    )


def means(rows: Tuples, size: int, slide: int) -> set[tuple[Any, ...]]:
    found: dict[tuple[int, int, str], list[int]] = {}
    for ts, key, speed in rows:
        end = ts - ts % slide + slide
        while speed is not None and end - size <= ts:
            found.setdefault((end - size, end, key), []).append(speed)
            end += slide
    return {(*window, float(Fraction(sum(of), len(of))), len(of)) for window, of in found.items()}


rows_of = st.lists(
    st.tuples(
        st.integers(0, 90 * SECOND),
        st.sampled_from("abc"),
        st.none() | st.integers(-(10**12), 10**12) | st.integers(-(2**63), 2**63 - 1),
    ),
    min_size=1,
    max_size=50,
)


@settings(max_examples=50, deadline=None)
@given(
    rows_of,
    st.sampled_from([(10, 10), (30, 10), (7, 3), (1, 1)]),
    st.integers(1, 6),
    st.sampled_from([0, 1, 2]),
)
def test_each_key_has_its_mean_in_each_window(
    tmp_path_factory: pytest.TempPathFactory, data: Tuples, window: tuple[int, int], parts: int, combined: int
) -> None:
    """However the rows are spread over epochs and messages, combined or not."""
    size, slide = window
    operator = WindowAverage({"size_s": size, "slide_s": slide, "value": "speed"}, ["P"])
    store, manifest, found = StateStore(tmp_path_factory.mktemp("state")), EMPTY, []
    ordered = sorted(data, key=lambda row: row[0])
    cuts = [round(len(ordered) * part / parts) for part in range(parts + 1)]
    for epoch, (low, high) in enumerate(pairwise(cuts), start=1):
        messages = [table(ordered[low:high][half::2]) for half in (0, 1)]
        messages = [
            operator.combine(one) if combined > half else one
            for half, one in enumerate(messages)
            if one.num_rows
        ]
        mark = ordered[high][0] if high < len(ordered) else ordered[-1][0]
        state = store.open(manifest)
        output = operator.process(EpochContext(epoch, mark, 0, epoch == parts), {"P": messages}, state)
        manifest = store.commit(state, epoch=epoch, generation=1)
        found += [] if output is None else [tuple(row.values()) for row in output.to_pylist()]
    assert len(set(found)) == len(found)
    assert set(found) == means(data, size * SECOND, slide * SECOND)


@pytest.mark.parametrize(
    ("values", "kind"),
    [
        ([1_700_000_000_000_001] * 7, pa.int64()),
        ([2**62] * 3, pa.int64()),
        ([-(2**63), -(2**63), 2**63 - 1], pa.int64()),
        ([2**64 - 1, 2**64 - 1, 1], pa.uint64()),
        ([2**53 + 1, 2**53 + 3], pa.uint64()),
        ([255, 254], pa.uint8()),
    ],
)
def test_sums_are_exact_however_large(values: list[int], kind: pa.DataType) -> None:
    rows: Tuples = [(at, "a", value) for at, value in enumerate(values)]
    assert averages(table(rows, kind)) == [float(Fraction(sum(values), len(values)))]


def averages(*messages: pa.Table, state: StateTables | None = None) -> list[float]:
    """Of each message in an epoch of its own."""
    operator, state = WindowAverage({"size_s": 1, "value": "speed"}, ["P"]), state or StateTables({}, {}, {})
    found: list[float] = []
    for epoch, message in enumerate(messages, start=1):
        context = EpochContext(epoch, 0, 0, final=epoch == len(messages))
        output = operator.process(context, {"P": [message]}, state)
        found += [] if output is None else output.column("average").to_pylist()
    return found


def test_sums_that_an_earlier_version_kept_or_sent_are_read() -> None:
    earlier = pa.table({"pane": [0], "key": ["a"], "count": [2], "total": [-7]})
    state = StateTables({"next_end": SECOND, "last_pane": 0}, {}, {})
    state.table("panes").append(earlier, {"low": 0, "high": 0})
    assert averages(earlier, table([(1, "a", 10)]), state=state) == [-4 / 5]


def test_it_shares_combined_rows_only_with_averages_of_the_same_column() -> None:
    keys = {
        WindowAverage({"size_s": size, "value": value}, ["P"]).combine_key()
        for size, value in ((10, "speed"), (5, "speed"), (10, "ts"))
    }
    assert len(keys) == 3


@pytest.mark.parametrize("kind", [pa.float64(), pa.string(), pa.bool_()])
def test_values_that_are_no_whole_numbers_are_refused(kind: pa.DataType) -> None:
    operator = WindowAverage({"size_s": 1, "value": "speed"}, ["P"])
    with pytest.raises(OperatorError, match="needs whole numbers, but column 'speed' is"):
        operator.combine(table([(1, "a", None)], kind))


def test_a_column_without_any_value_has_no_type_and_no_mean() -> None:
    rows = table([(1, "a", None)], pa.null())
    operator = WindowAverage({"value": "speed", "size_s": 1}, ["A"])
    context = EpochContext(1, 0, 0, final=True)
    found = operator.process(context, {"A": [rows]}, StateTables({}, {}, {}))
    assert found is None or not found.num_rows


@pytest.mark.parametrize("missing", ["ts", "key", "speed"])
def test_a_missing_column_is_named(missing: str) -> None:
    operator = WindowAverage({"size_s": 1, "value": "speed"}, ["P"])
    with pytest.raises(OperatorError, match=f"window_average needs a column '{missing}'"):
        operator.combine(table([(1, "a", 2)]).drop_columns(missing))


@pytest.mark.parametrize(
    ("params", "message"),
    [
        ({"size_s": 1}, "value must be the name of a column of whole numbers, not None"),
        ({"size_s": 1, "value": 3}, "value must be the name of a column of whole numbers, not 3"),
        ({"size_s": 0, "value": "speed"}, "size_s must be a duration"),
        ({"size_s": 1, "slide_s": 2, "value": "speed"}, "slide_s must not be larger than size_s"),
        ({"size_s": 1, "value": "speed", "values": 1}, "unknown parameter 'values'"),
    ],
)
def test_parameters_that_make_no_sense(params: dict[str, Any], message: str) -> None:
    (problem,) = WindowAverage.problems(params)
    assert message in problem


def test_parameters_that_do() -> None:
    assert WindowAverage.problems({"size_s": 300, "slide_s": 10, "value": "speed"}) == []
