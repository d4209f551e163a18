"""What is counted before it is sent: once for as many windows as possible, and each counts the same rows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import date
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from domain.topology import Topology
from domain.topology.spec import InputSpec, OperatorSpec, TopologySpec
from spark_jobs.executor.exchange import _parts, key_buckets, route
from spark_jobs.operators.base import EpochContext, Operator
from spark_jobs.operators.catalogue import OperatorCatalogue
from spark_jobs.operators.problems import OperatorError
from spark_jobs.operators.window import COMBINED, SECOND
from spark_jobs.state.tables import StateTables

Windows = Sequence[tuple[str, Mapping[str, Any]]]
FOUR: Windows = [
    ("sliding_window", {"size_s": size, "slide_s": slide})
    for size, slide in ((10, 5), (20, 10), (30, 10), (60, 20))
]


def topology_of(windows: Windows, *, epoch_s: float = 1.0, **stream: Any) -> Topology:
    """A source, and windows W0, W1 and so on that read from it."""
    targets = tuple(
        OperatorSpec(
            name=f"W{number}", kind=kind, params=dict(params), inputs=(InputSpec(source="S", **stream),)
        )
        for number, (kind, params) in enumerate(windows)
    )
    source = OperatorSpec(name="S", kind="source")
    return Topology(TopologySpec(name="t", epoch_interval=epoch_s, operators=(source, *targets)))


def operators_of(topology: Topology) -> dict[str, Operator]:
    catalogue = OperatorCatalogue(())
    return {
        one.name: catalogue.create(one.kind, one.params, ["S"]) for one in topology.operators if one.inputs
    }


def sent(topology: Topology, table: pa.Table) -> list[tuple[list[str], pa.Table]]:
    return [
        (targets, rows) for targets, rows in route(topology, "S[0]", table, operators_of(topology)) if rows
    ]


def rows(times: Sequence[float | None], keys: Sequence[str | None], **others: Any) -> pa.Table:
    ts = pa.array([None if one is None else round(one * SECOND) for one in times], pa.int64())
    return pa.table({"ts": ts, "key": pa.array(keys, pa.string()), **others})


def test_windows_whose_panes_fit_together_receive_the_same_counts() -> None:
    ((targets, counts),) = sent(topology_of(FOUR), rows([1, 2, 2.5], ["a", "b", "a"]))
    assert targets == ["W0[0]", "W1[0]", "W2[0]", "W3[0]"]
    assert counts.to_pylist() == [{"pane": 0, "key": "a", "count": 2}, {"pane": 0, "key": "b", "count": 1}]


@pytest.mark.parametrize(
    ("windows", "epoch_s", "messages"),
    [
        ([("tumbling_window", {"size_s": 7}), ("tumbling_window", {"size_s": 10})], 1.0, 2),
        ([("tumbling_window", {"size_s": 10}), ("sliding_window", {"size_s": 20, "slide_s": 10})], 1.0, 1),
        ([("tumbling_window", {"size_s": 1}), ("tumbling_window", {"size_s": 3600})], 1.0, 1),
        ([("tumbling_window", {"size_s": 1}), ("tumbling_window", {"size_s": 3600})], 60.0, 2),
        ([("tumbling_window", {"size_s": 5}), ("window_average", {"size_s": 5, "value": "ts"})], 1.0, 2),
        ([("window_average", {"size_s": size, "value": "ts"}) for size in (5, 10)], 1.0, 1),
        ([("window_average", {"size_s": 5, "value": value}) for value in ("ts", "n")], 1.0, 2),
        # Each takes the shortest panes that it consists of: 4 s, 6 s and 4 s.
        ([("tumbling_window", {"size_s": size}) for size in (4, 6, 8, 12)], 1.0, 2),
    ],
)  # fmt: skip
def test_as_few_messages_as_possible(windows: Windows, epoch_s: float, messages: int) -> None:
    """Where epochs are longer than a pane, counts by pane are more rows than counts by a wider one."""
    table = rows([1, 2], ["a", "b"], n=[1, 2])
    assert len(sent(topology_of(windows, epoch_s=epoch_s), table)) == messages


WIDTHS = st.lists(st.sampled_from([(4, 2), (8, 4), (12, 6), (6, 6), (7, 3), (1, 1)]), min_size=1, max_size=4)
EPOCHS = st.lists(
    st.lists(st.tuples(st.none() | st.floats(0, 30), st.sampled_from(["a", "b", None])), max_size=12),
    max_size=5,
)


@settings(max_examples=150, deadline=None)
@given(widths=WIDTHS, epochs=EPOCHS, epoch_s=st.sampled_from([0.5, 2.0, 30.0]), average=st.booleans())
def test_counts_are_those_of_the_rows(
    widths: list[tuple[int, int]],
    epochs: list[list[tuple[float | None, str | None]]],
    epoch_s: float,
    average: bool,
) -> None:
    """Each window gives the same whether it receives what was combined or the rows themselves."""
    kind, more = ("window_average", {"value": "n"}) if average else ("sliding_window", {})
    windows = [(kind, {"size_s": size, "slide_s": slide, **more}) for size, slide in widths]
    topology = topology_of(windows, epoch_s=epoch_s)
    states = {way: {f"W{n}": StateTables({}, {}, {}) for n in range(len(widths))} for way in ("rows", "sent")}
    for number, epoch in enumerate(epochs, start=1):
        numbers = pa.array([1 << place for place in range(len(epoch))], pa.int64())
        table = rows([time for time, _ in epoch], [key for _, key in epoch], n=numbers)
        context = EpochContext(number, 0, 0, final=number == len(epochs))
        given_rows = {name: [table] for name in states["rows"]}
        given_sent: dict[str, list[pa.Table]] = {name: [] for name in states["sent"]}
        for targets, part in sent(topology, table):
            assert part.column_names[:3] == COMBINED
            for target in targets:
                given_sent[target.partition("[")[0]].append(part)
        operators = operators_of(topology)
        for name, operator in operators.items():
            one = operator.process(context, {"S": given_rows[name]}, states["rows"][name])
            other = operator.process(context, {"S": given_sent[name]}, states["sent"][name])
            assert _listed(one) == _listed(other)


def _listed(table: pa.Table | None) -> list[tuple[Any, ...]]:
    found = [] if table is None else [tuple(row.values()) for row in table.to_pylist()]
    return sorted(found, key=repr)


def test_rows_that_are_spread_by_another_column_are_not_combined() -> None:
    topology = topology_of(FOUR[:1], partitioning="full", key="user")
    ((_, table),) = sent(topology, rows([1, 2], ["a", "b"], user=["x", "y"]))
    assert table.column_names == ["ts", "key", "user"]


@pytest.mark.parametrize("column", ["ts", "key"])
def test_rows_that_cannot_be_combined_go_as_they_are(column: str) -> None:
    """So the operator that cannot use them fails, with its name and the row."""
    table = rows([1, 2], ["a", "b"]).drop_columns(column).append_column("count", pa.array([1, 2]))
    ((targets, part),) = sent(topology_of(FOUR), table)
    assert (len(targets), part) == (4, table)


def test_rows_without_a_key_go_to_one_target() -> None:
    column = pa.chunked_array([["a", None, "b"], [None, None]], pa.string())
    buckets = key_buckets(column, 3)
    assert len(set(buckets[[1, 3, 4]])) == 1
    known = column.filter(column.is_valid())
    np.testing.assert_array_equal(buckets[[0, 2]], key_buckets(known, 3))
    assert set(key_buckets(pa.chunked_array([[None, None]], pa.null()), 2)) <= {0, 1}


DAYS = [date(2026, 1, day) for day in (1, 2, 3)]
TIMES = [pa.timestamp("s"), pa.timestamp("us"), pa.timestamp("ns"), pa.timestamp("ms", "Europe/Berlin")]
WHOLE = pa.array([5, -7, 10**15])
PARTS = ["0.5", "-0.25", "0"]


@pytest.mark.parametrize(
    "columns",
    [
        [WHOLE, WHOLE.cast(pa.float64()), WHOLE.cast(pa.decimal128(38, 3))],
        [pa.array([0.5, -0.25, 0.0]), pa.array([0.5, -0.25, -0.0], pa.float32())],
        [pa.array(PARTS).cast(kind) for kind in (pa.float64(), pa.decimal128(20, 2), pa.decimal128(20, 8))],
        [pa.array(["0.0000001", "3"]).cast(pa.decimal128(20, scale)) for scale in (7, 9)],
        [pa.array(DAYS), *(pa.array(DAYS).cast(pa.timestamp("s")).cast(kind) for kind in TIMES)],
    ],
)
def test_equal_keys_of_different_types_have_one_target(columns: list[pa.Array]) -> None:
    """A join would lose the pairs else."""
    targets = [key_buckets(pa.chunked_array([column]), 97).tolist() for column in columns]
    assert targets == [targets[0]] * len(columns)


@pytest.mark.parametrize("column", [pa.array([[1]]), pa.array([{"a": 1}]), pa.array([b"\xff"])])
def test_keys_that_are_no_text_are_told(column: pa.Array) -> None:
    table = pa.table({"ts": [1], "key": column})
    with pytest.raises(
        OperatorError, match=r"spread over the partitions of T by a column 'key' whose values"
    ):
        list(_parts(InputSpec(source="S"), OperatorSpec(name="T", kind="union"), range(2), table))
