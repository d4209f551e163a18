"""A specification that is written as YAML is read as what it was."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from domain.topology import TopologyError, dump_yaml, load_topology, load_yaml, specification_text
from host.environment import ROOT
from spark_jobs.operators.catalogue import catalogue

PIPELINES = ROOT / "spark_jobs" / "pipelines"

TEXTS = st.text(st.characters(exclude_categories=["Cs", "Cc"], include_characters="\n\t"), max_size=80)
VALUES: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**40), 2**40) | st.floats(-1e9, 1e9) | TEXTS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXTS.filter(bool), inner, max_size=4),
    max_leaves=12,
)


@given(st.dictionaries(TEXTS.filter(bool), VALUES, max_size=6))
def test_nothing_is_lost(specification: dict[str, Any]) -> None:
    assert load_yaml(dump_yaml(specification)) == specification


def test_fields_that_have_their_default_are_left_out() -> None:
    for path in PIPELINES.glob("*.yaml"):
        spec = load_topology(load_yaml(path.read_text(encoding="utf-8")), catalogue).spec
        text = specification_text(msgspec.json.decode(msgspec.json.encode(spec)))
        assert load_topology(load_yaml(text), catalogue).spec == spec
        for default in (
            "feedback: false",
            "correlated: false",
            "doubt",
            "{}",
            "[]",
            "inputs: []",
            "compact_s",
        ):
            assert default not in text


def test_it_looks_as_authors_write_it() -> None:
    specification = {
        "name": "t",
        "operators": [
            {"name": "S", "kind": "source", "params": {"rate": 10}},
            {"name": "Q", "kind": "sql", "inputs": [{"from": "S"}],
             "params": {"query": "SELECT key\nFROM input\n"}, "output": True},
        ],
    }  # fmt: skip
    assert dump_yaml(specification) == (
        "name: t\n"
        "operators:\n"
        "  - name: S\n"
        "    kind: source\n"
        "    params: {rate: 10}\n"
        "  - name: Q\n"
        "    kind: sql\n"
        "    inputs: [{from: S}]\n"
        "    params:\n"
        "      query: |\n"
        "        SELECT key\n"
        "        FROM input\n"
        "    output: true\n"
    )


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ("name: a\nname: b\n", "line 2, column 1"),
        ("operators:\n  - {name: S, kind: source, name: T}\n", "line 2, column 29"),
        (
            'operators:\n  - params: {"rate": 1}\n    output: true\n    params: {rate: 2}\n',
            "line 4, column 5",
        ),
    ],
)
def test_a_field_that_is_given_twice_is_refused(text: str, place: str) -> None:
    with pytest.raises(TopologyError) as refused:
        load_yaml(text)
    (problem,) = refused.value.problems
    assert problem.path == place
    assert "is given twice" in problem.message


def test_the_same_field_of_different_parts_is_none_that_is_given_twice() -> None:
    text = "a: {name: 1}\nb: [{name: 1}, {name: 2}]\nname: [name, name]\nc: &x {k: name}\nd: *x\n? [p]\n: 1\n"
    assert load_yaml(text.split("?")[0])["name"] == ["name", "name"]
