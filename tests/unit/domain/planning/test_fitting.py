"""Plans on nodes: nothing above a bound, every restored partition has a node, and incidents can end."""

from __future__ import annotations

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from domain.planning import (
    BestDensity,
    NodeSpace,
    OperatorCentric,
    Planner,
    RecoveryProblem,
    entitled_costs,
    initial_placement,
    recovery_problem,
)
from domain.simulation.generator import TopologyRecipe, generate_topology
from domain.topology import InputSpec, OperatorSpec, Topology, TopologySpec


def chain(name: str = "chain", parallelism: int = 1) -> Topology:
    """S -> A (output) and S -> B (output); S also feeds D, which no query needs."""
    inputs = (InputSpec(source="S"),)
    return Topology(
        TopologySpec(
            name=name,
            operators=(
                OperatorSpec(name="S", kind="source", parallelism=parallelism),
                OperatorSpec(name="A", kind="map", inputs=inputs, output=True, priority=2),
                OperatorSpec(name="B", kind="map", inputs=inputs, output=True),
                OperatorSpec(name="D", kind="map", inputs=inputs),
            ),
        )
    )


COSTS = {"S[0]": 30.0, "A[0]": 30.0, "B[0]": 30.0, "D[0]": 10.0}


def test_capacity_is_what_live_nodes_have_left() -> None:
    nodes = [NodeSpace(name="n1"), NodeSpace(name="n2", load=50.0), NodeSpace(name="n3", standby=True)]
    problem = recovery_problem(
        chain(), failed={"A[0]", "B[0]"}, costs=COSTS, nodes=nodes, assigned={"S[0]": "n1", "D[0]": "gone"}
    )
    assert problem.capacity == 800_000
    proposal = BestDensity().plan(problem)
    assert proposal.queries == ("A[0]", "B[0]")
    assert proposal.placement is not None
    assert proposal.placement.placed == {"A[0]": "n1", "B[0]": "n2"}
    assert proposal.placement.assignment["S[0]"] == "n1"


def test_what_fits_in_sum_but_on_no_node_is_given_up_with_the_reason() -> None:
    nodes = [NodeSpace(name="n1", load=45.0), NodeSpace(name="n2", load=55.0)]
    problem = recovery_problem(chain(), failed={"A[0]", "B[0]"}, costs=COSTS, nodes=nodes)
    proposal = BestDensity().plan(problem)
    assert proposal.queries == ("A[0]",)
    told = {e.query: e for e in proposal.explanations}
    assert not told["B[0]"].selected
    assert told["B[0]"].reason.startswith("out: ")


def test_the_room_of_a_query_given_up_goes_to_another() -> None:
    """A needs more than any node has free; B is chosen although A is denser."""
    costs = {"S[0]": 1.0, "A[0]": 60.0, "B[0]": 40.0, "D[0]": 1.0}
    nodes = [NodeSpace(name="n1", load=39.0), NodeSpace(name="n2", load=39.0)]
    problem = recovery_problem(chain(), failed={"A[0]", "B[0]"}, costs=costs, nodes=nodes)
    proposal = BestDensity().plan(problem)
    assert proposal.queries == ("B[0]",)
    told = {e.query: e.reason for e in proposal.explanations}
    assert told["A[0]"] == "out: enough is free in total, but no single node has room for A[0]"


def test_partitions_no_query_needs_come_back_once_all_queries_do() -> None:
    everything = set(COSTS)
    little = recovery_problem(chain(), failed=everything, costs=COSTS, nodes=[NodeSpace(name="n1")])
    assert "D[0]" not in BestDensity().plan(little).partitions
    much = [NodeSpace(name="n1"), NodeSpace(name="n2")]
    proposal = BestDensity().plan(recovery_problem(chain(), failed=everything, costs=COSTS, nodes=much))
    assert set(proposal.partitions) == everything
    last = recovery_problem(
        chain(), failed={"D[0]"}, costs=COSTS, nodes=much, assigned={"S[0]": "n1", "A[0]": "n1"}
    )
    proposal = BestDensity().plan(last)
    assert (proposal.queries, proposal.partitions) == ((), ("D[0]",))
    assert proposal.placement is not None
    assert proposal.placement.placed == {"D[0]": "n2"}


def test_several_topologies_are_planned_as_one() -> None:
    first, second = chain("first"), chain("second")
    failed = {f"{t.name}/{p}" for t in (first, second) for p in t.partitions}
    costs = {f"{t}/{p}": c for t in ("first", "second") for p, c in COSTS.items()}
    problem = recovery_problem(
        [first, second], failed=failed, costs=costs, capacity=60.0, priorities={"second/B[0]": 10}
    )
    assert problem.queries == ("first/A[0]", "first/B[0]", "second/A[0]", "second/B[0]")
    assert BestDensity().plan(problem).queries == ("second/B[0]",)


def test_bad_input_is_named() -> None:
    with pytest.raises(ValueError, match=r"no topology has the failed partition O9\[0\]"):
        recovery_problem(chain(), failed={"O9[0]"}, costs={}, capacity=1.0)
    with pytest.raises(ValueError, match="give the nodes that can take partitions, or a capacity"):
        recovery_problem(chain(), failed={"A[0]"}, costs={})


def test_sharing_sees_through_healthy_partitions() -> None:
    topology = chain(parallelism=3)
    problem = recovery_problem(topology, failed=topology.partitions, costs={}, capacity=1_000.0)
    instance = {
        query: {p for p, bundle in enumerate(problem.bundle_of) if bundle >= 0 and row[bundle]}
        for query, row in zip(problem.queries, problem.needs, strict=True)
    }
    for query, members in instance.items():
        assert {problem.partitions[i] for i in members} == topology.query_partitions[query]


@st.composite
def placed_problems(draw: st.DrawFn) -> RecoveryProblem:
    """A generated topology after the loss of some nodes, with some room on the others."""
    seed = draw(st.integers(0, 40))
    drawn = generate_topology(TopologyRecipe(queries=8, size=4, max_sharing=4, costs=(1.0, 45.0)), seed)
    partitions = drawn.topology.partitions
    failed = draw(st.sets(st.sampled_from(partitions), min_size=1))
    loads = draw(st.lists(st.floats(0.0, 90.0), min_size=1, max_size=5))
    nodes = [NodeSpace(name=f"n{i}", load=load) for i, load in enumerate(loads)]
    return recovery_problem(drawn.topology, failed=failed, costs=drawn.costs, nodes=nodes)


@settings(max_examples=120, deadline=None)
@given(problem=placed_problems(), planner=st.sampled_from([BestDensity(), OperatorCentric()]))
def test_no_node_above_its_bound_and_nothing_without_a_node(
    problem: RecoveryProblem, planner: Planner
) -> None:
    proposal = planner.plan(problem)
    placement = proposal.placement
    assert placement is not None
    assert set(placement.placed) == set(proposal.partitions)
    cost = problem.placed_costs
    for node in problem.nodes:
        load = node.load + sum(cost[p] for p, where in placement.placed.items() if where == node.name)
        assert load <= max(80.0, node.load) + 1e-6
        assert placement.load[node.name] == pytest.approx(load, abs=1e-6)
    restored = set(proposal.partitions)
    for query, row in zip(problem.queries, problem.needs, strict=True):
        needs = {p for p, b in zip(problem.partitions, problem.bundle_of, strict=True) if b >= 0 and row[b]}
        assert (query in proposal.queries) == (needs <= restored)
    assert planner.plan(problem) == proposal


@pytest.mark.parametrize("seed", range(12))
def test_as_many_equal_replacements_restore_everything(seed: int) -> None:
    """Eight of ten nodes die and return one by one: each wave is within the bounds, and the last ends the
    incident."""
    rng = random.Random(seed)
    recipe = TopologyRecipe(
        queries=rng.choice([8, 15, 24]), size=6, costs=(1.0, rng.choice([5.0, 20.0, 40.0]))
    )
    drawn = generate_topology(recipe, seed)
    count = 3 + int(sum(drawn.costs.values()) / 80.0)
    names = [f"node-{i + 1}" for i in range(count)]
    before = initial_placement(drawn.topology, [NodeSpace(name=name) for name in names]).assignment
    costs = entitled_costs(costs=drawn.costs, assignment=before, capacities=dict.fromkeys(names, 100.0))
    lost = set(rng.sample(names, count * 4 // 5))
    failed = {partition for partition, node in before.items() if node in lost}
    where = {partition: node for partition, node in before.items() if node not in lost}
    live = [NodeSpace(name=name) for name in names if name not in lost]
    restored: set[str] = set()
    recovered: set[str] = set()
    for arrival in range(len(lost) + 1):
        problem = recovery_problem(
            drawn.topology, failed=failed, restored=restored, costs=costs, nodes=live, assigned=where
        )
        proposal = BestDensity().plan(problem)
        assert proposal.placement is not None
        assert recovered.isdisjoint(proposal.queries)
        recovered |= set(proposal.queries)
        restored |= set(proposal.partitions)
        where |= proposal.placement.placed
        for node in live:
            assert sum(costs[p] for p, at in where.items() if at == node.name) <= 80.0 + 1e-6
        live.append(NodeSpace(name=f"node-{count + arrival + 1}"))
    assert restored == failed
    assert recovered == set(drawn.topology.failed_queries(failed))
