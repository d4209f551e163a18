"""Replicas of topologies with cycles: what is in one or below one gives nothing unless all that it needs
runs."""

from __future__ import annotations

import random

import pytest

from domain.replication import (
    FidelityModel,
    ReplicationProblem,
    TooLargeError,
    complete_trees,
    equal_rates,
    replication_planner_named,
)
from domain.replication.explanation import explained
from domain.replication.losses import what_is_left
from domain.replication.trees import members
from domain.topology import InputSpec, OperatorSpec, Topology, TopologySpec
from tests.simulation.cyclic_graphs import cyclic_topology
from tests.unit.domain.replication.topologies import best_fidelities, left_of, operator

GROUPS = Topology(
    TopologySpec(
        name="t",
        operators=(
            operator("S", 2),
            OperatorSpec(
                name="G",
                kind="x",
                parallelism=2,
                inputs=(InputSpec(source="S"), InputSpec(source="G", feedback=True)),
            ),
            operator("V", 2, ("G", "full"), output=True),
        ),
    )
)


def needed(topology: Topology, partition: str) -> set[str]:
    """A partition with all that it needs, also by streams that lead back."""
    found, left = {partition}, [partition]
    while left:
        new = set(topology.upstream(left.pop())) - found
        found |= new
        left += new
    return found


def waits(topology: Topology, partition: str) -> bool:
    """Whether it is in a cycle or below one."""
    return any(
        one in needed(topology, above)
        for one in needed(topology, partition)
        for above in topology.upstream(one)
    )


def model_of(seed: int) -> FidelityModel:
    dice = random.Random(seed)
    topology = cyclic_topology(dice)
    rates = {partition: dice.choice((0.0, 1.0, 2.0, 9.0)) for partition in topology.partitions}
    return FidelityModel(topology, rates)


@pytest.mark.parametrize("seed", range(10))
def test_a_cycle_gives_all_or_nothing(seed: int) -> None:
    model, dice = model_of(seed), random.Random(seed)
    rates = dict(zip(model.partitions, model.rates.tolist(), strict=True))
    for _ in range(20):
        alive = [partition for partition in model.partitions if dice.random() < dice.choice((0.5, 0.9, 0.97))]
        expected = left_of(model.topology, rates, alive)
        for partition in model.partitions:
            if waits(model.topology, partition):
                expected[partition] = float(needed(model.topology, partition) <= set(alive))
        left = model.left(model.flags([[model.index[one] for one in alive]]))[0]
        assert left.tolist() == pytest.approx([expected[one] for one in model.partitions])


@pytest.mark.parametrize("seed", range(2))
def test_plans_know_that(seed: int) -> None:
    model = model_of(seed)
    rates, best = dict(zip(model.partitions, model.rates.tolist(), strict=True)), best_fidelities(model)
    for name in ("structure_aware", "optimal", "dynamic_programming"):
        for budget in range(1, len(model.partitions)):
            plan = replication_planner_named(name).plan(ReplicationProblem(model.topology, rates, budget))
            assert plan.plain_fidelity_after == pytest.approx(best[budget], abs=1e-6), (name, budget)


def test_a_tree_below_a_cycle_has_all_of_it() -> None:
    model = FidelityModel(GROUPS, equal_rates(GROUPS))
    trees = complete_trees(model, largest=6, most=10)
    assert [{model.partitions[one] for one in members(tree)} for tree in trees] == [
        {"S[0]", "S[1]", "G[0]", "G[1]", "V[0]"},
        {"S[0]", "S[1]", "G[0]", "G[1]", "V[1]"},
    ]
    assert complete_trees(model, largest=4, most=10) == []


def test_without_a_part_of_a_cycle_queries_stop() -> None:
    model = FidelityModel(GROUPS, equal_rates(GROUPS))
    for lost in ("S[0]", "G[1]"):
        assert what_is_left(model, set(GROUPS.partitions) - {lost}).those("stops") == ["V[0]", "V[1]"]


def test_what_a_cycle_lacks_is_named() -> None:
    model = FidelityModel(GROUPS, equal_rates(GROUPS))
    chosen = frozenset(model.index[partition] for partition in ("S[1]", "G[0]", "V[0]"))
    plan = explained(
        model, 3, [chosen], planner="greedy", objective="plain", proven=False, bound=None, note=""
    )
    nothing = "gives nothing before it is recovered"
    assert [one.reason for one in plan.queries] == [
        f"{nothing}: a cycle waits for all that it reads, and G[1], S[0] have no replica",
        f"{nothing}: it has no replica itself",
    ]


def test_the_published_algorithms_have_no_cycles() -> None:
    with pytest.raises(TooLargeError, match="know no cycles; ask structure_aware"):
        replication_planner_named("published").plan(ReplicationProblem(GROUPS, equal_rates(GROUPS), 3))
