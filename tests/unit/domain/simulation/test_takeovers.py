"""Simulated recoveries of topologies with replicas: what they take over goes on and is in no plan."""

from __future__ import annotations

import random
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from domain.simulation.comparison import compare, scenario_for
from domain.simulation.scenario import Failure, Scenario, takeovers
from domain.simulation.world import World, simulate
from tests.unit.domain.simulation.scenarios import drawn_scenario
from tests.unit.domain.simulation.test_world import check, strip


def dead_of(scenario: Scenario) -> set[str]:
    return {name for failure in scenario.failures for name in scenario.victims(failure)}


def replicated(scenario: Scenario, replicas: list[dict[str, str]]) -> Scenario:
    pairs = zip(scenario.topologies, replicas, strict=True)
    return replace(scenario, topologies=tuple(replace(one, replicas=mine) for one, mine in pairs))


def drawn_replicas(scenario: Scenario, share: float, seed: int) -> Scenario:
    """A share of all partitions has a replica on another node, wherever that is."""
    rng, names = random.Random(seed), [node.name for node in scenario.nodes]
    drawn = []
    for one in scenario.topologies:
        chosen = [(p, home) for p, home in sorted(one.assignment.items()) if rng.random() < share]
        drawn.append({p: rng.choice([name for name in names if name != home]) for p, home in chosen})
    return replicated(scenario, drawn)


def everywhere(scenario: Scenario, node: str) -> Scenario:
    """All partitions that are not on this node have a replica there."""
    return replicated(
        scenario,
        [{p: node for p, home in one.assignment.items() if home != node} for one in scenario.topologies],
    )


def test_a_replica_acts_only_where_its_partition_is_lost_and_it_is_not() -> None:
    assignment = {"a": "n1", "b": "n1", "c": "n2", "d": "n1"}
    replicas = {"a": "n3", "b": "n2", "c": "n3"}
    assert takeovers(assignment, replicas, {"n1", "n2"}) == {"a": "n3", "c": "n3"}
    assert takeovers(assignment, replicas, {"n1"}) == {"a": "n3", "b": "n2"}
    assert takeovers(assignment, replicas, {"n3"}) == {}


@pytest.mark.parametrize("algorithm", ["best_density", "blocking"])
def test_where_replicas_take_over_everything_nothing_is_restored(algorithm: str) -> None:
    scenario = drawn_scenario(3, dead=2)
    left = next(node.name for node in scenario.nodes if node.name not in dead_of(scenario))
    outcome = simulate(scenario_for(everywhere(scenario, left), algorithm))
    assert outcome.ended
    assert outcome.waves == ()
    assert not outcome.failed
    assert all(not query.gaps for query in outcome.queries)
    assert simulate(scenario_for(scenario, algorithm)).failed, "without replicas some failed"


def test_replicas_on_nodes_that_fail_too_are_of_no_use() -> None:
    scenario = drawn_scenario(3, dead=2)
    without = simulate(scenario)
    both = sorted(dead_of(scenario))
    useless = [
        {p: both[1] if home == both[0] else both[0] for p, home in one.assignment.items() if home in both}
        for one in scenario.topologies
    ]
    assert strip(simulate(replicated(scenario, useless))) == strip(without)


def lost(scenario: Scenario) -> set[str]:
    """Partitions that no replica takes over, by full name."""
    dead = dead_of(scenario)
    return {
        f"{one.topology.name}/{p}"
        for one in scenario.topologies
        for p, node in {**one.assignment, **one.taken_over(dead)}.items()
        if node in dead
    }


def needing(scenario: Scenario, partitions: set[str]) -> set[str]:
    return {
        f"{one.topology.name}/{query}"
        for one in scenario.topologies
        for query in one.topology.queries
        if any(f"{one.topology.name}/{p}" in partitions for p in one.topology.query_partitions[query])
    }


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    seed=st.integers(0, 50),
    algorithm=st.sampled_from(["blocking", "best_density", "operator_centric"]),
    topologies=st.integers(1, 2),
    dead=st.integers(1, 5),
    share=st.floats(0.1, 0.9),
    rollback=st.sampled_from(["ancestors", "global"]),
)
def test_any_recovery_with_replicas(
    seed: int, algorithm: str, topologies: int, dead: int, share: float, rollback: Any
) -> None:
    scenario = drawn_scenario(seed, dead=dead, topologies=topologies, rollback=rollback)
    scenario = drawn_replicas(scenario, share, seed)
    outcome = simulate(scenario_for(scenario, algorithm))
    check(outcome)
    assert outcome.ended
    assert {query.name for query in outcome.failed} == needing(scenario, lost(scenario))
    for query in outcome.queries:
        stopped = any(begin == outcome.started_at for begin, _ in query.gaps)
        assert stopped is query.failed, "only a plan may stop what goes on"


@settings(max_examples=10, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(seed=st.integers(0, 50), share=st.floats(0.2, 0.9))
def test_the_best_course_has_the_same_takeovers(seed: int, share: float) -> None:
    scenario = drawn_replicas(drawn_scenario(seed, dead=3), share, seed)
    found = compare(scenario, ["best_density"])
    ours, best = found.outcomes["best_density"], found.reference
    assert best is not None
    assert best.curve[0] == ours.curve[0], "what goes on"
    assert best.area(found.horizon) >= ours.area(found.horizon) - 5e-3


def test_what_acts_is_lost_with_the_node_on_which_it_acts() -> None:
    scenario = drawn_scenario(3, dead=1)
    left = next(node.name for node in scenario.nodes if node.name not in dead_of(scenario))
    twice = replace(scenario, failures=(*scenario.failures, Failure(at=60.0, nodes=(left,))))
    world = World(everywhere(twice, left))
    outcome = world.run()
    check(outcome)
    assert outcome.ended
    assert outcome.incidents == 2
    assert outcome.failed
    assert outcome.waves[0].decided_at > 60.0


def test_replicas_of_unknown_partitions_or_nodes_are_refused() -> None:
    scenario = drawn_scenario(3)
    with pytest.raises(ValueError, match=r"topologies\[0\].replicas.* has no X\[0\]"):
        replicated(scenario, [{"X[0]": "node-1"}])
    partition = scenario.topologies[0].topology.partitions[0]
    with pytest.raises(ValueError, match=r"topologies\[0\].replicas.* there is no node moon"):
        replicated(scenario, [{partition: "moon"}])
