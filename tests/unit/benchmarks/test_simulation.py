"""The systems of the simulation benchmark are as its page describes them."""

from __future__ import annotations

import pytest

from benchmarks.simulation.cases import DEAD, NODES, fifteen_queries, generated
from benchmarks.simulation.fifteen import LOADS
from domain.simulation.world import simulate


@pytest.mark.parametrize("load", LOADS)
def test_fifteen_queries_on_ten_nodes(load: float) -> None:
    scenario = fifteen_queries(load=load, seed=1)
    (one,) = scenario.topologies
    assert (len(one.topology.queries), len(scenario.nodes)) == (15, NODES)
    dead = set(scenario.victims(scenario.failures[0]))
    assert len(dead) == DEAD
    assert {one.assignment[query] for query in one.topology.queries} == dead, "all outputs are lost"
    used = {node.name: 0.0 for node in scenario.nodes}
    for partition, node in one.assignment.items():
        used[node] += one.costs[partition]
    shares = [used[node.name] / node.capacity for node in scenario.nodes]
    assert max(shares) == pytest.approx(load)
    assert len({node.capacity for node in scenario.nodes if node.name in dead}) == 1
    outcome = simulate(scenario)
    assert outcome.ended
    assert len(outcome.failed) == 15


def test_generated_systems() -> None:
    scenario = generated(topologies=2, queries=10, size=5, nodes=8, dead=3, load=0.5, seed=2)
    assert [len(one.topology.queries) for one in scenario.topologies] == [10, 10]
    assert len(scenario.failures[0].nodes) == 3
    again = generated(topologies=2, queries=10, size=5, nodes=8, dead=3, load=0.5, seed=2)
    assert again.failures == scenario.failures
    assert [one.assignment for one in again.topologies] == [one.assignment for one in scenario.topologies]
    with pytest.raises(ValueError, match="do not fit"):
        generated(topologies=1, queries=10, size=5, nodes=8, dead=3, load=0.99)
