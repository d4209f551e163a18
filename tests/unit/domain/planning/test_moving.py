"""Moves of what runs: only what may move, only where it pays, and never above a bound."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest

from domain.planning import (
    AdaptiveDensity,
    Arrival,
    BestDensity,
    LookAhead,
    NodeSpace,
    OperatorCentric,
    Optimal,
    Planner,
    RecoveryPlanProposal,
    RecoveryProblem,
    problem_from_sets,
    recovery_problem,
)
from domain.simulation.generator import TopologyRecipe, generate_topology
from domain.topology import InputSpec, OperatorSpec, Topology, TopologySpec
from tests.unit.domain.planning.problems import with_nodes

COSTS = {"S[0]": 30.0, "T[0]": 10.0, "A[0]": 60.0, "B[0]": 20.0}
NODES = (NodeSpace(name="n1"), NodeSpace(name="n2", load=45.0))


def graph() -> Topology:
    """S and T run on n1, which leaves 40 free; n2 has 35. A (priority 5) needs 60."""
    return Topology(
        TopologySpec(
            name="moving",
            operators=(
                OperatorSpec(name="S", kind="source", output=True),
                OperatorSpec(name="T", kind="source", output=True),
                OperatorSpec(name="A", kind="map", inputs=(InputSpec(source="S"),), output=True, priority=5),
                OperatorSpec(name="B", kind="map", inputs=(InputSpec(source="T"),), output=True),
            ),
        )
    )


def problem(movable: dict[str, float] | None = None, failed: tuple[str, ...] = ("A[0]",)) -> RecoveryProblem:
    return recovery_problem(
        graph(),
        failed=failed,
        costs=COSTS,
        nodes=NODES,
        assigned={name: "n1" for name in COSTS if name not in failed},
        movable=movable,
    )


def test_nothing_moves_unless_it_may() -> None:
    proposal = BestDensity().plan(problem(failed=("A[0]", "B[0]")))
    assert (proposal.queries, proposal.moves, proposal.move_price) == (("B[0]",), {}, 0.0)


@pytest.mark.parametrize("planner", [BestDensity(), AdaptiveDensity(), LookAhead([Arrival(5.0, 10.0)])])
def test_what_runs_makes_room_for_a_query_worth_more(planner: Planner) -> None:
    """Without S there is room for A on n1, and for S on n2. That leaves none for B, which is worth less."""
    proposal = planner.plan(problem({"S[0]": 2.0, "T[0]": 1.0}, failed=("A[0]", "B[0]")))
    assert proposal.queries == ("A[0]",)
    assert proposal.moves == {"S[0]": "n2"}
    assert proposal.move_price == 2.0
    assert proposal.placement is not None
    assert proposal.placement.assignment["S[0]"] == "n2"
    assert "S[0]" not in proposal.placement.placed
    assert proposal.placement.load["n1"] <= 80.0
    assert proposal.note.endswith("room is made by moving S[0], for 2 points")


@pytest.mark.parametrize("price", [5.0, 6.0])
def test_a_move_that_costs_as_much_as_the_query_is_worth_is_not_made(price: float) -> None:
    proposal = BestDensity().plan(problem({"S[0]": price}))
    assert (proposal.queries, proposal.moves) == ((), {})


def test_two_moves_are_made_where_one_is_not_enough() -> None:
    """A needs 60; 25 are free on n1. Without one of S and T there are 45, without both 65."""
    nodes = (NodeSpace(name="n1", load=5.0), NodeSpace(name="n2", load=40.0))
    costs = {"S[0]": 20.0, "T[0]": 20.0, "A[0]": 70.0, "B[0]": 5.0}
    both = recovery_problem(
        graph(),
        failed=["A[0]"],
        costs=costs,
        nodes=nodes,
        assigned={"S[0]": "n1", "T[0]": "n1"},
        movable={"S[0]": 2.0, "T[0]": 2.5},
    )
    proposal = BestDensity().plan(both)
    assert proposal.moves == {"S[0]": "n2", "T[0]": "n2"}
    assert (proposal.value, proposal.move_price) == (5, 4.5)


@pytest.mark.parametrize(
    ("movable", "moves"),
    [
        ({"S[0]": 1.0, "M[0]": 1.5}, {"S[0]": "n2", "M[0]": "n2"}),
        ({"S[0]": 1.0}, {}),
        ({"S[0]": 3.0, "M[0]": 2.0}, {}),
    ],
)
def test_what_runs_of_a_chain_on_one_node_moves_as_one(
    movable: dict[str, float], moves: dict[str, str]
) -> None:
    """Without S there would be room for A on n1, but M works through all that S reads. A is worth 5."""
    one_to_one = InputSpec(source="S", partitioning="one_to_one")
    chained = Topology(
        TopologySpec(
            name="chained",
            operators=(
                OperatorSpec(name="S", kind="source"),
                OperatorSpec(name="M", kind="map", inputs=(one_to_one,), output=True),
                OperatorSpec(name="T", kind="source"),
                OperatorSpec(name="A", kind="map", inputs=(InputSpec(source="T"),), output=True, priority=5),
            ),
        )
    )
    given = recovery_problem(
        chained,
        failed=["A[0]"],
        costs={"S[0]": 20.0, "M[0]": 10.0, "T[0]": 5.0, "A[0]": 60.0},
        nodes=NODES,
        assigned={"S[0]": "n1", "M[0]": "n1", "T[0]": "n2"},
        movable=movable,
    )
    proposal = BestDensity().plan(given)
    assert proposal.moves == moves
    assert proposal.move_price == (2.5 if moves else 0.0)


def test_planners_that_prove_or_compare_move_nothing() -> None:
    for planner in (Optimal(), OperatorCentric()):
        assert planner.plan(problem({"S[0]": 1.0})).moves == {}


def test_look_ahead_counts_moves_too() -> None:
    """A and B are worth the same, and A leads to C with the next node; a move makes room for D beside B."""
    costs = {"X[0]": 60.0, "Y[0]": 50.0, "Z[0]": 70.0, "D[0]": 30.0}
    queries = {"A[0]": {"X[0]"}, "B[0]": {"Y[0]"}, "C[0]": {"X[0]", "Z[0]"}, "D[0]": {"D[0]"}}
    priorities = {"A[0]": 4, "B[0]": 4, "C[0]": 9, "D[0]": 2}
    still = with_nodes(
        problem_from_sets(queries, costs=costs, capacity=0.0, priorities=priorities), costs, [70, 10]
    )
    nodes = (replace(still.nodes[0], load=0.0), still.nodes[1])
    running = replace(still, nodes=nodes, assigned={"R[0]": "n0"}, placed_costs={**costs, "R[0]": 10.0})
    planner = LookAhead([Arrival(10.0, 80.0)], horizon=100.0)
    assert planner.plan(running).queries == ("A[0]",)
    movable = replace(running, movable={"R[0]": 1.0})
    for each in (planner, BestDensity()):
        proposal = each.plan(movable)
        assert (set(proposal.queries), proposal.moves) == ({"B[0]", "D[0]"}, {"R[0]": "n1"})


def test_what_does_not_run_cannot_be_moved() -> None:
    with pytest.raises(ValueError, match=r"A\[0\] cannot be moved for 1 points"):
        problem({"A[0]": 1.0})
    with pytest.raises(ValueError, match=r"S\[0\] cannot be moved for -1 points"):
        problem({"S[0]": -1.0})


def random_problem(seed: int, *, movable: bool) -> RecoveryProblem:
    """A generated topology of which half failed; the other half runs on nodes that are nearly full."""
    rng = random.Random(seed)
    one = generate_topology(TopologyRecipe(queries=10, size=3, max_sharing=3, costs=(3.0, 60.0)), seed)
    failed, assigned = [], {}
    nodes = [NodeSpace(name=f"n{i}", load=float(rng.randint(0, 30))) for i in range(6)]
    room = {node.name: 80.0 - node.load for node in nodes}
    for name in one.topology.partitions:
        home = rng.choice(nodes).name
        if rng.random() < 0.5 and one.costs[name] <= room[home]:
            assigned[name] = home
            room[home] -= one.costs[name]
        else:
            failed.append(name)
    prices = {name: round(rng.uniform(0.0, 6.0), 1) for name in assigned if rng.random() < 0.7}
    return recovery_problem(
        one.topology,
        failed=failed,
        costs=one.costs,
        nodes=nodes,
        assigned=assigned,
        movable=prices if movable else {},
    )


def check(given: RecoveryProblem, proposal: RecoveryPlanProposal) -> None:
    placement = proposal.placement
    assert placement is not None
    assert set(placement.placed) == set(proposal.partitions)
    assert placement.assignment == {**given.assigned, **placement.placed, **proposal.moves}
    for name, node in proposal.moves.items():
        assert name in given.movable
        assert given.assigned[name] != node
    assert proposal.move_price == pytest.approx(sum(given.movable[name] for name in proposal.moves))
    for space in given.nodes:
        mine = [name for name, node in placement.assignment.items() if node == space.name]
        load = space.load + sum(given.placed_costs[name] for name in mine)
        assert load <= 80.0 + 1e-6
        assert placement.load[space.name] == pytest.approx(load, abs=1e-6)


def test_moves_pay_and_keep_every_bound() -> None:
    gained = 0
    for seed in range(60):
        still, moving = random_problem(seed, movable=False), random_problem(seed, movable=True)
        before, after = BestDensity().plan(still), BestDensity().plan(moving)
        check(still, before)
        check(moving, after)
        if after.moves:
            assert after.value - after.move_price > before.value
            gained += 1
        else:
            assert after.queries == before.queries
        ahead = LookAhead([Arrival(10.0, 40.0)], program_limit=0).plan(moving)
        check(moving, ahead)
        assert ahead.value - ahead.move_price >= after.value - after.move_price
        assert BestDensity().plan(moving) == after
    assert gained >= 10


@pytest.mark.parametrize(("load", "queries"), [(50.0, ("A[0]",)), (51.0, ()), (75.0, ())])
def test_a_node_above_its_bound_is_not_filled_by_what_leaves_it(
    load: float, queries: tuple[str, ...]
) -> None:
    """S and T take 20 each of n1. With a load of 50 it is 10 above its bound, and has 30 without them."""
    nodes = (
        NodeSpace(name="n1", load=load),
        NodeSpace(name="n2", load=56.0),
        NodeSpace(name="n3", load=56.0),
    )
    proposal = BestDensity().plan(
        recovery_problem(
            graph(),
            failed=["A[0]"],
            costs={"S[0]": 20.0, "T[0]": 20.0, "A[0]": 30.0},
            nodes=nodes,
            assigned={"S[0]": "n1", "T[0]": "n1"},
            movable={"S[0]": 1.0, "T[0]": 1.0},
        )
    )
    assert proposal.queries == queries
    assert proposal.placement is not None
    assert all(proposal.placement.load[node] <= 80.0 for node in proposal.placement.placed.values())
