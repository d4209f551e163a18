"""Moves after which the loss of a rack takes down less, and what they may cost."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from domain.planning import balancing_moves, initial_placement
from domain.planning.balance import FEW, _standing, placed_by_racks
from domain.planning.placement import NodeSpace
from domain.planning.racks import RackTerms, mean_loss, rack_losses
from domain.topology import Topology
from tests.unit.domain.planning.pipelines import pipelines, racked, scattered, spaces_of, spread

BOUND = 0.8


def looked(
    graph: Topology,
    assignment: dict[str, str],
    spaces: list[NodeSpace],
    costs: dict[str, float],
    terms: RackTerms | None,
) -> dict[str, str]:
    """The placement after looks have found all that they find."""
    for _ in range(60):
        moves = balancing_moves(graph, assignment, spaces, costs, max_utilisation=BOUND, racks=terms)
        if not moves:
            return assignment
        assignment = assignment | moves
    raise AssertionError("moves go on for ever")


def loads(assignment: dict[str, str], costs: dict[str, float], spaces: list[NodeSpace]) -> dict[str, float]:
    load = {node.name: node.load for node in spaces}
    for partition, node in assignment.items():
        load[node] += costs[partition]
    return load


def test_queries_come_to_one_rack_each_while_the_load_stays_even() -> None:
    graph, spaces = pipelines(8, 4), spaces_of(4)
    costs = dict.fromkeys(graph.partitions, 3.0)
    terms = racked(spaces, 2)
    before = spread(graph, spaces)
    after = looked(graph, before, spaces, costs, terms)
    losses = rack_losses(graph, before, terms.of), rack_losses(graph, after, terms.of)
    assert [mean_loss(one) for one in losses] == [1.0, pytest.approx(0.5, abs=0.1)]
    assert [sum(one.everything for one in each) for each in losses] == [2, 0]
    assert max(loads(after, costs, spaces).values()) <= 1.2 * max(loads(before, costs, spaces).values())
    assert looked(graph, before, spaces, costs, None) == before, "without racks nothing is to be gained"


def test_queries_in_one_rack_are_divided_among_two() -> None:
    """Each is in one rack, so the expected loss is the same; but then no rack takes down everything."""
    graph, spaces = pipelines(4, 1), spaces_of(4)
    terms = racked(spaces, 2)
    assignment = {p: spaces[2 * (i % 2)].name for i, p in enumerate(graph.partitions)}
    after = looked(graph, assignment, spaces, dict.fromkeys(graph.partitions, 0.5), terms)
    assert [one.everything for one in rack_losses(graph, assignment, terms.of)] == [True, False]
    assert not any(one.everything for one in rack_losses(graph, after, terms.of))


def test_what_would_make_epochs_much_longer_stays() -> None:
    """All queries need all sources; in one rack these would take twice as long."""
    graph, spaces = pipelines(1, 4), spaces_of(4)
    costs = dict.fromkeys(graph.partitions, 1.0) | {f"S0[{i}]": 30.0 for i in range(4)}
    assignment = {f"S0[{i}]": f"node-{i + 1}" for i in range(4)} | {"O0[0]": "node-1"}
    assert looked(graph, assignment, spaces, costs, racked(spaces, 2)) == assignment
    cheap = dict.fromkeys(graph.partitions, 0.2) | {"O0[0]": 30.0}
    terms = racked(spaces, 2)
    after = looked(graph, assignment, spaces, cheap, terms)
    assert mean_loss(rack_losses(graph, after, terms.of)) == 0.5, "unless they take little of an epoch"


def test_a_load_move_stays_in_its_rack_if_that_is_as_good() -> None:
    graph, spaces = pipelines(2, 4), spaces_of(4)
    costs = dict.fromkeys(graph.partitions, 5.0)
    terms = racked(spaces, 2)
    assignment = {p: "node-1" if p[1] == "0" else "node-2" for p in graph.partitions}
    after = looked(graph, assignment, spaces, costs, terms)
    assert {after[p] for p in graph.partitions if p[1] == "0"} == {"node-1", "node-3"}
    assert {after[p] for p in graph.partitions if p[1] == "1"} == {"node-2", "node-4"}


@pytest.mark.parametrize("of", [{}, {f"node-{i}": "r1" for i in range(1, 5)}])
def test_racks_that_say_nothing_change_nothing(of: dict[str, str]) -> None:
    graph, spaces = pipelines(4, 4), spaces_of(4)
    costs = {p: 1.0 + i % 3 for i, p in enumerate(graph.partitions)}
    assignment = dict.fromkeys(graph.partitions, "node-1")
    terms = RackTerms(of=of, priorities={})
    with_racks = balancing_moves(graph, assignment, spaces, costs, racks=terms)
    assert with_racks == balancing_moves(graph, assignment, spaces, costs)


def test_one_plan_moves_only_so_many() -> None:
    graph, spaces = pipelines(10, 4), spaces_of(4)
    costs = dict.fromkeys(graph.partitions, 2.0)
    before = spread(graph, spaces)
    usual = balancing_moves(graph, before, spaces, costs, racks=racked(spaces, 2))
    assert 0 < len(usual) <= FEW + len(graph.partitions) // 10
    assert 0 < len(balancing_moves(graph, before, spaces, costs, racks=racked(spaces, 2), most=6)) <= 6


def test_a_first_placement_counts_racks() -> None:
    graph, spaces = pipelines(8, 4), spaces_of(4)
    terms = racked(spaces, 2)
    placed = initial_placement(graph, spaces)
    better = placed_by_racks(graph, placed, spaces, {}, terms)
    assert mean_loss(rack_losses(graph, placed.assignment, terms.of)) == 1.0
    assert mean_loss(rack_losses(graph, better.assignment, terms.of)) == 0.5
    assert better.assignment.keys() == placed.assignment.keys() == better.placed.keys()
    assert sum(better.load.values()) == pytest.approx(sum(placed.load.values()))
    assert max(better.load.values()) <= 1.3 * max(placed.load.values())


@pytest.mark.parametrize("count", [0, 1])
def test_a_first_placement_without_a_choice_stays(count: int) -> None:
    graph, spaces = pipelines(2, 2), spaces_of(count)
    placed = initial_placement(graph, spaces)
    assert placed_by_racks(graph, placed, spaces, {}, racked(spaces, 1)) is placed


@given(st.integers(0, 2**32))
def test_every_plan_lowers_the_objective_within_the_bounds(seed: int) -> None:
    """Cost, a look's moves, load of each node, and time in all, until looks find nothing more."""
    rng = random.Random(seed)
    graph = pipelines(rng.randint(1, 8), rng.choice([1, 2, 4]), shared=rng.random() < 0.3)
    spaces = [
        NodeSpace(name=f"node-{i + 1}", capacity=rng.choice([50.0, 100.0]), load=rng.uniform(0, 10))
        for i in range(rng.randint(2, 6))
    ]
    terms = racked(spaces, rng.randint(1, len(spaces)), price=rng.choice([0.05, 0.1, 0.5]))
    assignment = scattered(graph, spaces, rng)
    costs = {p: rng.uniform(0.1, 6.0) for p in graph.partitions}
    limit = {node.name: node.capacity * BOUND for node in spaces}
    first = _standing(graph, assignment, spaces, costs, BOUND, terms)
    last = first.cost()
    for _ in range(60):
        moves = balancing_moves(graph, assignment, spaces, costs, max_utilisation=BOUND, racks=terms, most=12)
        if not moves:
            break
        before, after = loads(assignment, costs, spaces), loads(assignment | moves, costs, spaces)
        assert len(moves) <= 12
        assert all(assignment[p] != node for p, node in moves.items())
        for node in limit:
            # A node above its bound may stay above it, and gets nothing more.
            assert after[node] <= max(before[node], limit[node]) + 1e-6
        assignment |= moves
        now = _standing(graph, assignment, spaces, costs, BOUND, terms)
        assert now.cost() < last * (1 - 1e-7)
        assert now.time.cost() <= first.time.cost() * (1 + terms.price) + 1e-9
        last = now.cost()
    else:
        raise AssertionError("moves go on for ever")
