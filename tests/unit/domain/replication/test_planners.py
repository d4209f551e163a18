"""The planners against the optimum by brute force, and the explanations of their plans."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings

from domain.replication import (
    REPLICATION_PLANNERS,
    DynamicProgramming,
    FidelityModel,
    Greedy,
    ReplicationProblem,
    StructureAware,
    TooLargeError,
    equal_rates,
    replication_planner_named,
    structure_of,
)
from domain.topology import Topology
from tests.unit.domain.replication.topologies import best_fidelities, models, operator, topology_of


def problem_of(model: FidelityModel, budget: int) -> ReplicationProblem:
    rates = dict(zip(model.partitions, model.rates.tolist(), strict=True))
    return ReplicationProblem(model.topology, rates, budget, flows=model.flows)


def fidelities(name: str, model: FidelityModel) -> list[float]:
    """Of the plans of every budget."""
    planner = replication_planner_named(name)
    found = []
    for budget in range(len(model.partitions) + 1):
        plan = planner.plan(problem_of(model, budget))
        assert len(plan.partitions) == len(set(plan.partitions)) <= budget
        alive = model.flags([[model.index[name] for name in plan.partitions]])
        assert plan.fidelity_after == model.fidelity(alive)[0]
        found.append(plan.fidelity_after)
    return found


@given(model=models())
@settings(max_examples=60, deadline=None)
def test_dynamic_programming_is_optimal(model: FidelityModel) -> None:
    assert fidelities("dynamic_programming", model) == pytest.approx(best_fidelities(model), abs=1e-9)


@given(model=models())
@settings(max_examples=60, deadline=None)
def test_the_others_never_beat_it_and_grow_with_the_budget(model: FidelityModel) -> None:
    best = best_fidelities(model)
    for name in ("structure_aware", "greedy"):
        found = fidelities(name, model)
        assert all(one <= optimum + 1e-9 for one, optimum in zip(found, best, strict=True))
        assert found == sorted(found)
        assert found[-1] == 1.0


def pipeline(width: int = 4) -> Topology:
    """Sources and parsers in parallel, then full streams, as in most topologies."""
    return topology_of(
        operator("Source", width),
        operator("Parser", width, ("Source", "one_to_one")),
        operator("O0", width, ("Parser", "full"), output=True),
        operator("O1", 1, ("Parser", "full"), output=True),
    )


SKEWED = {
    "Source[0]": 10.0, "Source[1]": 50.0, "Source[2]": 30.0, "Source[3]": 10.0,
    "Parser[0]": 10.0, "Parser[1]": 50.0, "Parser[2]": 30.0, "Parser[3]": 10.0,
    "O0[0]": 5.0, "O0[1]": 5.0, "O0[2]": 60.0, "O0[3]": 5.0, "O1[0]": 25.0,
}  # fmt: skip


def test_a_small_budget_takes_one_complete_tree() -> None:
    for name in ("structure_aware", "dynamic_programming"):
        plan = replication_planner_named(name).plan(ReplicationProblem(pipeline(), SKEWED, 3))
        assert set(plan.partitions) == {"Source[1]", "Parser[1]", "O0[2]"}
        assert plan.fidelity_after == 0.5 * 0.6
        assert plan.fidelity_before == plan.completeness_before == 0.0
    # Parser[1] alone would be missed more than a source or an output, but gives nothing alone.
    greedy = Greedy().plan(ReplicationProblem(pipeline(), SKEWED, 1))
    assert greedy.partitions == ("O0[2]",)
    assert greedy.fidelity_after == 0.0
    assert "not everything that it needs" in greedy.chosen[0].reason


def test_ties_break_by_name_and_plans_are_reproducible() -> None:
    even = ReplicationProblem(pipeline(12), equal_rates(pipeline(12)), 4)
    for name in REPLICATION_PLANNERS:
        if name == "dynamic_programming":
            continue
        plan = replication_planner_named(name).plan(even)
        assert plan == replication_planner_named(name).plan(even)
    plan = StructureAware().plan(ReplicationProblem(pipeline(12), equal_rates(pipeline(12)), 3))
    assert plan.partitions == ("O0[0]", "Parser[0]", "Source[0]")


def test_structures() -> None:
    assert structure_of(pipeline()) == "general"
    chain = topology_of(operator("A", 2), operator("B", 1, ("A", "merge"), output=True))
    assert structure_of(chain) == "structured"
    wide = topology_of(operator("A", 2), operator("B", 3, ("A", "full"), output=True))
    assert structure_of(wide) == "full"


def test_a_full_topology_takes_the_best_of_each_operator_first() -> None:
    """Algorithm 4: one partition of each operator, then the partitions that add most."""
    topology = topology_of(
        operator("A", 3), operator("B", 3, ("A", "full")), operator("C", 2, ("B", "full"), output=True)
    )
    rates = {
        "A[0]": 1.0, "A[1]": 5.0, "A[2]": 4.0, "B[0]": 2.0, "B[1]": 2.0, "B[2]": 6.0, "C[0]": 1.0, "C[1]": 9.0
    }  # fmt: skip
    steps = {
        one.partition: one.step
        for one in StructureAware().plan(ReplicationProblem(topology, rates, 5)).chosen
    }
    assert {name for name, step in steps.items() if step == 1} == {"A[1]", "B[2]", "C[1]"}
    assert steps["A[2]"] == 2, "A[2] adds 0.4 x 0.6 x 0.9, B[0] 0.5 x 0.2 x 0.9"


def test_a_join_is_fed_from_all_its_inputs() -> None:
    topology = topology_of(
        operator("A", 2), operator("B", 2), operator("J", 2, ("A", "one_to_one"), ("B", "one_to_one"),
                                                     correlated=True, output=True),
    )  # fmt: skip
    rates = {**equal_rates(topology), "J[1]": 3.0}
    plan = StructureAware().plan(ReplicationProblem(topology, rates, 5))
    assert plan.partitions == ("A[1]", "B[1]", "J[1]")
    assert plan.fidelity_after == 0.75
    assert [(one.query, one.tentative) for one in plan.queries] == [("J[0]", False), ("J[1]", True)]


def test_a_plan_explains_itself() -> None:
    plan = StructureAware().plan(ReplicationProblem(pipeline(), SKEWED, 4))
    assert plan.partitions == ("O0[2]", "Parser[1]", "Source[1]", "O1[0]")
    assert [one.step for one in plan.chosen] == [1, 1, 1, 2]
    assert [one.fidelity for one in plan.chosen] == pytest.approx([0.3, 0.3, 0.3, 0.425])
    assert [one.gain for one in plan.chosen] == pytest.approx([0.3, 0.425, 0.425, 0.125])
    reasons = {one.partition: one.reason for one in plan.chosen}
    assert reasons["O0[2]"] == "is a query itself: 60 % of all output"
    assert reasons["Parser[1]"] == (
        "carries 50 % of what Parser gives; without it the plan keeps 42 % less of the output"
    )
    queries = {one.query: one for one in plan.queries}
    assert list(queries) == ["O0[0]", "O0[1]", "O0[2]", "O0[3]", "O1[0]"]
    assert queries["O1[0]"].tentative
    assert queries["O1[0]"].fidelity == 0.5
    assert queries["O1[0]"].reason == "gives output from 50 % of its input"
    assert queries["O0[0]"].reason == "gives nothing before it is recovered: it has no replica itself"
    assert plan.note == "a general topology"
    assert not plan.proven
    assert plan.to_data()["chosen"][0]["partition"] == "O0[2]"


def two_queries(priority: int) -> Topology:
    return topology_of(
        operator("A", 1),
        operator("X", 1, ("A", "full"), output=True),
        operator("Y", 1, ("A", "full"), output=True, priority=priority),
    )


TWICE = {"A[0]": 1.0, "X[0]": 2.0, "Y[0]": 1.0}


@pytest.mark.parametrize("name", ["structure_aware", "dynamic_programming", "optimal"])
def test_priorities_decide_unless_the_objective_is_plain(name: str) -> None:
    """Y gives half as many rows as X, but with a priority of 6 it is worth three times as much."""
    planner = replication_planner_named(name)
    weighted = planner.plan(ReplicationProblem(two_queries(6), TWICE, 2))
    plain = planner.plan(ReplicationProblem(two_queries(6), TWICE, 2, "plain"))
    assert set(weighted.partitions) == {"A[0]", "Y[0]"}
    assert set(plain.partitions) == {"A[0]", "X[0]"}
    assert weighted.fidelity_after == 0.75
    assert plain.fidelity_after == pytest.approx(2 / 3)
    assert weighted.plain_fidelity_after == pytest.approx(1 / 3)
    assert (weighted.objective, plain.objective) == ("weighted", "plain")
    assert plain.plain_fidelity_after == plain.fidelity_after
    assert [one.weight for one in weighted.queries] == [0.25, 0.75]
    assert [one.weight for one in plain.queries] == pytest.approx([2 / 3, 1 / 3])


def test_without_priorities_and_without_rows() -> None:
    equal = ReplicationProblem(two_queries(1), TWICE, 2)
    assert StructureAware().plan(equal).fidelity_after == pytest.approx(2 / 3)
    silent = ReplicationProblem(two_queries(3), dict.fromkeys(TWICE, 0.0), 2)
    assert StructureAware().plan(silent).fidelity_after == 0.75


def test_what_a_query_lacks_is_named() -> None:
    topology = topology_of(operator("A", 1), operator("B", 1), operator("X", 1, ("A", "full"), output=True),
                           operator("Y", 1, ("B", "full"), output=True))  # fmt: skip
    rates = {"A[0]": 1.0, "B[0]": 1.0, "X[0]": 9.0, "Y[0]": 1.0}
    plan = Greedy().plan(ReplicationProblem(topology, rates, 3))
    assert plan.partitions == ("A[0]", "X[0]", "B[0]")
    swapped = Greedy().plan(ReplicationProblem(topology, {**rates, "Y[0]": 2.0, "X[0]": 1.0}, 2))
    assert swapped.partitions == ("B[0]", "Y[0]")


@pytest.mark.parametrize("name", sorted(REPLICATION_PLANNERS))
def test_nothing_and_everything(name: str) -> None:
    planner = replication_planner_named(name)
    nothing = planner.plan(ReplicationProblem(pipeline(), SKEWED, 0))
    assert (nothing.partitions, nothing.fidelity_after, nothing.proven) == ((), 0.0, True)
    assert not any(one.tentative for one in nothing.queries)
    everything = planner.plan(ReplicationProblem(pipeline(), SKEWED, 99))
    assert everything.fidelity_after == everything.completeness_after == 1.0
    assert len(everything.partitions) == 13
    assert all(one.tentative for one in everything.queries)


def test_a_budget_below_the_smallest_tree_buys_nothing() -> None:
    for name in ("structure_aware", "dynamic_programming"):
        assert replication_planner_named(name).plan(ReplicationProblem(pipeline(), SKEWED, 2)).chosen == ()


def test_what_cannot_be_asked() -> None:
    with pytest.raises(ValueError, match="budget must not be negative: -1"):
        ReplicationProblem(pipeline(), SKEWED, -1)
    with pytest.raises(ValueError, match="no rate for"):
        ReplicationProblem(pipeline(), {}, 1)
    with pytest.raises(
        ValueError, match="known: dynamic_programming, greedy, optimal, published, structure_aware"
    ):
        replication_planner_named("magic")


@pytest.mark.parametrize("limits", [{"trees": 3}, {"expansions": 10}])
def test_an_exact_plan_can_be_too_much(limits: dict[str, Any]) -> None:
    with pytest.raises(TooLargeError, match="ask structure_aware instead, or for a smaller budget"):
        DynamicProgramming(**limits).plan(ReplicationProblem(pipeline(), SKEWED, 5))


def test_large_topologies_are_planned_coarsely_and_grow_with_the_budget() -> None:
    topology = pipeline(60)
    rates = {partition: 1.0 + index % 7 for index, partition in enumerate(topology.partitions)}
    found = []
    for budget in range(0, 181, 12):
        plan = StructureAware().plan(ReplicationProblem(topology, rates, budget))
        assert len(plan.partitions) <= budget
        found.append(plan.fidelity_after)
    assert found == sorted(found)
    assert found[-1] > 0.9
    assert "several extensions" in StructureAware().plan(ReplicationProblem(topology, rates, 40)).note
