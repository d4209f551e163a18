"""What queries give when only some partitions run, and where the replicas of a plan would be."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from domain.replication import FidelityModel, ReplicationProblem, StructureAware, equal_rates
from domain.replication.losses import what_is_left
from domain.replication.placing import ReplicaNode
from domain.replication.supposing import replicas_supposed
from domain.topology import Topology
from tests.unit.domain.replication.topologies import left_of, operator, topology_of


def two_queries() -> Topology:
    """Three sources; A reads all of them, B[0] only the first, and so on."""
    return topology_of(
        operator("S", 3),
        operator("A", 1, ("S", "full"), output=True),
        operator("B", 3, ("S", "one_to_one"), output=True),
    )


def test_a_query_goes_on_lacks_a_part_of_its_input_or_stops() -> None:
    topology = two_queries()
    model = FidelityModel(topology, equal_rates(topology))
    left = what_is_left(model, [p for p in topology.partitions if p not in ("S[0]", "B[1]")])
    assert {one.query: (one.outcome, one.left) for one in left.queries} == {
        "A[0]": ("lacks_input", pytest.approx(2 / 3)),
        "B[0]": ("stops", 0.0),
        "B[1]": ("stops", 0.0),
        "B[2]": ("goes_on", 1.0),
    }
    assert (left.those("stops"), left.those("lacks_input")) == (["B[0]", "B[1]"], ["A[0]"])


@given(st.integers(2, 40), st.floats(0.001, 1000.0))
def test_whole_inputs_are_whole_however_they_add_up(parallelism: int, rate: float) -> None:
    topology = topology_of(operator("S", parallelism), operator("A", 1, ("S", "full"), output=True))
    rates = {p: rate * (index + 1) / 7 for index, p in enumerate(topology.partitions)}
    left = what_is_left(FidelityModel(topology, rates), topology.partitions)
    assert [one.outcome for one in left.queries] == ["goes_on"]


@given(st.data())
def test_shares_are_those_of_the_equations(data: st.DataObject) -> None:
    topology = two_queries()
    alive = data.draw(st.lists(st.sampled_from(topology.partitions), unique=True))
    rates = {p: data.draw(st.floats(0.1, 100.0)) for p in topology.partitions}
    expected = left_of(topology, rates, alive)
    for one in what_is_left(FidelityModel(topology, rates), alive).queries:
        assert one.left == pytest.approx(expected[one.query], abs=1e-9)
        assert one.outcome == (
            "stops"
            if expected[one.query] == 0
            else "goes_on"
            if expected[one.query] > 1 - 1e-9
            else "lacks_input"
        )


def test_a_plan_is_placed_at_once_as_far_as_there_is_room() -> None:
    topology = two_queries()
    problem = ReplicationProblem(topology, equal_rates(topology), 7)
    homes = dict.fromkeys(topology.partitions, "n1")
    costs = dict.fromkeys(topology.partitions, 10.0)
    nodes = [
        ReplicaNode(name="n1", rack="a", free=500.0),
        ReplicaNode(name="n2", rack="a", free=500.0),
        ReplicaNode(name="n3", rack="b", free=55.0),
    ]
    found = replicas_supposed(StructureAware(), problem, homes=homes, nodes=nodes, costs=costs)
    assert set(found.assignment.values()) == {"n3"}
    assert len(found.assignment) == 5, "a new replica needs 1.2 times its costs"
    assert len(found.unplaced) == 2
    assert not found.waiting
