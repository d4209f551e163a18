"""Look-ahead planning, forecasts and expected arrivals."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from domain.planning import (
    Arrival,
    BestDensity,
    LookAhead,
    ObservedDelay,
    RecoveryProblem,
    Schedule,
    UniformDelay,
    expected_arrivals,
    forecast,
    parse_delay,
    problem_from_sets,
)
from tests.unit.domain.planning import reference
from tests.unit.domain.planning.problems import problems, synthetic

arrival_lists = st.lists(
    st.builds(Arrival, st.integers(1, 20).map(float), st.integers(0, 12).map(float)), min_size=1, max_size=3
)


def best_area(problem: RecoveryProblem, arrivals: list[Arrival], horizon: float) -> float:
    """The best area of any schedule: every query is given a wave, or none, in every combination."""
    instance = reference.Instance.of(problem)
    starts = sorted({0.0, *(a.at for a in arrivals)})
    limits = [
        problem.capacity + sum(round(a.capacity * 10_000) for a in arrivals if a.at <= s) for s in starts
    ]
    count, waves = len(problem.queries), len(starts)
    best = 0.0
    for choice in itertools.product(range(waves + 1), repeat=count):
        area = sum(
            instance.priority[i] * (horizon - starts[wave]) for i, wave in enumerate(choice) if wave < waves
        )
        if area > best and all(
            instance.cost_of([i for i in range(count) if choice[i] <= wave]) <= limits[wave]
            for wave in range(waves)
        ):
            best = area
    return best


def check_schedule(problem: RecoveryProblem, schedule: Schedule) -> None:
    instance = reference.Instance.of(problem)
    index = {name: i for i, name in enumerate(problem.queries)}
    done: list[int] = []
    for wave in schedule.waves:
        done += [index[name] for name in wave.queries]
        assert instance.cost_of(done) / 10_000 <= wave.capacity + 1e-9
        assert wave.value == instance.value_of(done)
    assert len(done) == len(set(done))


@settings(max_examples=60, deadline=None)
@given(problem=problems(max_queries=5, max_partitions=7), arrivals=arrival_lists)
def test_the_two_promises(problem: RecoveryProblem, arrivals: list[Arrival]) -> None:
    planner = LookAhead(arrivals=arrivals, horizon=30.0)
    now = planner.plan(problem)
    assert now.value >= BestDensity().plan(problem).value
    schedule = planner.schedule(problem)
    check_schedule(problem, schedule)
    assert schedule.waves[0].value == now.value
    assert schedule.area >= forecast(problem, arrivals, BestDensity(), horizon=30.0).area - 1e-6


@settings(max_examples=40, deadline=None)
@given(problem=problems(max_queries=4, max_partitions=6), arrivals=arrival_lists)
def test_clairvoyant_is_the_best_possible(problem: RecoveryProblem, arrivals: list[Arrival]) -> None:
    schedule = LookAhead(arrivals=arrivals, horizon=30.0).clairvoyant(problem)
    check_schedule(problem, schedule)
    assert schedule.area == pytest.approx(best_area(problem, arrivals, 30.0), rel=1e-5)
    assert schedule.bound is not None
    assert schedule.bound >= schedule.area - 1e-6


def test_of_two_equal_queries_it_takes_the_one_that_helps_later() -> None:
    """A and B have the same priority and B is denser, but with the partitions of A, C fits in the next
    wave."""
    queries = {"A[0]": {"X[0]"}, "B[0]": {"Y[0]"}, "C[0]": {"X[0]", "Z[0]"}}
    problem = problem_from_sets(
        queries,
        costs={"X[0]": 20.0, "Y[0]": 8.0, "Z[0]": 10.0},
        capacity=20.0,
        priorities={"A[0]": 4, "B[0]": 4, "C[0]": 9},
    )
    assert BestDensity().plan(problem).queries == ("B[0]",)
    planner = LookAhead(arrivals=[Arrival(10.0, 10.0)], horizon=100.0)
    proposal = planner.plan(problem)
    assert proposal.queries == ("A[0]",)
    assert "more availability" in proposal.note
    schedule = planner.schedule(problem)
    assert [wave.queries for wave in schedule.waves] == [("A[0]",), ("C[0]",)]
    assert schedule.proven
    assert schedule.area == 4 * 100 + 9 * 90
    assert schedule.share == pytest.approx(schedule.area / 1700)


def test_without_arrivals_it_is_the_base_planner() -> None:
    problem = synthetic(2, queries=12, size=5)
    assert LookAhead().plan(problem).queries == BestDensity().plan(problem).queries


def test_planning_again_at_every_arrival_gains_on_average() -> None:
    ratios = []
    for seed in range(2, 5):
        problem = synthetic(seed, fraction=0.1, queries=10, size=5)
        total = problem.costs.sum() / 10_000
        arrivals = [Arrival(30.0 * (k + 1), total * 0.2) for k in range(4)]
        myopic = forecast(problem, arrivals, BestDensity(), horizon=180.0)
        ahead = forecast(
            problem, arrivals, lambda coming, left: LookAhead(coming, horizon=left), horizon=180.0
        )
        clairvoyant = LookAhead(arrivals, horizon=180.0).clairvoyant(problem)
        assert clairvoyant.area >= max(myopic.area, ahead.area) - 1e-3
        ratios.append(ahead.area / myopic.area)
    assert min(ratios) >= 0.97
    assert sum(ratios) / len(ratios) >= 1.0


def test_large_problems_are_planned_without_the_program() -> None:
    problem = synthetic(0, fraction=0.1, queries=100, size=6)
    total = problem.costs.sum() / 10_000
    arrivals = [Arrival(10.0 * (k + 1), total * 0.2) for k in range(2)]
    planner = LookAhead(arrivals, program_limit=100)
    schedule = planner.schedule(problem)
    assert schedule.bound is None
    check_schedule(problem, schedule)
    assert schedule.waves[0].value >= BestDensity().plan(problem).value


def test_uniform_arrivals_are_the_mean_order_statistics() -> None:
    arrivals = expected_arrivals(UniformDelay(120.0, 360.0), waited=[0.0] * 3, capacity=80.0)
    assert [round(a.at, 6) for a in arrivals] == [180.0, 240.0, 300.0]
    waited = expected_arrivals(UniformDelay(120.0, 360.0), waited=[240.0], capacity=80.0)
    assert waited[0].at == pytest.approx(60.0)


def test_overdue_requests_are_expected_soon() -> None:
    late, young = expected_arrivals(parse_delay("uniform:6:15"), waited=[0.0, 20.0], capacity=[80.0, 40.0])
    assert (late.at, late.capacity) == (2.0, 40.0)
    assert young.at == pytest.approx(10.5)


def test_observed_delays() -> None:
    delay = ObservedDelay([100.0, 200.0, 300.0, 400.0])
    assert [delay.share(s) for s in (0.0, 100.0, 150.0, 400.0, 999.0)] == [0.0, 0.25, 0.375, 1.0, 1.0]
    (only,) = expected_arrivals(delay, waited=[200.0], capacity=80.0)
    assert only.at == pytest.approx(100.0)


@given(
    waited=st.lists(st.floats(0.0, 500.0), max_size=8),
    samples=st.lists(st.floats(0.0, 400.0), min_size=1, max_size=10),
)
def test_arrivals_are_ordered_and_in_the_future(waited: list[float], samples: list[float]) -> None:
    arrivals = expected_arrivals(ObservedDelay(samples), waited=waited, capacity=80.0)
    assert len(arrivals) == len(waited)
    assert all(a.at >= 0.0 for a in arrivals)
    assert list(arrivals) == sorted(arrivals)


@pytest.mark.parametrize("text", ["soon", "uniform:9", "uniform:9:3", "normal:1:2", "uniform:a:b"])
def test_bad_delays_are_named(text: str) -> None:
    with pytest.raises(ValueError, match=text):
        parse_delay(text)
