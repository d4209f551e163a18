"""The yardsticks of the packing benchmark are right, and its systems are what its page says."""

from __future__ import annotations

from dataclasses import replace

import pytest

from benchmarks.packing.areas import area_of, best_area
from benchmarks.packing.cases import DEAD, NODES, SETTINGS, drawn, fifteen_queries, generated_queries
from benchmarks.packing.exact import TooLargeError, optima, rooms_of
from benchmarks.packing.quality import share_of
from domain.planning import BestDensity
from tests.unit.domain.planning import reference

# Grains in a hundredth of a percent, the unit of costs and rooms here.
HUNDREDTH = 100


@pytest.mark.parametrize("name", SETTINGS)
def test_the_optimum_is_that_of_plain_enumeration(name: str) -> None:
    small = replace(SETTINGS[name], queries=(3, 5), size=(2, 3), nodes=(2, 3))
    binding = 0
    for seed in range(40):
        problem = drawn(small, seed)
        best = optima(problem)
        instance = reference.Instance.of(problem, unit=HUNDREDTH)
        assert best.placed == reference.placed_optimum(instance, rooms_of(problem))
        assert best.placed <= best.in_sum <= best.total == problem.total_priority
        binding += best.placed < best.total
    assert binding > 5


def test_what_takes_too_long_is_said() -> None:
    many = replace(SETTINGS["partitions up to 20 % of a node"], queries=(20, 20))
    with pytest.raises(TooLargeError, match="queries"):
        optima(drawn(many, 0))


def test_generated_systems_are_as_busy_as_asked() -> None:
    system = generated_queries(load=0.78, seed=3)
    used = dict.fromkeys(system.assignment.values(), 0.0)
    for partition, node in system.assignment.items():
        used[node] += system.costs[partition]
    assert max(used.values()) / system.capacity == pytest.approx(0.78, abs=1e-3)
    assert (len(used), len(system.dead), len(system.arrivals)) == (NODES, DEAD, DEAD)


def test_the_fifteen_queries_are_those_of_the_simulation() -> None:
    system = fifteen_queries(load=0.78, seed=1)
    assert set(system.assignment) == set(system.topology.queries)
    assert set(system.assignment.values()) == set(system.dead)
    assert system.surviving == {}


def test_no_planner_has_more_than_the_best_area() -> None:
    for seed in range(3):
        system = generated_queries(load=0.78, seed=seed)
        best = best_area(system)
        assert best.proven
        assert (
            0.7 * best.area <= area_of(system, lambda _coming, _left: BestDensity()) <= best.area * (1 + 1e-6)
        )


def test_shares() -> None:
    share = share_of([1.0] * 19 + [0.5])
    assert (share.mean, share.fifth_percentile, share.worst, share.reached) == (0.975, 1.0, 0.5, 0.95)
