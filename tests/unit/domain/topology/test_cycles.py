"""Cycles: which operators are in one, which streams are proposed as back-edges, and what a query needs."""

from __future__ import annotations

import random

import msgspec
import rustworkx as rx
from hypothesis import given, settings
from hypothesis import strategies as st

from domain.topology import InputSpec, OperatorSpec, Topology, TopologySpec
from domain.topology.cycles import proposed_back_edges


def operator(name: str, inputs: str = "", parallelism: int = 1, *, output: bool = False) -> OperatorSpec:
    """inputs: names, small letters for one_to_one, a star after feedback streams."""
    streams = tuple(
        InputSpec(
            source=one.removesuffix("*").upper(),
            partitioning="one_to_one" if one[0].islower() else "full",
            feedback=one.endswith("*"),
        )
        for one in inputs.split()
    )
    return OperatorSpec(name=name, kind="k", parallelism=parallelism, inputs=streams, output=output)


def topology(*operators: OperatorSpec) -> Topology:
    return Topology(TopologySpec(name="t", operators=operators))


LOOP = topology(
    operator("S"),
    operator("D", "B", output=True),
    operator("B", "S A*", 2),
    operator("A", "B", 2, output=True),
    operator("E", "S", output=True),
)


def test_operators_of_a_cycle_follow_one_another() -> None:
    assert [one.operators for one in LOOP.components] == [("B", "A")]
    assert [one.name for one in LOOP.operators] == ["S", "E", "B", "A", "D"]
    assert LOOP.levels == {"S": 0, "B": 1, "E": 1, "A": 2, "D": 2}


def test_a_query_needs_whole_cycles() -> None:
    cycle = {"B[0]", "B[1]", "A[0]", "A[1]"}
    assert LOOP.query_partitions["D[0]"] == {"S[0]", "D[0]"} | cycle
    assert LOOP.query_partitions["A[1]"] == {"S[0]"} | cycle
    assert LOOP.query_partitions["E[0]"] == {"S[0]", "E[0]"}
    assert LOOP.sharing["A[0]"] == {"D[0]", "A[0]", "A[1]"}
    assert LOOP.failed_queries(["A[0]"]) == ["A[0]", "A[1]", "D[0]"]
    assert LOOP.cyclic == cycle | {"D[0]"}
    assert LOOP.exclusive_partitions({"A[0]", "A[1]", "D[0]"}) == cycle | {"D[0]"}


def test_loops_of_one_index_are_apart() -> None:
    graph = topology(operator("S", "", 2), operator("B", "s a*", 2), operator("A", "b", 2, output=True))
    assert [one.aligned for one in graph.components] == [True]
    assert graph.groups == [("S[0]",), ("S[1]",), ("B[0]", "A[0]"), ("B[1]", "A[1]")]
    assert graph.query_partitions["A[1]"] == {"S[1]", "B[1]", "A[1]"}
    assert graph.fed_back == {"A[0]": ["B[0]"], "A[1]": ["B[1]"]}
    assert graph.before("B[0]") == ["S[0]"]


def test_an_operator_may_feed_itself() -> None:
    graph = topology(operator("S"), operator("B", "S B*", 2, output=True))
    assert [one.operators for one in graph.components] == [("B",)]
    assert graph.query_partitions["B[0]"] == {"S[0]", "B[0]", "B[1]"}


def test_a_topology_without_feedback_streams_has_no_component() -> None:
    graph = topology(operator("S"), operator("A", "S", output=True))
    assert (graph.components, graph.cyclic, graph.fed_back) == ((), frozenset(), {})
    assert graph.groups == [("S[0]",), ("A[0]",)]


def test_proposed_back_edges_lead_to_where_input_comes_from() -> None:
    spec = topology(operator("A", "C"), operator("C", "B"), operator("B", "S A"), operator("S")).spec
    assert proposed_back_edges(spec) == [(2, 1, ("B", "C", "A"))]


@settings(max_examples=200, deadline=None)
@given(st.integers(0, 2**32))
def test_marking_what_is_proposed_leaves_no_cycle(seed: int) -> None:
    """And a query needs what it can be reached from, cycles included."""
    rng = random.Random(seed)
    names = "ABCDEFG"[: rng.randint(1, 7)]
    chosen = {name: rng.sample(names, rng.randint(0, min(2, len(names)))) for name in names}
    operators = [operator(name, " ".join(chosen[name]), output=True) for name in names]
    spec = TopologySpec(name="t", operators=tuple(operators))
    marked = {(index, at) for index, at, _ in proposed_back_edges(spec)}
    for index, one in enumerate(operators):
        streams = [
            msgspec.structs.replace(stream, feedback=(index, at) in marked)
            for at, stream in enumerate(one.inputs)
        ]
        operators[index] = msgspec.structs.replace(one, inputs=tuple(streams))
    graph = topology(*operators)
    whole: rx.PyDiGraph = rx.PyDiGraph()
    whole.add_nodes_from(names)
    whole.add_edges_from(
        [(names.index(source), names.index(name), None) for name in names for source in chosen[name]]
    )
    assert bool(marked) == (not rx.is_directed_acyclic_graph(whole))
    for index, name in enumerate(names):
        needed = {f"{names[at]}[0]" for at in rx.ancestors(whole, index)} | {f"{name}[0]"}
        assert graph.query_partitions[f"{name}[0]"] == needed
    positions = {one.name: at for at, one in enumerate(graph.operators)}
    for one in graph.operators:
        for stream in one.inputs:
            assert stream.feedback or positions[stream.source] < positions[one.name]
