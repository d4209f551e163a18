"""Generated topologies are as their recipe says."""

from __future__ import annotations

import statistics

import pytest

from domain.simulation.generator import TopologyRecipe, generate_topology


@pytest.mark.parametrize("seed", range(5))
def test_size_sharing_and_priorities(seed: int) -> None:
    recipe = TopologyRecipe(queries=18, size=8, max_sharing=3)
    drawn = generate_topology(recipe, seed)
    topology = drawn.topology
    sizes = [len(members) for members in topology.query_partitions.values()]
    assert len(sizes) == 18
    assert 7.0 <= statistics.mean(sizes) <= 9.0
    assert max(len(queries) for queries in topology.sharing.values()) == 3
    assert all(1 <= topology.priority(query) <= 10 for query in topology.queries)
    assert set(drawn.costs) == set(topology.partitions)


def test_skew_makes_sharing_uneven() -> None:
    def mean_sharing(skew: float) -> float:
        topology = generate_topology(TopologyRecipe(skew=skew), 1).topology
        return statistics.mean(len(queries) for queries in topology.sharing.values())

    assert mean_sharing(0.2) > mean_sharing(0.5) > 1.0


def test_linear_priorities_follow_the_cost() -> None:
    drawn = generate_topology(TopologyRecipe(priorities="linear"), 4)
    topology = drawn.topology
    cost = {q: sum(drawn.costs[p] for p in members) for q, members in topology.query_partitions.items()}
    ranked = sorted(topology.queries, key=lambda query: cost[query])
    priorities = [topology.priority(query) for query in ranked]
    assert priorities == sorted(priorities)
    assert (priorities[0], priorities[-1]) == (1, 10)


def test_same_seed_same_topology() -> None:
    recipe = TopologyRecipe(queries=9)
    first, again, other = (generate_topology(recipe, seed) for seed in (7, 7, 8))
    assert first.topology.spec == again.topology.spec
    assert first.costs == again.costs
    assert other.topology.spec != first.topology.spec


def test_there_are_levels() -> None:
    assert max(generate_topology(TopologyRecipe(), 0).topology.levels.values()) >= 2
