"""Every planner against direct transcriptions of the papers, and rules for all plans."""

from __future__ import annotations

import itertools
import json
import math
import statistics

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from domain.planning import (
    PLANNERS,
    AdaptiveDensity,
    BestDensity,
    DynamicProgramming,
    OperatorCentric,
    Optimal,
    Planner,
    ProfitDensity,
    RecoveryProblem,
    TooManyPlansError,
    cores,
    planner_named,
    problem_from_sets,
    recovery_problem,
)
from domain.planning.adaptive_search import adaptive_search
from domain.topology import InputSpec, OperatorSpec, Topology, TopologySpec
from tests.unit.domain.planning import reference
from tests.unit.domain.planning.problems import PERCENT, problems, synthetic


def names(problem: RecoveryProblem, plan: list[int]) -> tuple[str, ...]:
    return tuple(problem.queries[i] for i in plan)


@settings(max_examples=300, deadline=None)
@given(problem=problems(), singles=st.booleans())
def test_best_density_is_algorithm_3(problem: RecoveryProblem, singles: bool) -> None:
    expected = reference.best_density(reference.Instance.of(problem), singles=singles)
    assert BestDensity(singles=singles).plan(problem).queries == names(problem, expected)


@settings(max_examples=100, deadline=None)
@given(problem=problems())
def test_single_queries_only_improve_on_the_paper(problem: RecoveryProblem) -> None:
    paper, ours = BestDensity(singles=False).plan(problem), BestDensity().plan(problem)
    assert ours.value > paper.value or (ours.queries, ours.partitions) == (paper.queries, paper.partitions)


def test_to_the_letter_algorithm_3_breaks_its_own_theorem() -> None:
    problem = problem_from_sets(
        {"A[0]": {"A[0]"}, "B[0]": {"B[0]"}},
        costs={"A[0]": 1.0, "B[0]": 9.0},
        capacity=9.0,
        priorities={"A[0]": 1, "B[0]": 8},
    )
    assert BestDensity(singles=False).plan(problem).value == 1
    assert BestDensity().plan(problem).queries == ("B[0]",)


@pytest.mark.parametrize("seed", range(6))
def test_best_density_is_algorithm_3_on_generated_topologies(seed: int) -> None:
    recipe = {"queries": 14 + seed, "size": 4 + seed % 3, "max_sharing": 3 + seed}
    problem = synthetic(seed, fraction=0.15 + 0.12 * seed, **recipe)
    expected = reference.best_density(reference.Instance.of(problem), singles=True)
    assert BestDensity().plan(problem).queries == names(problem, expected)


@settings(max_examples=150, deadline=None)
@given(problem=problems())
def test_profit_density_is_the_one_pass_greedy(problem: RecoveryProblem) -> None:
    expected = reference.profit_density(reference.Instance.of(problem))
    assert ProfitDensity().plan(problem).queries == names(problem, expected)


@settings(max_examples=80, deadline=None)
@given(problem=problems(max_queries=6, max_partitions=7, max_cost=5))
def test_exact_planners_find_the_optimum(problem: RecoveryProblem) -> None:
    instance = reference.Instance.of(problem, unit=PERCENT)
    best = reference.optimum(instance)
    assert reference.dynamic_programming(instance) == best
    for planner in (DynamicProgramming(), Optimal()):
        proposal = planner.plan(problem)
        assert (proposal.value, proposal.proven, proposal.gap) == (best, True, 0.0)


@settings(max_examples=400, deadline=None)
@given(problem=problems(max_cost=20))
def test_best_density_keeps_the_approximation_ratio(problem: RecoveryProblem) -> None:
    """Theorem 5.1: at least 1 - e^(-1/d) of the optimum, d the most queries that share a partition."""
    best = reference.optimum(reference.Instance.of(problem))
    shared = int(problem.sharing.max(initial=1))
    for planner in (BestDensity(), AdaptiveDensity()):
        assert planner.plan(problem).value >= (1 - math.exp(-1 / shared)) * best - 1e-9


@settings(max_examples=60, deadline=None)
@given(problem=problems(), planner=st.sampled_from([kind() for kind in PLANNERS.values()]))
def test_every_plan_is_feasible_whole_and_explained(problem: RecoveryProblem, planner: Planner) -> None:
    proposal = planner.plan(problem)
    cost = dict(zip(problem.partitions, problem.costs.tolist(), strict=True))
    restored = set(proposal.partitions)
    assert sum(cost[name] for name in restored) <= problem.capacity
    instance = reference.Instance.of(problem)
    whole = {
        query
        for query, needs in zip(problem.queries, instance.needs, strict=True)
        if {problem.partitions[i] for i in needs} <= restored
    }
    assert set(proposal.queries) == whole
    assert proposal.value == sum(e.priority for e in proposal.explanations if e.selected)
    assert [e.query for e in proposal.explanations if e.selected] == list(proposal.queries)
    assert {e.query for e in proposal.explanations} == set(problem.queries)
    assert all(e.reason.startswith("in: " if e.selected else "out: ") for e in proposal.explanations)
    json.dumps(proposal.to_data(), allow_nan=False)
    assert planner.plan(problem) == proposal


@settings(max_examples=100, deadline=None)
@given(problem=problems())
def test_greedy_plans_leave_nothing_that_fits(problem: RecoveryProblem) -> None:
    for planner in (BestDensity(), ProfitDensity(), AdaptiveDensity()):
        proposal = planner.plan(problem)
        assert not [e for e in proposal.explanations if e.reason.startswith("out: there is room")]
        assert proposal.value >= ProfitDensity().plan(problem).value


def test_covered_partitions_cost_nothing_and_covered_queries_are_free() -> None:
    problem = problem_from_sets(
        {"A[0]": {"S[0]", "A[0]"}, "B[0]": {"S[0]", "B[0]"}, "C[0]": {"S[0]"}},
        costs={"S[0]": 6.0, "A[0]": 1.0, "B[0]": 3.0},
        capacity=8.0,
    )
    proposal = BestDensity().plan(problem)
    assert proposal.queries == ("C[0]", "A[0]") or proposal.queries == ("A[0]", "C[0]")
    told = {e.query: e for e in proposal.explanations}
    free = told[proposal.queries[1]]
    assert free.marginal_cost in (0.0, 1.0)
    assert told["B[0]"].marginal_cost == 3.0
    assert told["B[0]"].reason == "out: needs 0.03 cores more, and only 0.01 would be left free"
    assert told["A[0]"].shared == 1


def test_a_query_left_out_is_told_what_it_lacks() -> None:
    queries = {"A[0]": {"S[0]", "A[0]"}, "B[0]": {"S[0]", "B[0]"}}
    problem = problem_from_sets(
        queries, costs={"S[0]": 50.0, "A[0]": 31.4159, "B[0]": 200.0}, capacity=81.4159
    )
    told = {e.query: e.reason for e in BestDensity().plan(problem).explanations}
    assert told == {
        "A[0]": "in: takes 0.81 cores and leaves 0 free",
        "B[0]": "out: needs 2 cores more, and nothing is left free",
    }


@pytest.mark.parametrize(
    ("percent", "words"),
    [
        (0.0, "0 cores"),
        (0.2, "less than 0.01 cores"),
        (3.0, "0.03 cores"),
        (99.4, "0.99 cores"),
        (99.9, "1 core"),
        (100.0, "1 core"),
        (181.7623, "1.8 cores"),
        (994.0, "9.9 cores"),
        (998.0, "10 cores"),
        (3_200.0, "32 cores"),
    ],
)
def test_cpu_is_said_in_cores(percent: float, words: str) -> None:
    assert cores(percent) == words


def test_restored_partitions_need_nothing_and_their_queries_do_not_count() -> None:
    queries = {"A[0]": {"S[0]", "A[0]"}, "B[0]": {"S[0]"}}
    problem = problem_from_sets(queries, costs={"S[0]": 6.0, "A[0]": 1.0}, capacity=1.0, restored={"S[0]"})
    assert problem.queries == ("A[0]",)
    assert problem.sharing.tolist() == [1]
    assert BestDensity().plan(problem).partitions == ("A[0]",)


def test_ties_break_by_natural_name() -> None:
    queries = {f"Q{i}[0]": {f"Q{i}[0]"} for i in (10, 9, 2)}
    problem = problem_from_sets(queries, costs=dict.fromkeys(queries, 1.0), capacity=2.0)
    assert BestDensity().plan(problem).queries == ("Q2[0]", "Q9[0]")


def test_operator_centric_goes_in_topological_order() -> None:
    problem = synthetic(3, queries=12, size=6)
    proposal = OperatorCentric().plan(problem)
    restored = set(proposal.partitions)
    assert restored
    for i, name in enumerate(problem.partitions):
        if name in restored:
            assert all(problem.partitions[above] in restored for above in problem.predecessors[i])
    assert proposal.value <= Optimal().plan(problem).value


def test_what_is_next_upstream_is_found_however_long_a_chain_is() -> None:
    operators = [OperatorSpec(name="O0", kind="source")]
    for i in range(1, 1_200):
        above = (InputSpec(source=f"O{i - 1}", partitioning="one_to_one"),)
        operators.append(OperatorSpec(name=f"O{i}", kind="map", inputs=above, output=i == 1_199))
    chain = Topology(TopologySpec(name="deep", operators=tuple(operators)))
    problem = recovery_problem(chain, failed=["O0[0]", "O1199[0]"], costs={}, capacity=80.0)
    assert problem.predecessors == ((), (0,))


def test_optimal_reports_its_gap_when_stopped() -> None:
    problem = synthetic(1, fraction=0.3, queries=150, size=8, max_sharing=20)
    stopped = Optimal(time_limit=0.02).plan(problem)
    assert stopped.value >= AdaptiveDensity().plan(problem).value
    assert stopped.proven or (stopped.gap is not None and stopped.gap > 0)
    assert stopped.bound is not None
    assert stopped.value <= stopped.bound <= stopped.total


def test_enumeration_refuses_to_eat_the_memory() -> None:
    problem = synthetic(1, fraction=0.6, queries=20, size=3, priorities="equal")
    with pytest.raises(TooManyPlansError, match="use the planner `optimal`"):
        DynamicProgramming(max_plans=50).plan(problem)


def test_enumeration_counts_plans_of_all_sizes() -> None:
    problem = synthetic(1, fraction=0.5, queries=18)
    made = DynamicProgramming().plan(problem).candidates
    assert DynamicProgramming(max_plans=made).plan(problem).candidates == made
    with pytest.raises(TooManyPlansError):
        DynamicProgramming(max_plans=made - 1).plan(problem)
    with pytest.raises(TooManyPlansError):
        DynamicProgramming(max_entries=made * sum(problem.needs.shape) - 1).plan(problem)


def test_bounded_search_does_not_lose_against_all_pairs() -> None:
    """At sizes at which Algorithm 3 can be run in full, the bounded search finds plans at least as good."""
    ratios = []
    shapes = itertools.product((3, 6, 12), (0.15, 0.3, 0.5), range(2))
    for seed, (sharing, fraction, _) in enumerate(shapes):
        problem = synthetic(seed, fraction=fraction, queries=60, size=8, max_sharing=sharing)
        full = BestDensity(exact_work=10**12).plan(problem).value
        ratios.append(BestDensity(exact_work=0).plan(problem).value / full)
    assert statistics.mean(ratios) >= 1.0
    assert min(ratios) >= 0.98


@pytest.mark.parametrize("work", [1, 20_000, 200_000])
def test_the_bounded_search_can_be_short(work: int) -> None:
    problem = synthetic(5, fraction=0.2, queries=80, size=6)
    proposal = BestDensity(exact_work=0).plan(problem)
    assert proposal.value >= ProfitDensity().plan(problem).value
    assert adaptive_search(problem, work).candidates <= proposal.candidates


def test_a_thousand_queries_over_ten_thousand_partitions_take_few_candidates() -> None:
    """`benchmarks.planning` measures the CPU seconds."""
    problem = synthetic(0, queries=1_000, size=34, max_sharing=6)
    assert len(problem.queries) == 1_000
    assert len(problem.partitions) >= 10_000
    proposal = BestDensity().plan(problem)
    assert proposal.candidates <= len(problem.queries)
    assert 0 < proposal.cost <= proposal.capacity


def test_planners_by_name() -> None:
    assert planner_named("best_density").name == "best_density"
    with pytest.raises(ValueError, match="no planner 'fastest'; known: adaptive_density, best_density"):
        planner_named("fastest")
