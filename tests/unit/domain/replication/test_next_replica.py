"""What the next replica would buy."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from domain.replication import ReplicationProblem, StructureAware, equal_rates
from domain.replication.next_replica import FARTHEST, next_replica
from domain.topology import Topology
from tests.unit.domain.replication.topologies import operator, topology_of


def chains(length: int, width: int = 2) -> Topology:
    """So many chains beside each other, each from its own source to its own query."""
    names = [f"O{index}" for index in range(length)]
    return topology_of(
        operator(names[0], width),
        *(
            operator(name, width, (before, "one_to_one"), output=name == names[-1])
            for before, name in itertools.pairwise(names)
        ),
    )


def problem_of(topology: Topology, budget: int) -> ReplicationProblem:
    return ReplicationProblem(topology, equal_rates(topology), budget)


def test_as_many_more_as_a_whole_chain_needs() -> None:
    topology = chains(4)
    found = next_replica(StructureAware(), problem_of(topology, 4))
    assert found is not None
    assert (found.budget, found.more, found.gain, found.fidelity) == (8, 4, 0.5, 1.0)
    assert len(found.added) == 4
    assert found.dropped == ()
    begun = next_replica(StructureAware(), problem_of(topology, 7))
    assert begun is not None
    assert (begun.budget, begun.more, begun.gain) == (8, 1, 0.5)


def test_where_nothing_near_gains_that_is_said() -> None:
    found = next_replica(StructureAware(), problem_of(chains(FARTHEST + 2), 0))
    assert found is not None
    assert (found.budget, found.gain, found.fidelity, found.added) == (FARTHEST, 0.0, 0.0, ())


def test_there_is_none_after_all_partitions() -> None:
    topology = chains(2)
    assert next_replica(StructureAware(), problem_of(topology, 4)) is None
    assert next_replica(StructureAware(), problem_of(topology, 9)) is None


@given(st.integers(1, 4), st.integers(1, 3), st.integers(0, 12))
def test_it_is_the_gain_of_the_plan_with_that_budget(length: int, width: int, budget: int) -> None:
    topology = chains(length + 1, width)
    planner = StructureAware()
    found = next_replica(planner, problem_of(topology, budget))
    if found is None:
        assert budget >= len(topology.partitions)
        return
    fidelity = [
        planner.plan(problem_of(topology, one)).fidelity_after for one in range(budget, found.budget + 1)
    ]
    assert found.gain == pytest.approx(fidelity[-1] - fidelity[0])
    assert all(one == pytest.approx(fidelity[0]) for one in fidelity[:-1]), "the first that gains anything"
