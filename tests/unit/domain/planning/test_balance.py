"""Moves that even out the nodes."""

from __future__ import annotations

import random
from collections.abc import Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st

from domain.planning import NodeSpace, balancing_moves
from domain.topology import Topology
from domain.topology.spec import InputSpec, OperatorSpec, Partitioning, TopologySpec

BOUND = 0.8


def topology(width: int = 4, depth: int = 3, *, chained: bool = False) -> Topology:
    """Operators in a row; the first two chained one to one if asked for."""
    operators = []
    for level in range(depth):
        how: Partitioning = "one_to_one" if chained and level == 1 else "full"
        inputs = (InputSpec(source=f"o{level - 1}", partitioning=how),) if level else ()
        last = level == depth - 1
        operators.append(
            OperatorSpec(name=f"o{level}", kind="k", parallelism=width, inputs=inputs, output=last)
        )
    return Topology(TopologySpec(name="t", operators=tuple(operators)))


def nodes(count: int, load: float = 5.0) -> list[NodeSpace]:
    return [NodeSpace(name=f"node-{i + 1}", capacity=100.0, load=load) for i in range(count)]


def loads(
    assignment: Mapping[str, str], costs: Mapping[str, float], spaces: list[NodeSpace]
) -> dict[str, float]:
    load = {node.name: node.load for node in spaces}
    for partition, node in assignment.items():
        load[node] += costs[partition]
    return load


def busiest_of_levels(assignment: Mapping[str, str], costs: Mapping[str, float]) -> float:
    """How long an epoch takes, as the sum of the busiest nodes of its stages."""
    stages: dict[tuple[str, str], float] = {}
    for partition, node in assignment.items():
        stage = partition.partition("[")[0], node
        stages[stage] = stages.get(stage, 0.0) + costs[partition]
    return sum(max(v for (level, _), v in stages.items() if level == one) for one in {s for s, _ in stages})


def test_a_node_that_arrives_takes_its_share() -> None:
    graph, spaces = topology(), nodes(3)
    assignment = {p: f"node-{1 + i % 2}" for i, p in enumerate(graph.partitions)}
    costs = dict.fromkeys(graph.partitions, 10.0)
    moves = balancing_moves(graph, assignment, spaces, costs)
    assert set(moves.values()) == {"node-3"}
    after = {**assignment, **moves}
    assert loads(after, costs, spaces) == {"node-1": 45.0, "node-2": 45.0, "node-3": 45.0}
    assert balancing_moves(graph, after, spaces, costs) == {}, "nothing is left to gain"


def test_levels_count_and_not_only_sums() -> None:
    """Both nodes have the same load, but each works alone in its level."""
    graph, spaces = topology(width=2, depth=2), nodes(2)
    assignment = {"o0[0]": "node-1", "o0[1]": "node-1", "o1[0]": "node-2", "o1[1]": "node-2"}
    costs = dict.fromkeys(graph.partitions, 20.0)
    after = {**assignment, **balancing_moves(graph, assignment, spaces, costs)}
    assert busiest_of_levels(assignment, costs) == 80.0
    assert busiest_of_levels(after, costs) == 40.0


def test_a_chain_moves_as_a_whole() -> None:
    graph, spaces = topology(width=4, depth=2, chained=True), nodes(2)
    assignment = dict.fromkeys(graph.partitions, "node-1")
    costs = dict.fromkeys(graph.partitions, 8.0)
    after = {**assignment, **balancing_moves(graph, assignment, spaces, costs)}
    assert all(after[f"o0[{i}]"] == after[f"o1[{i}]"] for i in range(4)), after
    assert loads(after, costs, spaces) == {"node-1": 37.0, "node-2": 37.0}


def test_a_large_node_takes_more() -> None:
    graph = topology(width=9, depth=1)
    spaces = [NodeSpace(name="small", capacity=100.0), NodeSpace(name="large", capacity=200.0)]
    assignment = dict.fromkeys(graph.partitions, "small")
    costs = dict.fromkeys(graph.partitions, 8.0)
    after = {**assignment, **balancing_moves(graph, assignment, spaces, costs)}
    assert sorted(after.values()).count("large") == 6


def test_no_node_is_brought_above_its_bound() -> None:
    graph = topology(width=4, depth=1)
    spaces = [NodeSpace(name="full", capacity=100.0, load=75.0), NodeSpace(name="busy", capacity=100.0)]
    assignment = dict.fromkeys(graph.partitions, "busy")
    costs = dict.fromkeys(graph.partitions, 10.0)
    assert balancing_moves(graph, assignment, spaces, costs, max_utilisation=BOUND) == {}


@pytest.mark.parametrize("spaces", [[], nodes(1)])
def test_there_is_nowhere_to_go(spaces: list[NodeSpace]) -> None:
    graph = topology()
    assignment = dict.fromkeys(graph.partitions, "node-1")
    assert balancing_moves(graph, assignment, spaces, dict.fromkeys(graph.partitions, 5.0)) == {}


def test_a_standby_takes_nothing_and_what_is_elsewhere_stays() -> None:
    graph = topology()
    spaces = [*nodes(1), NodeSpace(name="standby", capacity=100.0, standby=True)]
    assignment = dict.fromkeys(graph.partitions, "node-1") | {"o0[0]": "lost"}
    assert balancing_moves(graph, assignment, spaces, dict.fromkeys(graph.partitions, 5.0)) == {}


@given(st.integers(0, 2**32))
def test_moves_never_make_it_worse_and_come_to_an_end(seed: int) -> None:
    rng = random.Random(seed)
    graph = topology(rng.randint(1, 6), rng.randint(1, 4), chained=rng.random() < 0.5)
    spaces = [
        NodeSpace(name=f"node-{i}", capacity=rng.choice([50.0, 100.0, 200.0]), load=rng.uniform(0, 20))
        for i in range(rng.randint(2, 6))
    ]
    assignment = {p: rng.choice(spaces).name for p in graph.partitions}
    costs = {p: rng.uniform(0.1, 15.0) for p in graph.partitions}
    capacity = {node.name: node.capacity for node in spaces}
    for _ in range(40):
        moves = balancing_moves(graph, assignment, spaces, costs, max_utilisation=BOUND)
        if not moves:
            break
        before, after = loads(assignment, costs, spaces), loads(assignment | moves, costs, spaces)
        for node in capacity:
            # A node above its bound may stay above it, and gets nothing more.
            assert after[node] <= max(before[node], capacity[node] * BOUND) + 1e-6
        assert all(assignment[p] != node for p, node in moves.items())
        assignment |= moves
    else:
        raise AssertionError("moves go on for ever")


def test_only_what_may_move_does() -> None:
    graph, spaces = topology(), nodes(3)
    assignment = {p: f"node-{1 + i % 2}" for i, p in enumerate(graph.partitions)}
    costs = dict.fromkeys(graph.partitions, 10.0)
    movable = {"o0[0]", "o0[1]", "o1[0]"}
    moves = balancing_moves(graph, assignment, spaces, costs, movable=movable, worthwhile=0.0)
    assert moves
    assert moves.keys() <= movable


def test_a_chain_stays_unless_all_of_it_may_move() -> None:
    graph, spaces = topology(chained=True), nodes(3)
    assignment = {p: f"node-{1 + int(p[-2]) % 2}" for p in graph.partitions}
    costs = dict.fromkeys(graph.partitions, 10.0)
    for movable in ({"o0[0]"}, {"o1[1]", "o0[0]"}):
        assert not balancing_moves(graph, assignment, spaces, costs, movable=movable, worthwhile=0.0)


def test_partitions_change_places_where_no_node_has_room_for_one_more() -> None:
    """Each node has all of a level, and both are planned to their bound."""
    graph, spaces = topology(width=2, depth=2), nodes(2, load=0.0)
    assignment = {"o0[0]": "node-1", "o0[1]": "node-1", "o1[0]": "node-2", "o1[1]": "node-2"}
    costs = dict.fromkeys(graph.partitions, 40.0)
    moves = balancing_moves(graph, assignment, spaces, costs, max_utilisation=BOUND)
    after = {**assignment, **moves}
    assert len(moves) == 2
    assert busiest_of_levels(after, costs) == 80.0
    assert loads(after, costs, spaces) == {"node-1": 80.0, "node-2": 80.0}


def test_a_swap_may_not_bring_a_node_above_its_bound() -> None:
    graph, spaces = topology(width=2, depth=2), nodes(2, load=0.0)
    assignment = {"o0[0]": "node-1", "o0[1]": "node-1", "o1[0]": "node-2", "o1[1]": "node-2"}
    costs = {"o0[0]": 45.0, "o0[1]": 45.0, "o1[0]": 35.0, "o1[1]": 35.0}
    assert busiest_of_levels(assignment, costs) == 160.0
    assert not balancing_moves(graph, assignment, nodes(2, load=10.0), costs, max_utilisation=0.8)
    after = {**assignment, **balancing_moves(graph, assignment, spaces, costs, max_utilisation=0.9)}
    assert max(loads(after, costs, spaces).values()) <= 90.0
    assert busiest_of_levels(after, costs) == 80.0


@given(seed=st.integers(0, 10_000))
def test_no_move_or_swap_brings_a_node_above_its_bound(seed: int) -> None:
    rng = random.Random(seed)
    graph = topology(width=rng.randint(2, 5), depth=rng.randint(2, 4), chained=rng.random() < 0.5)
    spaces = nodes(rng.randint(2, 4), load=0.0)
    costs = {p: rng.uniform(1, 40) for p in graph.partitions}
    assignment = {p: rng.choice(spaces).name for p in graph.partitions}
    before = loads(assignment, costs, spaces)
    after = {**assignment, **balancing_moves(graph, assignment, spaces, costs, max_utilisation=BOUND)}
    for node, load in loads(after, costs, spaces).items():
        assert load <= max(BOUND * 100.0, before[node]) + 1e-6
