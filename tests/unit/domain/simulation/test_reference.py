"""The best course in hindsight, compared with all possible schedules of small problems."""

from __future__ import annotations

import math
import random
from itertools import product

import numpy as np
import pytest

from domain.planning import RecoveryProblem, problem_from_sets
from domain.planning.problem import capacity_grains
from domain.simulation import reference
from domain.simulation.comparison import compare
from domain.simulation.generator import TopologyRecipe
from domain.simulation.placed_program import Room, placed_schedule, program_size
from domain.simulation.reference import best_course
from domain.simulation.world import simulate
from tests.unit.domain.simulation.scenarios import drawn_scenario

HORIZON = 100.0


def small_problem(seed: int) -> tuple[RecoveryProblem, list[Room]]:
    rng = random.Random(seed)
    partitions = [f"P{i}[0]" for i in range(rng.randint(2, 5))]
    queries = {
        f"Q{i}[0]": rng.sample(partitions, rng.randint(1, len(partitions))) for i in range(rng.randint(1, 3))
    }
    problem = problem_from_sets(
        queries,
        costs={partition: rng.randint(1, 10) for partition in partitions},
        capacity=0.0,
        priorities={query: rng.randint(1, 10) for query in queries},
    )
    rooms = [
        Room(float(rng.randint(0, 80)), capacity_grains(rng.randint(3, 15))) for _ in range(rng.randint(1, 3))
    ]
    return problem, rooms


def every_way(problem: RecoveryProblem, rooms: list[Room]) -> float:
    """The largest area over all placements: each partition on each node, or on none."""
    best = 0.0
    needs = problem.needs[:, problem.bundle_of]
    for chosen in product(range(-1, len(rooms)), repeat=len(problem.partitions)):
        load = [0] * len(rooms)
        for cost, node in zip(problem.costs.tolist(), chosen, strict=True):
            if node >= 0:
                load[node] += cost
        if any(used > room.grains for used, room in zip(load, rooms, strict=True)):
            continue
        at = np.array([rooms[node].at if node >= 0 else math.inf for node in chosen])
        whole = np.array([at[needed].max() for needed in needs])
        best = max(best, float((problem.priorities * np.maximum(0.0, HORIZON - whole)).sum()))
    return best


@pytest.mark.parametrize("seed", range(12))
def test_the_program_finds_what_trying_everything_finds(seed: int) -> None:
    problem, rooms = small_problem(seed)
    found = placed_schedule(problem, rooms, horizon=HORIZON, node_limit=10_000, time_limit=math.inf)
    assert found is not None
    assert found.proven
    assert found.area == pytest.approx(every_way(problem, rooms), rel=1e-6, abs=1e-6)
    assert program_size(problem, rooms) >= len(problem.partitions)


def test_what_is_restored_when_adds_up_to_the_area() -> None:
    problem, rooms = small_problem(3)
    found = placed_schedule(problem, rooms, horizon=HORIZON, node_limit=10_000, time_limit=math.inf)
    assert found is not None
    needs = problem.needs[:, problem.bundle_of]
    whole = np.array([found.restored_at[needed].max() for needed in needs])
    area = float((problem.priorities * np.maximum(0.0, HORIZON - whole)).sum())
    assert area == pytest.approx(found.area, abs=1e-6)


def test_where_no_node_is_left_and_none_comes_everything_stays_down() -> None:
    problem, _ = small_problem(3)
    found = placed_schedule(problem, [], horizon=HORIZON, node_limit=10_000, time_limit=math.inf)
    assert found is not None
    assert (found.area, found.proven) == (0.0, True)
    assert np.isinf(found.restored_at).all()
    scenario = drawn_scenario(0, dead=6, arrivals=(), limit=600.0)
    outcome = simulate(scenario)
    best = best_course(scenario, outcome.arrivals, horizon=600.0)
    assert best is not None
    assert best.proven
    assert best.area(600.0) == pytest.approx(outcome.area(600.0))


@pytest.mark.parametrize("seed", range(3))
def test_no_recovery_beats_a_proven_reference(seed: int) -> None:
    scenario = drawn_scenario(seed, dead=5, load=0.6)
    outcome = simulate(scenario)
    horizon = outcome.settled_at
    best = best_course(scenario, outcome.arrivals, horizon=horizon)
    assert best is not None
    assert best.placed
    if best.proven:
        # Both areas are those of what is available; the program maximised what is restored.
        assert outcome.area(horizon) <= best.area(horizon) * 1.001
    assert outcome.area(horizon) >= 0.7 * best.area(horizon)


def test_the_best_course_may_fill_nodes_as_much_as_what_it_is_compared_with() -> None:
    """Recovery plans nodes to 88 % where that keeps chains whole."""
    recipe = TopologyRecipe(queries=10, size=4, max_sharing=6)
    scenario = drawn_scenario(4, dead=3, topologies=2, load=0.8, recipe=recipe)
    found = compare(scenario, ["best_density"])
    assert found.outcomes["best_density"].bound == pytest.approx(0.88)
    assert found.reference is not None
    assert found.reference.proven
    assert found.reference.area(found.horizon) >= found.area("best_density")


def test_large_systems_are_measured_by_capacity_in_sum(monkeypatch: pytest.MonkeyPatch) -> None:
    scenario = drawn_scenario(1, dead=5, load=0.6)
    outcome = simulate(scenario)
    placed = best_course(scenario, outcome.arrivals, horizon=400.0)
    monkeypatch.setattr(reference, "MOST_COLUMNS", 0)
    in_sum = best_course(scenario, outcome.arrivals, horizon=400.0)
    assert placed is not None
    assert in_sum is not None
    assert (placed.placed, in_sum.placed) == (True, False)
    if in_sum.proven:
        assert in_sum.area(400.0) >= placed.area(400.0) * 0.999
    monkeypatch.setattr(reference, "MOST_WAVES", 2)
    merged = best_course(scenario, outcome.arrivals, horizon=400.0)
    assert merged is not None
    assert merged.area(400.0) >= in_sum.area(400.0) * 0.999, "arrivals only move forward"
