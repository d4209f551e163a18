"""What tentative output counts for in recovery plans."""

from __future__ import annotations

import itertools
import random

import pytest

from domain.planning import RecoveryProblem, planner_named, recovery_problem
from domain.recovery.instructions import CreatePlan
from domain.recovery.machine import IncidentMachine
from domain.recovery.tentative import TentativeOutput
from domain.topology import InputSpec, OperatorSpec, Topology, TopologySpec
from tests.unit.domain.recovery.chains import machine, plan_of
from tests.unit.domain.recovery.test_machine import arrive, lose, only


def operator(name: str, *inputs: str, parallelism: int = 1, correlated: bool = False) -> OperatorSpec:
    return OperatorSpec(
        name=name,
        kind="k",
        parallelism=parallelism,
        inputs=tuple(InputSpec(source=source) for source in inputs),
        output=name in "QVJ",
        correlated=correlated,
    )


GRAPH = Topology(
    TopologySpec(
        name="t",
        operators=(
            operator("S", parallelism=4),
            operator("T"),
            operator("Q", "S"),
            operator("V", "Q"),
            operator("J", "Q", "T", correlated=True),
        ),
    )
)
ALL = frozenset(GRAPH.partitions)


def test_what_lacks_a_part_of_its_input_counts_for_a_share() -> None:
    output = TentativeOutput(GRAPH, {"Q": 0.0, "V": 0.0, "J": 0.0}, 0.4)
    assert output.counted(ALL) == {}, "nothing is tentative that lacks nothing"
    quarter = dict.fromkeys(["Q[0]", "V[0]", "J[0]"], pytest.approx(0.75))
    assert output.left(ALL - {"S[3]"}) == quarter
    assert output.counted(ALL - {"S[3]"}) == dict.fromkeys(quarter, pytest.approx(0.3))
    assert output.left(ALL - {"T[0]"}) == {}, "a join without one of its inputs gives nothing"
    assert output.left(ALL - {"S[3]", "Q[0]"}) == {}, "they have nothing to go on with"
    assert output.left(()) == {}


def test_it_follows_the_rates_and_the_policy() -> None:
    rates = dict.fromkeys(GRAPH.partitions, 1.0) | {"S[3]": 7.0}
    assert TentativeOutput(GRAPH, {"Q": 0.0}, 1.0, rates).left(ALL - {"S[3]"}) == {"Q[0]": pytest.approx(0.3)}
    assert TentativeOutput(GRAPH, {"Q": 0.3}, 1.0, rates).left(ALL - {"S[3]"}) == {}
    some = {"S[3]": 7.0}
    assert TentativeOutput(GRAPH, {"Q": 0.3}, 1.0, some).left(ALL - {"S[3]"}) == {"Q[0]": pytest.approx(0.75)}
    with pytest.raises(ValueError, match="0 to 1"):
        TentativeOutput(GRAPH, {}, 1.5)


# ---- plans -------------------------------------------------------------------------------------------

PLANNERS = (
    "best_density", "profit_density", "dynamic_programming", "optimal", "adaptive_density", "look_ahead",
)  # fmt: skip


def two_queries(**tentative: float) -> RecoveryProblem:
    """A and B cost and count the same; there is room for one."""
    sources = tuple(OperatorSpec(name=f"S{name}", kind="k") for name in "AB")
    queries = tuple(
        OperatorSpec(name=name, kind="k", inputs=(InputSpec(source=f"S{name}"),), output=True, priority=2)
        for name in "AB"
    )
    graph = Topology(TopologySpec(name="t", operators=(*sources, *queries)))
    return recovery_problem(
        graph,
        failed=["SA[0]", "SB[0]"],
        costs={"SA[0]": 50.0, "SB[0]": 50.0},
        capacity=60.0,
        tentative={f"{name}[0]": share for name, share in tentative.items()},
    )


@pytest.mark.parametrize("planner", PLANNERS)
def test_of_two_equal_queries_the_one_that_gives_nothing_comes_back(planner: str) -> None:
    assert planner_named(planner).plan(two_queries(A=0.4)).queries == ("B[0]",)
    assert planner_named(planner).plan(two_queries(B=0.4)).queries == ("A[0]",)
    assert planner_named(planner).plan(two_queries(A=0.4, B=0.2)).queries == ("B[0]",)


def test_priorities_stay_as_they_are_where_nothing_is_tentative() -> None:
    assert (two_queries().points, two_queries().priorities.tolist()) == (1, [2, 2])
    assert two_queries(A=0.0).points == 1
    problem = two_queries(A=0.25)
    assert [one / problem.points for one in problem.priorities.tolist()] == [1.5, 2.0]
    assert two_queries(A=1.0).priorities.min() == 1, "what lacks nothing is still worth to have back"


def test_the_optimum_is_that_of_all_subsets() -> None:
    rng = random.Random(5)
    differ = 0
    for _ in range(60):
        sources = tuple(OperatorSpec(name=f"S{index}", kind="k") for index in range(5))
        queries = tuple(
            OperatorSpec(
                name=f"Q{index}",
                kind="k",
                inputs=tuple(InputSpec(source=f"S{one}") for one in sorted(rng.sample(range(5), 2))),
                output=True,
                priority=rng.randint(1, 4),
            )
            for index in range(5)
        )
        graph = Topology(TopologySpec(name="t", operators=(*sources, *queries)))
        failed = [f"S{index}[0]" for index in range(5)]
        costs = {name: float(rng.randint(1, 9)) for name in failed}
        shares = {f"Q{index}[0]": rng.choice((0.0, 0.25, 0.5, 0.75)) for index in range(5)}
        capacity = sum(costs.values()) * rng.uniform(0.3, 0.9)
        problem = recovery_problem(graph, failed=failed, costs=costs, capacity=capacity, tentative=shares)

        def gain(
            chosen: tuple[str, ...], graph: Topology = graph, shares: dict[str, float] = shares
        ) -> float:
            return sum(graph.priority(query) * (1 - shares[query]) for query in chosen)

        def cost(chosen: tuple[str, ...], graph: Topology = graph, costs: dict[str, float] = costs) -> float:
            return sum(costs[p] for p in costs if any(p in graph.query_partitions[q] for q in chosen))

        subsets = [c for size in range(6) for c in itertools.combinations(graph.queries, size)]
        best = max(gain(chosen) for chosen in subsets if cost(chosen) <= capacity)
        proposal = planner_named("optimal").plan(problem)
        assert gain(proposal.queries) == pytest.approx(best)
        plain = recovery_problem(graph, failed=failed, costs=costs, capacity=capacity)
        differ += gain(planner_named("optimal").plan(plain).queries) < best - 1e-9
    assert differ > 5, "tentative output made no difference"


# ---- waves -------------------------------------------------------------------------------------------


def tentative_machine(worth: float) -> IncidentMachine:
    subject = machine()
    deployment = subject.deployments["t0"]
    above = {operator.name: 0.0 for operator in deployment.topology.outputs}
    deployment.tentative = TentativeOutput(deployment.topology, above, worth)
    return subject


def test_what_gives_tentative_output_stops_only_for_more_than_that_is_worth() -> None:
    """All[0], of priority 7, keeps two thirds of its input without the chain of node-3; A[2], of priority 3,
    has room if it stops."""
    plan = plan_of(lose(tentative_machine(0.5), "node-3"))
    assert plan.explanation["queries"] == ["A[2]"]
    assert plan.explanation["parked"] == ["All[0]", "Unused[0]", "Unused[1]"]
    assert not only(lose(tentative_machine(1.0), "node-3"), CreatePlan)


def test_a_wave_says_what_its_queries_are_worth() -> None:
    subject = tentative_machine(0.5)
    lose(subject, "node-2", "node-3")
    plan = plan_of(arrive(subject, "node-4"))
    told = {one["query"]: (one["priority"], one["tentative"]) for one in plan.explanation["explanations"]}
    assert told["All[0]"] == (5.85, pytest.approx(1 / 6, abs=1e-3))
    assert told["A[1]"][1] == 0.0
    assert plan.explanation["total"] == sum(priority for priority, _ in told.values())
    assert "Queries with tentative output count for what they lack." in plan.reason
