"""Messages of the exchange: what is large is compressed, and nothing is lost."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from domain.topology import InputSpec, OperatorSpec, Topology, TopologySpec
from spark_jobs.executor.exchange import EMPTY, LARGE, decode_table, encode_table, route
from spark_jobs.operators.problems import OperatorError
from spark_jobs.operators.sets import Union


def words(rows: int) -> pa.Table:
    return pa.table(
        {"pane": pa.array([0] * rows, pa.int64()), "key": [f"word {i % 997}" for i in range(rows)]}
    )


@pytest.mark.parametrize("compressed", [False, True])
@pytest.mark.parametrize("rows", [1, 100, 5_000, 50_000])
def test_rows_come_back_as_they_were(rows: int, *, compressed: bool) -> None:
    table = words(rows)
    assert decode_table(encode_table(table, compressed=compressed)) == table


def test_nothing_is_an_empty_message() -> None:
    assert encode_table(None) == encode_table(words(0)) == EMPTY
    assert decode_table(EMPTY) is None


def test_what_is_large_takes_less_compressed() -> None:
    table = words(50_000)
    assert table.nbytes > LARGE
    assert (
        len(encode_table(table, compressed=True)) < table.nbytes / 3 < table.nbytes < len(encode_table(table))
    )


@pytest.mark.parametrize("kind", ["small", "random"])
def test_what_cannot_be_made_less_takes_little_more(kind: str) -> None:
    rows = 100 if kind == "small" else 50_000
    table = pa.table({"value": np.random.default_rng(1).random(rows)})
    assert decode_table(encode_table(table, compressed=True)) == table
    assert len(encode_table(table, compressed=True)) < 1.02 * table.nbytes + 1_000


def test_a_column_that_rows_should_be_spread_by_and_lack_is_told() -> None:
    operators = (
        OperatorSpec(name="S", kind="source"),
        OperatorSpec(name="Q", kind="sql", inputs=(InputSpec(source="S"),), params={"query": "SELECT 1"}),
        OperatorSpec(name="C", kind="union", parallelism=2, inputs=(InputSpec(source="Q", key="user"),)),
    )
    topology = Topology(TopologySpec(name="t", operators=operators))
    with pytest.raises(
        OperatorError, match=r"rows of Q are spread .* of C by a column 'user', but they have pane"
    ):
        route(topology, "Q[0]", words(3), {"C": Union({}, ["Q"])})


@pytest.mark.parametrize("index", [0, 1])
def test_subscribers_over_which_rows_are_spread_in_other_ways_get_their_own(index: int) -> None:
    """A split stream and a full one to as many partitions, by the same key."""
    full, split = InputSpec(source="S"), InputSpec(source="S", partitioning="split")
    operators = (
        OperatorSpec(name="S", kind="source", parallelism=2),
        *(
            OperatorSpec(name=name, kind="union", parallelism=4, inputs=(stream,))
            for name, stream in (("F", full), ("P", split), ("G", full))
        ),
    )
    topology = Topology(TopologySpec(name="t", operators=operators))
    routed = route(topology, f"S[{index}]", words(500), {name: Union({}, ["S"]) for name in "FPG"})
    given = {target: table for targets, table in routed for target in targets}
    expected = {"F": range(4), "P": range(2 * index, 2 * index + 2), "G": range(4)}
    for name, reached in expected.items():
        tables = [given[f"{name}[{position}]"] for position in reached]
        found = pa.concat_tables([table for table in tables if table is not None])
        assert sorted(found.column("key").to_pylist()) == sorted(words(500).column("key").to_pylist())
    assert len(given) == 10
    assert len(routed) == 6, "what is the same is sent once"
