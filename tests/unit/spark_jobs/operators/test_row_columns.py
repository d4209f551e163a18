"""The columns that are said of each kind are those that the operator gives."""

from __future__ import annotations

from typing import Any

import msgspec
import pyarrow as pa
import pytest

from domain.topology.spec import OperatorSpec, TopologySpec, spec_decoder
from spark_jobs.operators.base import EpochContext
from spark_jobs.operators.catalogue import catalogue
from spark_jobs.operators.row_columns import columns_known
from spark_jobs.sources.registry import reader_create
from spark_jobs.state.tables import StateTables

SECOND = 1_000_000
TIMES = {"ts", "window_start", "window_end", "left_ts", "right_ts", "at"}
ROWS = pa.table({"ts": pa.array([1, SECOND]), "text": ["#a b", "#a #c"]})
KEYED = pa.table({"ts": pa.array([1, SECOND]), "key": ["a", "c"]})


def given(operator: OperatorSpec, rows: pa.Table) -> dict[str, str]:
    """Names and types of what the operator emits by the end of its input."""
    made = catalogue.create(operator.kind, operator.params, [one.source for one in operator.inputs])
    inputs = {one.source: [rows] for one in operator.inputs}
    context = EpochContext(epoch=1, watermark=0, previous_watermark=0)
    state = StateTables({}, {}, {})
    table = made.process(context, inputs, state)
    if table is None or not table.num_rows:
        last = EpochContext(epoch=2, watermark=2 * SECOND, previous_watermark=0, final=True)
        table = made.process(last, {}, state)
    assert table is not None
    kinds = {name: table.schema.field(name).type for name in table.column_names}
    return {
        name: "time" if name in TIMES else "text" if pa.types.is_string(kind) else "number"
        for name, kind in kinds.items()
    }


def said(spec: TopologySpec, operator: str) -> dict[str, str]:
    return {column.name: column.type for column in columns_known(spec)[operator].columns}


def spec_with(*operators: dict[str, Any]) -> TopologySpec:
    source = {"name": "Source", "kind": "source"}
    keyed = {
        "name": "Keyed",
        "kind": "flat_map_regex",
        "inputs": [{"from": "Source"}],
        "params": {"pattern": "#(a)"},
    }
    return spec_decoder.decode(msgspec.json.encode({"name": "t", "operators": [source, keyed, *operators]}))


@pytest.mark.parametrize(
    ("kind", "params", "source"),
    [
        ("flat_map_regex", {"pattern": "#(a)"}, "Source"),
        ("filter", {"column": "key", "comparison": "==", "value": "a"}, "Keyed"),
        ("project", {"columns": {"at": "ts", "word": "key"}}, "Keyed"),
        ("project", {"columns": ["key"]}, "Keyed"),
        ("sliding_window", {"size_s": 1}, "Keyed"),
        ("tumbling_window", {"size_s": 1}, "Keyed"),
        ("window_average", {"size_s": 1, "value": "ts"}, "Keyed"),
        ("distinct", {}, "Keyed"),
        ("union", {}, "Keyed"),
    ],
)
def test_of_every_kind(kind: str, params: dict[str, Any], source: str) -> None:
    spec = spec_with({"name": "O", "kind": kind, "inputs": [{"from": source}], "params": params})
    rows = ROWS if source == "Source" else KEYED
    assert said(spec, "O") == given(spec.operators[-1], rows)


def test_of_operators_behind_windows() -> None:
    window = {"name": "W", "kind": "tumbling_window", "inputs": [{"from": "Keyed"}], "params": {"size_s": 1}}
    for kind in ("latest", "top_k"):
        spec = spec_with(window, {"name": "O", "kind": kind, "inputs": [{"from": "W"}]})
        rows = pa.table(
            {"window_start": pa.array([0]), "window_end": pa.array([1]), "key": ["a"], "count": pa.array([3])}
        )
        assert said(spec, "O") == given(spec.operators[-1], rows)


def test_of_a_join() -> None:
    other = {
        "name": "Other",
        "kind": "flat_map_regex",
        "inputs": [{"from": "Source"}],
        "params": {"pattern": "@(a)"},
    }
    join = {
        "name": "O",
        "kind": "windowed_join",
        "inputs": [{"from": "Keyed"}, {"from": "Other"}],
        "params": {"size_s": 1},
    }
    spec = spec_with(other, join)
    assert said(spec, "O") == given(spec.operators[-1], KEYED)


def test_of_a_join_of_windows() -> None:
    windows = [
        {"name": name, "kind": "tumbling_window", "inputs": [{"from": "Keyed"}], "params": {"size_s": 1}}
        for name in ("L", "R")
    ]
    join = {"name": "O", "kind": "windowed_join", "inputs": [{"from": "L"}, {"from": "R"}], "params": {}}
    spec = spec_with(*windows, join)
    rows = pa.table(
        {"window_start": pa.array([0]), "window_end": pa.array([1]), "key": ["a"], "count": pa.array([3])}
    )
    assert said(spec, "O") == given(spec.operators[-1], rows)


@pytest.mark.parametrize("stream", ["locations", "incidents"])
def test_of_a_source_of_traffic(stream: str) -> None:
    params = {"reader": "traffic", "stream": stream, "users": 10}
    spec = spec_with({"name": "T", "kind": "source", "params": params})
    reader: Any = reader_create(params, {"origin_us": 0})
    (part,) = reader.partitions({"tuple": 0}, {"tuple": 2})
    (batch,) = reader.read(part)
    kinds = {"ts": "time", "key": "text"}
    assert said(spec, "T") == {name: kinds.get(name, "number") for name in batch.schema.names}


def test_what_code_gives_is_not_said() -> None:
    sql = {"name": "S", "kind": "sql", "inputs": [{"from": "Keyed"}], "params": {"query": "SELECT 1"}}
    behind = {"name": "O", "kind": "filter", "inputs": [{"from": "S"}]}
    chosen = {"name": "P", "kind": "project", "inputs": [{"from": "S"}], "params": {"columns": ["x"]}}
    own = {"name": "R", "kind": "source", "params": {"reader": "a.B"}}
    known = columns_known(spec_with(sql, behind, chosen, own))
    assert {known[name].origin for name in ("S", "O", "R")} == {"unknown"}
    assert known["S"].note.startswith("Its query decides")
    assert known["R"].note.startswith("Its reader")
    assert [(column.name, column.type) for column in known["P"].columns] == [("x", "")]


def test_every_kind_has_an_entry() -> None:
    for kind in catalogue.kinds():
        inputs = [] if kind == "source" else [{"from": "Keyed"}, {"from": "Source"}]
        params = {"columns": ["key"]} if kind == "project" else {}
        spec = spec_with({"name": "O", "kind": kind, "inputs": inputs, "params": params})
        known = columns_known(spec)["O"]
        assert known.columns or kind in known.note or "rows" in known.note
        assert bool(known.columns) == (known.origin != "unknown")
