"""Rows of a graph that are incomplete."""

from __future__ import annotations

import pyarrow as pa

from spark_jobs.operators.base import EpochContext
from spark_jobs.operators.graph import EDGES, LABELS, Components, Least
from spark_jobs.state.tables import StateTables

CONTEXT = EpochContext(1, 0, 0, final=True)


def test_edges_that_lack_a_node_are_none() -> None:
    edges = pa.table([["b", None, "c", None], ["a", "b", None, None]], schema=EDGES)
    state = StateTables({}, {}, {})
    sent = Components({}, ["Edges"]).process(CONTEXT, {"Edges": [edges]}, state)
    assert sent is not None
    assert sorted(tuple(row.values()) for row in sent.to_pylist()) == [("a", "b", "a"), ("b", "b", "a")]
    assert state.table("edges").read() == pa.table([["b"], ["a"]], schema=EDGES)


def test_rows_without_a_key_or_a_label_do_not_count() -> None:
    labels = pa.table([["b", "b", None, "c"], ["b", "a", "a", None]], schema=LABELS)
    given = Least({}, ["Labels"]).process(CONTEXT, {"Labels": [labels]}, StateTables({}, {}, {}))
    assert given == pa.table([["b"], ["a"]], schema=LABELS)
