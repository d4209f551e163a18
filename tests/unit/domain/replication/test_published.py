"""The algorithms as they were published: examples by hand for Algorithms 3, 4 and 5."""

from __future__ import annotations

import pytest

from benchmarks.replication.cases import Recipe, models
from domain.replication import FidelityModel, ReplicationProblem, equal_rates, replication_planner_named
from domain.replication.parts import parts_of
from domain.replication.segments import Units
from domain.topology import Topology
from tests.unit.domain.replication.topologies import operator, topology_of


def steps_of(topology: Topology, rates: dict[str, float], budget: int) -> list[set[str]]:
    plan = replication_planner_named("published").plan(ReplicationProblem(topology, rates, budget))
    found: dict[int, set[str]] = {}
    for one in plan.chosen:
        found.setdefault(one.step, set()).add(one.partition)
    return [found[step] for step in sorted(found)]


FULL = topology_of(
    operator("A", 3), operator("B", 2, ("A", "full")), operator("C", 2, ("B", "full"), output=True)
)
FULL_RATES = {"A[0]": 1.0, "A[1]": 5.0, "A[2]": 4.0, "B[0]": 2.0, "B[1]": 8.0, "C[0]": 1.0, "C[1]": 9.0}


def test_a_full_topology_begins_with_one_partition_of_each_operator() -> None:
    """Then the increases decide, which are those of partitions alone in their operators: A[2] has 0.4 of A,
    B[0] 0.2 of B, A[0] and C[0] have 0.1."""
    steps = steps_of(FULL, FULL_RATES, 6)
    assert steps == [{"A[1]", "B[1]", "C[1]"}, {"A[2]"}, {"B[0]"}, {"A[0]"}]
    assert steps_of(FULL, FULL_RATES, 2) == [], "less than one of each operator gives nothing"


def test_an_increase_is_what_an_operator_adds() -> None:
    """B is one of two ways, with a tenth of the rows: losing it costs little, whichever partition is left."""
    topology = topology_of(
        operator("A", 2), operator("B", 2), operator("C", 1, ("A", "full"), ("B", "full"), output=True)
    )
    rates = {"A[0]": 50.0, "A[1]": 40.0, "B[0]": 6.0, "B[1]": 4.0, "C[0]": 9.0}
    assert steps_of(topology, rates, 4) == [{"A[0]", "B[0]", "C[0]"}, {"A[1]"}]


def tree() -> Topology:
    """Sources are merged in pairs, and what the merger gives is split: a boundary between A and B."""
    return topology_of(
        operator("A", 4), operator("B", 2, ("A", "merge")), operator("C", 4, ("B", "split"), output=True)
    )


def test_a_unit_ends_where_merged_input_is_split() -> None:
    units = Units(FidelityModel(tree(), equal_rates(tree()))).units
    assert [[len(segment) for segment in unit.segments] for unit in units] == [[1, 1, 1, 1], [2, 2, 2, 2]]
    assert [unit.beside for unit in units] == [(1,), (0,)]


def test_a_join_of_merged_inputs_is_a_unit_of_its_own() -> None:
    topology = topology_of(
        operator("A", 4),
        operator("B", 2),
        operator("J", 2, ("A", "merge"), ("B", "one_to_one"), correlated=True, output=True),
    )
    units = Units(FidelityModel(topology, equal_rates(topology))).units
    assert [len(unit.segments) for unit in units] == [4, 2]
    rates = {**equal_rates(topology), "A[2]": 3.0, "J[1]": 2.0}
    assert steps_of(topology, rates, 4) == [{"A[2]", "B[1]", "J[1]"}, {"A[3]"}]


def test_segments_that_give_nothing_alone_come_with_those_beside_them() -> None:
    rates = {**equal_rates(tree()), "A[2]": 9.0, "C[3]": 5.0}
    steps = steps_of(tree(), rates, 4)
    assert steps[0] == {"A[2]", "B[1]", "C[3]"}
    assert steps[1] < {"C[2]", "A[3]"}


def general() -> Topology:
    return topology_of(
        operator("Source", 4),
        operator("Parser", 4, ("Source", "one_to_one")),
        operator("Count", 3, ("Parser", "full")),
        operator("Top", 2, ("Count", "full"), output=True),
    )


def test_parts_of_a_general_topology() -> None:
    parts = parts_of(FidelityModel(general(), equal_rates(general())))
    assert [(part.structure, set(part.model.topology.by_name)) for part in parts] == [
        ("structured", {"Source", "Parser"}),
        ("full", {"Count", "Top"}),
    ]


def test_a_general_topology_is_planned_part_by_part() -> None:
    rates = {**equal_rates(general()), "Source[1]": 4.0, "Parser[1]": 4.0, "Count[2]": 2.0, "Top[1]": 3.0}
    steps = steps_of(general(), rates, 6)
    assert steps[0] == {"Source[1]", "Parser[1]", "Count[2]", "Top[1]"}
    assert steps[1:] == [{"Count[0]"}, {"Count[1]"}]
    assert steps_of(general(), rates, 3) == []


@pytest.mark.parametrize("structure", ["structured", "full", "general"])
def test_plans_are_within_the_budget_and_reproducible(structure: str) -> None:
    planner = replication_planner_named("published")
    for model in models(Recipe(structure=structure, joins=None), 10):  # type: ignore[arg-type]
        for budget in range(1, len(model.partitions)):
            choice = planner.choose(model, budget)
            chosen = frozenset().union(*choice.steps)
            assert len(chosen) == sum(map(len, choice.steps)) <= budget
            assert choice == planner.choose(model, budget)
