"""Planning chain by chain: the same costs and bounds, and no chain on two nodes."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from domain.planning import BestDensity, NodeSpace, OperatorCentric, RecoveryProblem, recovery_problem
from domain.planning.whole_chains import leaves_parts, rejoined, torn_chains, with_whole_chains
from tests.unit.domain.planning.test_leveling import BOUND, CHAINS, WIDTH

NAMES = [f"{operator}[{i}]" for operator in ("Source", "Parser") for i in range(WIDTH)]


def problem_of(costs: dict[str, float], rooms: list[float], runs: tuple[str, ...] = ()) -> RecoveryProblem:
    """All is down but `runs`, which are on the first node. rooms: what each node can take."""
    return recovery_problem(
        CHAINS,
        failed=set(CHAINS.partitions).difference(runs),
        costs=costs,
        nodes=[NodeSpace(name=f"n{i}", capacity=room / BOUND) for i, room in enumerate(rooms)],
        assigned=dict.fromkeys(runs, "n0"),
        max_utilisation=BOUND,
    )


@given(
    costs=st.fixed_dictionaries({name: st.floats(0.1, 9.0) for name in [*NAMES, "Out[0]"]}),
    rooms=st.lists(st.floats(5.0, 40.0), min_size=1, max_size=4),
)
@settings(max_examples=200, deadline=None)
def test_what_is_planned_chain_by_chain_fits_and_tears_nothing(
    costs: dict[str, float], rooms: list[float]
) -> None:
    problem = problem_of(costs, rooms)
    whole = with_whole_chains(problem)
    assert whole.bundle_cost.tolist() == problem.bundle_cost.tolist()
    proposal = BestDensity().plan(whole)
    assert proposal.placement is not None
    placement = rejoined(problem, proposal.placement)
    assert torn_chains(problem, placement.assignment) == 0
    assert placement.placed.keys() == proposal.placement.placed.keys()
    for node, room in enumerate(rooms):
        load = sum(problem.placed_costs[p] for p, home in placement.placed.items() if home == f"n{node}")
        assert load <= room + 1e-3
        assert load == pytest.approx(placement.load[f"n{node}"], abs=1e-3)


def test_it_is_needed() -> None:
    """Chains take 3, and the rooms are filled."""
    costs = {**dict.fromkeys(NAMES[:WIDTH], 1.0), **dict.fromkeys(NAMES[WIDTH:], 2.0), "Out[0]": 4.0}
    alone = BestDensity().plan(problem_of(costs, [11.0, 5.0])).placement
    assert alone is not None
    assert torn_chains(problem_of(costs, [11.0, 5.0]), alone.assignment) > 0


def test_members_that_run_count_for_themselves() -> None:
    """A chain of which one member is down has nothing to keep together."""
    costs = dict.fromkeys([*NAMES, "Out[0]"], 1.0)
    problem = problem_of(costs, [40.0], runs=tuple(NAMES[:WIDTH]))
    assert with_whole_chains(problem).placed_costs == problem.placed_costs


def test_a_planner_that_takes_partitions_may_leave_parts_of_chains() -> None:
    """A chain takes 3, and no node has room for one, but members after the first seem to cost nothing."""
    costs = {**dict.fromkeys(NAMES[:WIDTH], 1.0), **dict.fromkeys(NAMES[WIDTH:], 2.0), "Out[0]": 4.0}
    problem = problem_of(costs, [2.0] * 4)
    taken = OperatorCentric().plan(with_whole_chains(problem)).partitions
    assert leaves_parts(problem, taken)
    assert not leaves_parts(problem, ())
    assert not leaves_parts(problem, problem.partitions)
    roomy = problem_of(costs, [40.0] * 4)
    assert not leaves_parts(roomy, OperatorCentric().plan(with_whole_chains(roomy)).partitions)
